"""The TRL notes on GRPO: rewards to advantages to losses, and their thirteen questions, each with a check."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from table import NO_BOUND, Table, advantages, cell, numbers, ragged

from rlexp.axes import agg, clip, kl, shaping, teacher
from rlexp.config.compose import compose
from rlexp.core.masked import masked_mean, per_token
from rlexp.core.registry import bind_choice, required_inputs
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.models.policy import gather_log_probs
from rlexp.tasks import TASKS, total_reward

LENGTHS = [5, 4, 6]
COMPONENTS, WEIGHTS = [[1.0, 0.8], [1.0, 0.7], [0.0, -0.2]], {"accuracy": 0.7, "format": 0.3}
LOG_RATIOS = [  # of tokens of ours; the mean ratios of the first two are those of the notes, 1.033 and 1.0077
    [0.10, -0.07, 0.09, -0.04, 0.07],
    [0.10, -0.08, 0.05, -0.05],
    [0.06, 0.00, -0.06, 0.03, -0.03, 0.00],
]
PADDING = -100.0  # the notes' log-probability of what is no token, under both policies
Answer = tuple[str, bool]
unclipped, ppo = clip.FUNCTIONS["unclipped"], clip.FUNCTIONS["ppo"]


def weighted(components: list[list[float]]) -> torch.Tensor:
    """Return the weighted sums of two components ``[G]``, those that are NaN left out."""
    columns = numbers(components).T.unsqueeze(-2)  # [P G] each
    return total_reward(dict(zip(WEIGHTS, columns, strict=True)), WEIGHTS)[0]


def of_tokens(values: list[float]) -> torch.Tensor:
    """Return ``[1 G T]`` for the notes' three completions: each token has the number of its completion."""
    return numbers(values).view(1, -1, 1).expand(1, -1, max(LENGTHS))


def log_probs_of_both() -> tuple[torch.Tensor, torch.Tensor]:
    """Return log-probabilities ``[1 G T]`` of the policy and of the one that sampled, padded as in the notes."""
    old = numbers([[-1.0] * length + [PADDING] * (max(LENGTHS) - length) for length in LENGTHS])
    moved = numbers([row + [0.0] * (max(LENGTHS) - len(row)) for row in LOG_RATIOS])
    return (old + moved).unsqueeze(0), old.unsqueeze(0)


def ppo_losses(ddof: int) -> torch.Tensor:
    """Return PPO's loss of each token of three completions with rewards 1, 0 and 0.5."""
    gains = of_tokens(advantages([[1, 0, 0.5]], "local", eps=1e-8, ddof=ddof)[0].tolist())
    return clip.FUNCTIONS["ppo"](*log_probs_of_both(), gains, ragged(LENGTHS), NO_BOUND, low=0.2, high=0.2)


def by_aggregation(losses: torch.Tensor) -> dict[str, float]:
    """Return the loss of three completions by TRL's ``loss_type``."""
    mask = ragged(LENGTHS)
    choices = {"grpo": ("sequence", {}), "bnpo": ("bnpo", {}), "dr_grpo": ("dr_grpo", {"length": max(LENGTHS)})}
    return {
        kind: agg.FUNCTIONS[name](losses, mask, **hyperparameters).item()
        for kind, (name, hyperparameters) in choices.items()
    }


def rewards_to_losses() -> Table:
    """Two reward functions, weighted (S3.4), to advantages (S3.13) and to losses where every ratio is 1."""
    rewards = weighted(COMPONENTS)
    by_less, by_n = (advantages([rewards.tolist()], "local", eps=1e-8, ddof=ddof)[0].tolist() for ddof in (1, 0))
    losses = [-value + 0.0 for value in by_less]
    columns = *zip(*COMPONENTS, strict=True), rewards.tolist(), by_less, by_n, losses
    return Table(
        "Reward, advantage, loss: three completions of a prompt, weights 0.7 and 0.3",
        ("completion", *WEIGHTS, "reward", "A (n - 1)", "A (n)", "loss a token"),
        [(str(place + 1), *row) for place, row in enumerate(zip(*columns, strict=True))],
    )


