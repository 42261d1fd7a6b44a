"""The TRL notes on GRPO: rewards to advantages to losses, and questions about them, each with a check."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from table import NO_BOUND, Table, advantages, cell, numbers, ragged

from rlexp.axes import agg, clip, kl, shaping
from rlexp.core.masked import masked_mean, per_token
from rlexp.core.registry import required_inputs
from rlexp.tasks import total_reward

LENGTHS = [5, 4, 6]
COMPONENTS, WEIGHTS = [[1.0, 0.8], [1.0, 0.7], [0.0, -0.2]], {"accuracy": 0.7, "format": 0.3}
RATIOS = [1.0330, 1.0077, 1.0]  # means over the tokens of the notes' three completions; no token of theirs is clipped
Answer = tuple[str, bool]
unclipped, ppo = clip.FUNCTIONS["unclipped"], clip.FUNCTIONS["ppo"]


def weighted(components: list[list[float]]) -> torch.Tensor:
    """Return the weighted sums of two components ``[G]``, those that are NaN left out."""
    columns = numbers(components).T.unsqueeze(-2)  # [P G] each
    return total_reward(dict(zip(WEIGHTS, columns, strict=True)), WEIGHTS)[0]


def of_tokens(values: list[float]) -> torch.Tensor:
    """Return ``[1 G T]`` for the notes' three completions: each token has the number of its completion."""
    return numbers(values).view(1, -1, 1).expand(1, -1, max(LENGTHS))


def ppo_losses(ddof: int) -> torch.Tensor:
    """Return PPO's loss of each token of three completions with rewards 1, 0 and 0.5."""
    gains = of_tokens(advantages([[1, 0, 0.5]], "local", eps=1e-8, ddof=ddof)[0].tolist())
    log_ratios = of_tokens(RATIOS).log()
    given = log_ratios, torch.zeros_like(log_ratios), gains, ragged(LENGTHS)
    return clip.FUNCTIONS["ppo"](*given, NO_BOUND, low=0.2, high=0.2)


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


def losses_to_loss() -> Table:
    """Three completions from rewards to one loss (S3.14): ``norm.local``, ``clip.ppo``, three aggregations."""
    by_n, by_less = (by_aggregation(ppo_losses(ddof)) for ddof in (0, 1))
    return Table(
        "Losses of three completions with 5, 4 and 6 tokens to one loss",
        ("loss_type", "A = 1.225, deviation by n", "A = 1, by n - 1"),
        [(name, loss, by_less[name]) for name, loss in by_n.items()],
        "Rewards 1, 0 and 0.5; the first two completions have mean ratios of 1.033 and 1.0077, the third has no "
        "advantage. dapo is bnpo as long as a rollout is one minibatch.",
    )


def missing_reward() -> Answer:
    """A reward of None is NaN and is left out: 0.3 · 0.8."""
    found = weighted([[math.nan, 0.8]]).item()
    return f"it is left out: {cell(found)}", math.isclose(found, 0.24)


def overlong_penalty() -> Answer:
    """Defaults of TRL's script: at most 1,280 tokens, the last 256 of them soft."""
    tokens = numbers([[1024, 1152, 1280, 1281]])
    found = shaping.overlong(torch.zeros_like(tokens), tokens, cap=1280, cache=256, factor=1.0)[0].tolist()
    return ", ".join(map(cell, found)), found == [0, -0.5, -1, -1]


def two_definitions() -> Answer:
    """The notes' summary has r − mean, their second step divides."""
    centred, divided = advantages([[1, 0, 0.5]], "center"), advantages([[1, 0, 0.5]], "local", eps=1e-8, ddof=1)
    return "two choices: norm=center and norm=local", not torch.allclose(centred, divided)


def two_deviations() -> Answer:
    """0.408 is the deviation by n, the formula beside it and torch.std are by n − 1: 0.5."""
    largest = [advantages([[1, 0, 0.5]], "local", eps=1e-8, ddof=ddof).max().item() for ddof in (0, 1)]
    return f"by n A is {largest[0]:.3f}, by n - 1 {largest[1]:.3f}", [round(x, 3) for x in largest] == [1.225, 1.0]


