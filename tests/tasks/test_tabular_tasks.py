"""Worlds: their completions are all there are, and evaluation sums over them as plain loops do."""

from __future__ import annotations

import math

import pytest
import reference_tasks
import torch
from policies import policy_of
from small_runs import compose
from task_choices import CHOICES, every_world, length_world
from torch.testing import assert_close

from rlexp.config.checks import evaluated_metrics
from rlexp.loop.evaluation import evaluate, exact
from rlexp.loop.rollout import as_rollout
from rlexp.loop.state import Network, TrainState

pytestmark = pytest.mark.slow  # sums over all completions

SEEDS, KS = (4, 9), [1, 3]
# Rounding of sums over a thousand float32 numbers.
ROUNDED = dict(rtol=2e-4, atol=2e-5)


def state_of(world) -> TrainState:
    policies = [policy_of("tabular", seeds, world) for seeds in (SEEDS, SEEDS[::-1])]
    networks = dict(zip(("policy", "reference"), map(Network, policies), strict=True))
    shared = dict(task=world, networks=networks, blocks=[], memory={}, seeds=SEEDS)
    sizes = dict(prompts=2, group=2, inner_steps=1, minibatches=1)
    return TrainState(temperature=torch.tensor([0.7, 1.3]), **shared, **sizes)


def listed(world) -> list[list[int]]:
    """All completions, without what follows their end."""
    rows = world.every_completion(torch.device("cpu")).tolist()
    return [row[: sum(reference_tasks.mask(row, world.end))] for row in rows]


def log_p(policy, world, replica: int, question: int, tokens: list[int], temperature: float) -> float:
    """Log-probability of a completion, token by token in float64."""
    table = policy.table.weight[replica].double().view(world.questions, world.states, -1)
    state, total = torch.zeros(1, 1, 1, dtype=torch.long), 0.0
    for place, token in enumerate(tokens):
        total += (table[question, state.item()] / temperature).log_softmax(-1)[token].item()
        if place + 1 < len(tokens):
            state = world.next_states(state, torch.full((1, 1, 1), token))
    return total


@every_world
def test_no_completion_is_listed_twice_and_together_they_have_probability_one(world):
    completions, state = listed(world), state_of(world)
    assert len({tuple(tokens) for tokens in completions}) == len(completions)
    for question in range(world.questions):
        chances = [math.exp(log_p(state.policy, world, 0, question, tokens, 1.0)) for tokens in completions]
        assert sum(chances) == pytest.approx(1, abs=1e-9)


def by_loops(state, world, replica: int) -> dict[str, list[float]]:
    """Every expectation, question by question, completion by completion."""
    temperature, found = state.temperature[replica].item(), {}
    for question in range(world.questions):
        sums = {}
        for tokens in listed(world):
            own, other = (
                log_p(network, world, replica, question, tokens, temperature)
                for network in (state.policy, state.reference)
            )
            padded = tokens + [max(world.pad, 0)] * (world.cap - len(tokens))
            prompt = [world.first_question + question]
            scores = reference_tasks.SCORES[reference_tasks.name_of(world)](world, prompt, padded)
            correct = scores.pop("correct")
            reward = sum(weight * scores[key] for key, weight in world.weights.items() if not math.isnan(scores[key]))
            values = scores | {"accuracy": correct, "reward": reward}
            values |= {"kl": own - other, "entropy": -own, "length": len(tokens)}
            values |= {"long": correct * len(tokens), "longer": (not correct) * len(tokens), "wrong": not correct}
            for key, value in values.items():
                sums[key] = sums.get(key, 0.0) + math.exp(own) * value
        for key, value in sums.items():
            found.setdefault(key, []).append(value)
    return found


@every_world
def test_evaluation_sums_over_all_completions(world):
    state = state_of(world)
    row = exact(state, KS)
    for replica in range(len(SEEDS)):
        found = by_loops(state, world, replica)
        p, wrong = (sum(found[key]) for key in ("accuracy", "wrong"))
        lengths = {key: sum(found.pop(part)) for key, part in (("correct", "long"), ("wrong", "longer"))}
        expected = {f"pass@{k}": [1 - (1 - each) ** k for each in found["accuracy"]] for k in KS}
        expected |= {key: values for key, values in found.items() if key != "wrong"}
        expected = {key: torch.tensor(values).nanmean() for key, values in expected.items()}
        expected |= {"length_correct": torch.tensor(lengths["correct"] / p if p else math.nan)}
        expected |= {"length_wrong": torch.tensor(lengths["wrong"] / wrong if wrong > 1e-9 else math.nan)}
        actual = {key.removeprefix("eval/exact/"): values[replica] for key, values in row.items()}
        assert actual.keys() == expected.keys()
        actual |= {} if wrong > 1e-9 else {"length_wrong": torch.tensor(math.nan)}  # nothing is, but for rounding
        assert_close(actual, expected, **ROUNDED, equal_nan=True)