def log_ratios() -> Table:
    """Log-ratios of three padded completions to the mean loss of each (S3.14)."""
    mask = ragged(LENGTHS)
    log_probs, old = log_probs_of_both()
    differences = log_probs - old
    ratios = masked_mean(differences.exp(), mask, (-1,)).flatten().tolist()
    losses = masked_mean(ppo_losses(ddof=0), mask, (-1,)).flatten().tolist()
    rows = []
    for place, length in enumerate(LENGTHS):
        tokens = [f"{each:+.2f}" for each in differences[0, place, :length].tolist()]
        tokens += ["pad"] * (max(LENGTHS) - length)
        rows.append((str(place + 1), *tokens, ratios[place], losses[place]))
    return Table(
        "Log-ratios of the tokens of three completions, A = 1.225, -1.225 and 0",
        ("completion", *map(str, range(1, max(LENGTHS) + 1)), "mean ratio", "mean loss"),
        rows,
        "The tokens are ours; the first two mean ratios are those of the notes. All ratios are between 0.9 and 1.11, "
        "so clip 0.2 changes none. Padding has log-probability -100 under both policies: log-ratio 0, and the mask "
        "leaves it out.",
    )


def losses_to_loss() -> Table:
    """Three completions from rewards to one loss (S3.14): ``norm.local``, ``clip.ppo``, three aggregations."""
    by_n, by_less = (by_aggregation(ppo_losses(ddof)) for ddof in (0, 1))
    return Table(
        "Losses of three completions with 5, 4 and 6 tokens to one loss",
        ("loss_type", "A = 1.225, deviation by n", "A = 1, by n - 1"),
        [(name, loss, by_less[name]) for name, loss in by_n.items()],
        "Rewards 1, 0 and 0.5, the log-ratios above. dapo is bnpo as long as a rollout is one minibatch.",
    )


def tokens_share_an_advantage() -> Answer:
    """An advantage a completion is the same at each of its tokens; a norm may also give one a token."""
    mask, one = ragged(LENGTHS), numbers([[1.0, -1.0, 0.0]])
    spread = one.unsqueeze(-1).expand(mask.shape)
    same = per_token(one, mask).expand(mask.shape).equal(per_token(spread, mask))
    return "the completion, and each of its tokens has it; a reward a token works, too", same


def which_log_probability() -> Answer:
    """Three tokens of which the first and the last are the same one; the last is padding."""
    distributions = numbers([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0], [0.0, 0.0, 2.0]]).log_softmax(-1)
    tokens, mask = torch.tensor([2, 1, 2]), torch.tensor([True, True, False])
    gathered = gather_log_probs(distributions, tokens)
    picked = torch.stack([distributions[place, token] for place, token in enumerate(tokens)])
    counted = masked_mean(gathered, mask, (-1,)).item()
    holds = gathered.equal(picked) and gathered[0] != gathered[2] and math.isclose(counted, gathered[:2].mean().item())
    return "the sampled token's at its own place; elsewhere it has another; padding is left out", holds


def teacher_of_minillm() -> Answer:
    """The teacher is paid for, the reference is a penalty: two networks."""
    asked, penalty = required_inputs(teacher.alone), required_inputs(kl.FUNCTIONS["k3"])
    student, taught = numbers([[[-2.0, -0.5]]]), numbers([[[-1.0, -0.7]]])
    earned = teacher.alone(student, taught, coef=1.0).flatten().tolist()
    apart = "teacher_log_probs" in asked and "ref_log_probs" not in asked and "teacher_log_probs" not in penalty
    right = all(math.isclose(*pair) for pair in zip(earned, (1.0, -0.2), strict=True))
    return "a better, fixed model; a token earns log teacher - log student; not the reference", apart and right


def no_penalty_no_reference() -> Answer:
    """β = 0, and DPO."""
    asked = {name for choice in (ppo, agg.token) for name in required_inputs(choice)}
    needed = all("ref_log_probs" in required_inputs(each) for each in (kl.FUNCTIONS["k3"], clip.FUNCTIONS["dpo"]))
    return "GRPO at beta 0: nothing asks for it; a KL penalty and DPO do", needed and "ref_log_probs" not in asked


def two_columns() -> Answer:
    """One column a reward function, a weight each."""
    found = weighted(COMPONENTS).tolist()
    expected = [0.7 * accuracy + 0.3 * form for accuracy, form in COMPONENTS]
    same = all(math.isclose(*pair) for pair in zip(found, expected, strict=True))
    return f"one a reward function; weighted, they are {', '.join(map(cell, found))}", same