def tokens_share_an_advantage() -> Answer:
    """An advantage a completion is the same at each of its tokens; a norm may also give one a token."""
    mask, one = ragged(LENGTHS), numbers([[1.0, -1.0, 0.0]])
    spread = one.unsqueeze(-1).expand(mask.shape)
    same = per_token(one, mask).expand(mask.shape).equal(per_token(spread, mask))
    return "both work: one number a completion is one for each of its tokens", same


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


def paper_aggregates_by_completion() -> Answer:
    """GRPO's 1/|o| is the mean over completions of their token means; DAPO made it a mean over tokens."""
    found = by_aggregation(of_tokens([3.0, 1.0, 0.0]))
    return "no: GRPO's paper is agg=sequence, token level came with DAPO", not math.isclose(
        found["grpo"], found["bnpo"]
    )


def no_penalty_no_reference() -> Answer:
    """β = 0."""
    asked = {name for choice in (ppo, agg.token) for name in required_inputs(choice)}
    needed = "ref_log_probs" in required_inputs(kl.FUNCTIONS["k3"])
    return "no pass through it is made", needed and "ref_log_probs" not in asked


def nothing_is_clipped() -> Answer:
    """The notes' log-ratios are within ±0.1, their clip is 0.2."""
    log_probs, mask = numbers([[[0.1, -0.1]]]), torch.ones(1, 1, 2, dtype=torch.bool)
    old, one = torch.zeros_like(log_probs), torch.ones_like(log_probs)
    given = log_probs, old, one, mask, NO_BOUND
    same = ppo(*given, low=0.2, high=0.2).equal(unclipped(*given))
    return "none: ratios are between 0.905 and 1.105", same


def mean_of_three() -> Answer:
    """Losses −0.3, 0.2 and 0."""
    found = masked_mean(numbers([-0.3, 0.2, 0.0]), torch.ones(3, dtype=torch.bool), (-1,)).item()
    return f"{found:.3f}", round(found, 3) == -0.033


def backward_of_many() -> Answer:
    """A loss for each completion."""
    losses = numbers([1.0, 2.0]).requires_grad_()
    (2 * losses).backward(torch.ones(2, dtype=torch.float64))
    return "yes, with a gradient argument; only the default needs one number", losses.grad.tolist() == [2.0, 2.0]


def padding() -> Answer:
    """−∞ − (−∞) is NaN, and NaN · 0 is NaN."""
    nan = numbers([1.0, -math.inf]) - numbers([0.5, -math.inf])
    product, chosen = (nan * numbers([1.0, 0.0])).sum(), masked_mean(nan, torch.tensor([True, False]), (-1,))
    return "multiplying does not remove it, choosing does", product.isnan().item() and chosen.item() == 0.5


QUESTIONS: dict[str, Callable[[], Answer]] = {
    "What does a reward of None do?": missing_reward,
    "What do 1,024, 1,152, 1,280 and 1,281 tokens cost?": overlong_penalty,
    "Is the advantage divided by the deviation?": two_definitions,
    "By n or by n - 1?": two_deviations,
    "One advantage a completion, or one a token?": tokens_share_an_advantage,
    "Why is the loss near 0 while the policy learns?": loss_on_policy,
    "What does a group of equal rewards teach?": equal_rewards,
    "Does token-level aggregation match the GRPO paper?": paper_aggregates_by_completion,
    "What does the reference cost at beta 0?": no_penalty_no_reference,
    "Which tokens of the example are clipped?": nothing_is_clipped,
    "What is the loss of -0.3, 0.2 and 0?": mean_of_three,
    "Can one call backward on a loss a completion?": backward_of_many,
    "Does a mask save one from infinite padding?": padding,
}


def questions() -> Table:
    """Questions about the notes, each with its answer and whether the check holds."""
    answered = {question: answer() for question, answer in QUESTIONS.items()}
    return Table(
        f"{len(answered)} questions about the notes",
        ("question", "answer", "holds"),
        [(question, *answer) for question, answer in answered.items()],
    )


EXAMPLES = (rewards_to_losses, losses_to_loss, questions)