@every_world
def test_sampled_evaluation_agrees(world):
    """Many samples: five standard errors of a share."""
    state = state_of(world)
    row = evaluate(state, 0, prompts=8 * world.questions, samples=64, ks=KS)
    error = 5 * 0.5 / (8 * world.questions * 64) ** 0.5
    assert_close(row["eval/sampled_accuracy"], row["eval/exact/accuracy"], rtol=0, atol=error)
    assert_close(row["eval/pass@1"], row["eval/exact/pass@1"], rtol=0, atol=error)


@pytest.mark.parametrize("name", reference_tasks.WORLDS)
def test_what_is_evaluated_is_known_before_training(name):
    """So that a wrong score.metric is refused; and a task that is no world has nothing of it."""
    config = compose(f"task={name}", "model=tabular", f"eval.ks={KS}", "eval.samples=3")
    world = CHOICES[f"conf/{name}"][1]
    assert set(evaluate(state_of(world), 0, prompts=2, samples=3, ks=KS)) == set(evaluated_metrics(config))
    assert not [metric for metric in evaluated_metrics(compose()) if "exact" in metric]


# ---- length_world: the drift of a hazard, exactly


@pytest.mark.parametrize(("hazard", "printed"), [(0.05, 0.1077), (0.1, 0.1558), (0.2, 0.2024)])
def test_c1_dividing_by_the_own_length_moves_the_hazard_and_a_constant_does_not(hazard, printed):
    """The expected gradient of a completion's loss in the logit of ending, through the table and the aggregations.

    Every completion has advantage 1: by the mean over its own tokens it ends sooner, h ln(1/h)/(1 − h) − h; as a sum
    over tokens divided by a constant, however long, it does not. The cap is far behind all that is likely.
    """
    world = length_world(cap=400, right=[0.5], hazard=hazard, hazard_wrong=None)
    policy, completions = (
        policy_of("tabular", [0], world, std=0.0).double(),
        world.every_completion(torch.device("cpu")),
    )
    prompts = torch.full((1, 1, 1), world.first_question)
    rollout = as_rollout(world, prompts, completions[None, None], torch.zeros(1, 1, *completions.shape))
    log_probs = policy.log_probs(prompts, rollout.completions, torch.ones(1)).log_probs.where(rollout.mask, 0.0)
    chances = log_probs.sum(-1).exp().detach()
    # the first token is not learned and not a draw of the hazard: lengths are those behind it
    mask = rollout.mask & (torch.arange(world.cap) > 0)
    means = log_probs.where(mask, 0.0).sum(-1) / mask.sum(-1)
    sums = log_probs.where(mask, 0.0).sum(-1)
    own, constant = (
        torch.autograd.grad((chances * each).sum(), policy.table.weight, retain_graph=True)[0].sum()
        for each in (means, sums)
    )
    assert own.item() == pytest.approx(hazard * math.log(1 / hazard) / (1 - hazard) - hazard, abs=1e-6)
    assert own.item() == pytest.approx(printed, abs=5e-5)
    assert constant.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("learn_answer", [False, True])
def test_right_and_wrong_answers_begin_at_hazards_of_their_own_and_odds_are_learned_if_asked(learn_answer):
    """Lengths and truncation against the geometric distribution; the gradient of P(right) is that of a logit."""
    world = length_world(cap=8, right=[0.7], hazard=0.05, hazard_wrong=0.5, learn_answer=learn_answer)
    policy = policy_of("tabular", [0], world, std=0.0).double()
    completions = world.every_completion(torch.device("cpu"))
    prompts = torch.full((1, 1, 1), world.first_question)
    rollout = as_rollout(world, prompts, completions[None, None], torch.zeros(1, 1, *completions.shape))
    chances = policy.log_probs(prompts, rollout.completions, torch.ones(1)).log_probs
    chances = chances.where(rollout.mask, 0.0).sum(-1).exp().flatten()
    right, finished = completions[:, 0] == 0, rollout.finished.flatten()
    for mode, odds, hazard in ((right, 0.7, 0.05), (~right, 0.3, 0.5)):
        assert chances[mode].sum().item() == pytest.approx(odds)
        assert chances[mode & ~finished].sum().item() == pytest.approx(odds * (1 - hazard) ** 7)
    (gradient,) = torch.autograd.grad(chances[right].sum(), policy.table.weight)
    assert gradient[0, 0, 0].item() == pytest.approx(0.7 * 0.3 if learn_answer else 0.0, abs=1e-7)