def rewards_that_do_not_apply() -> Answer:
    """Accuracy is 1, 0 or None, format is 1 or 0. None is NaN and is left out: 0.3 · 0.8."""
    found = weighted([[math.nan, 0.8]]).item()
    return f"right or not, and well-formed or not; None is left out: {cell(found)}", math.isclose(found, 0.24)


def penalty_by_default() -> Answer:
    """Nothing by default; by TRL's script at most 1,280 tokens, the last 256 of them soft."""
    tokens = numbers([[1024, 1152, 1280, 1281]])
    found = shaping.overlong(torch.zeros_like(tokens), tokens, cap=1280, cache=256, factor=1.0)[0].tolist()
    none = compose().shaping.name == "none"
    return f"no, shaping=overlong is one: {', '.join(map(cell, found))}", none and found == [0, -0.5, -1, -1]


def paper_aggregates_by_completion() -> Answer:
    """GRPO's 1/|o| is the mean over completions of their token means; DAPO made it a mean over tokens."""
    found = by_aggregation(of_tokens([3.0, 1.0, 0.0]))
    return "no: GRPO's paper is agg=sequence, token level came with DAPO", not math.isclose(
        found["grpo"], found["bnpo"]
    )


def a_loss_for_each() -> Answer:
    """The loss of a run is the mean of as many losses as there are completions."""
    losses, mask = ppo_losses(ddof=1), ragged(LENGTHS)
    each = masked_mean(losses, mask, (-1,)).flatten()
    return "yes, until they are averaged to one", math.isclose(each.mean().item(), agg.sequence(losses, mask).item())


def completions_are_apart() -> Answer:
    """Another second completion changes no bit of the first one's log-probabilities."""
    task = bind_choice(TASKS, compose().task)()
    policy = MODELS["gru"](Init([0]), task, hidden=8, layers=1)
    prompts = torch.zeros(1, 1, task.prompt_length, dtype=torch.long)
    tokens = torch.zeros(1, 1, 2, task.cap, dtype=torch.long)
    before = policy(prompts, tokens)[0, 0]
    tokens[0, 0, 1] = 1
    after = policy(prompts, tokens)[0, 0]
    return "no, each completion has its own", before[0].equal(after[0]) and not before[1].equal(after[1])


def mean_of_three() -> Answer:
    """Losses −0.3, 0.2 and 0."""
    found = masked_mean(numbers([-0.3, 0.2, 0.0]), torch.ones(3, dtype=torch.bool), (-1,)).item()
    return f"{found:.3f}; but A = -0.5 and clip 0.2 allow no loss below 0.4", round(found, 3) == -0.033


def backward_of_many() -> Answer:
    """A loss for each completion."""
    losses = numbers([1.0, 2.0]).requires_grad_()
    (2 * losses).backward(torch.ones(2, dtype=torch.float64))
    return "yes, with a gradient argument; only the default needs one number", losses.grad.tolist() == [2.0, 2.0]


def one_part_in_b() -> Answer:
    """The mean over B losses gives each 1/B from above; what a completion contributes is that times its own slope."""
    log_probs = numbers([[[-1.0], [-1.0], [-1.0]]]).requires_grad_()
    gains, mask = numbers([[[1.0], [-1.0], [0.0]]]), torch.ones(1, 3, 1, dtype=torch.bool)
    (slopes,) = torch.autograd.grad(agg.sequence(-gains * log_probs, mask), log_probs)
    found = [3 * each for each in slopes.flatten().tolist()]
    return "it scales all alike; each contributes by its own advantage", [round(each, 9) for each in found] == [
        -1,
        1,
        0,
    ]


def two_definitions() -> Answer:
    """The notes' summary has r − mean, their second step divides."""
    centred, divided = advantages([[1, 0, 0.5]], "center"), advantages([[1, 0, 0.5]], "local", eps=1e-8, ddof=1)
    return "two choices: norm=center and norm=local", not torch.allclose(centred, divided)


def two_deviations() -> Answer:
    """0.408 is the deviation by n, the formula beside it and torch.std are by n − 1: 0.5."""
    largest = [advantages([[1, 0, 0.5]], "local", eps=1e-8, ddof=ddof).max().item() for ddof in (0, 1)]
    return f"by n A is {largest[0]:.3f}, by n - 1 {largest[1]:.3f}", [round(x, 3) for x in largest] == [1.225, 1.0]


def loss_on_policy() -> Answer:
    """Where every ratio is 1 the loss is minus the mean advantage, which is 0: it shows no progress."""
    log_probs = numbers([[[-0.5, -1.0], [-2.0, -0.1]]]).requires_grad_()
    gains = advantages([[1, 0]], "center").unsqueeze(-1).expand_as(log_probs)
    mask = torch.ones_like(log_probs, dtype=torch.bool)
    loss = agg.bnpo(unclipped(log_probs, log_probs.detach(), gains, mask, NO_BOUND), mask)
    (slopes,) = torch.autograd.grad(loss, log_probs)
    return "the loss is 0, its gradient is not", abs(loss.item()) < 1e-12 and slopes.ne(0).all().item()


def equal_rewards() -> Answer:
    """A group of equal rewards."""
    found = advantages([[1, 1, 1, 1]], "local", eps=1e-8, ddof=1)
    return "nothing: every advantage is exactly 0", found.eq(0).all().item()


def nothing_is_clipped() -> Answer:
    """The notes' log-ratios are within ±0.1, their clip is 0.2."""
    log_probs, mask = numbers([[[0.1, -0.1]]]), torch.ones(1, 1, 2, dtype=torch.bool)
    old, one = torch.zeros_like(log_probs), torch.ones_like(log_probs)
    given = log_probs, old, one, mask, NO_BOUND
    same = ppo(*given, low=0.2, high=0.2).equal(unclipped(*given))
    return "none: ratios are between 0.905 and 1.105", same


def padding() -> Answer:
    """−∞ − (−∞) is NaN, and NaN · 0 is NaN."""
    nan = numbers([1.0, -math.inf]) - numbers([0.5, -math.inf])
    product, chosen = (nan * numbers([1.0, 0.0])).sum(), masked_mean(nan, torch.tensor([True, False]), (-1,))
    return "multiplying does not remove it, choosing does", product.isnan().item() and chosen.item() == 0.5


QUESTIONS: dict[str, Callable[[], Answer]] = {  # of the notes, in their order, in words of ours
    "Is it a token or a completion that has an advantage?": tokens_share_an_advantage,
    "Which log-probability is a token's, and does padding count?": which_log_probability,
    "Who is the teacher of MiniLLM, and is it the reference?": teacher_of_minillm,
    "Which trainers need no reference?": no_penalty_no_reference,
    "Why has the table of rewards two columns?": two_columns,
    "What do the rewards for accuracy and for format say?": rewards_that_do_not_apply,
    "Is there a penalty for length by default?": penalty_by_default,
    "Does token-level aggregation match the GRPO paper?": paper_aggregates_by_completion,
    "Has each completion a loss of its own?": a_loss_for_each,
    "Are hidden states averaged over completions?": completions_are_apart,
    "What is the loss of -0.3, 0.2 and 0?": mean_of_three,
    "Can one call backward on a loss a completion?": backward_of_many,
    "What does the 1/B of the mean do to each gradient?": one_part_in_b,
}
FURTHER: dict[str, Callable[[], Answer]] = {
    "Is the advantage divided by the deviation?": two_definitions,
    "By n or by n - 1?": two_deviations,
    "Why is the loss near 0 while the policy learns?": loss_on_policy,
    "What does a group of equal rewards teach?": equal_rewards,
    "Which tokens of the example are clipped?": nothing_is_clipped,
    "Does a mask save one from infinite padding?": padding,
}


def questions() -> Table:
    """The thirteen questions of the notes (S3.11), each with its answer and whether the check holds."""
    rows = [(f"Q{number}", question, *answer()) for number, (question, answer) in enumerate(QUESTIONS.items(), 1)]
    return Table("The notes' thirteen questions", ("", "question", "answer", "holds"), rows)


def further_questions() -> Table:
    """Questions that the notes raise and do not ask."""
    rows = [(question, *answer()) for question, answer in FURTHER.items()]
    return Table("And six that they raise", ("question", "answer", "holds"), rows)


EXAMPLES = (rewards_to_losses, log_ratios, losses_to_loss, questions, further_questions)
