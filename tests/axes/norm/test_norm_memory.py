"""What norms remember: over several steps they are what one batch of all of them would give."""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import bind, numbers
from small_runs import compose

from rlexp.axes import norm
from rlexp.axes.norm.memory import count_rewards
from rlexp.core import memory

STEPS, P, G = 4, 3, 4


def memories(name, *overrides):
    return memory.bind_memories(norm.MEMORIES, compose(f"norm={name}", *overrides).norm)


class Having:
    """A variant, as far as memories are concerned."""

    def __init__(self, **chosen):
        self.memories = chosen


def remembering(*names):
    return [(Having(**(memories(name) if name else {})), 2) for name in names]


def course(seed=3):
    """Rewards and keep of several steps, ``[2 P G]``; nothing counts in the third."""
    steps = [numbers(2, P, G, 5, dtype=torch.float32, seed=seed + at) for at in range(STEPS)]
    steps[2]["keep"] = torch.zeros_like(steps[2]["keep"])
    return [{"rewards": each["rewards"] + 3, "keep": each["keep"]} for each in steps]


def run(having, steps):
    """Return the memories before each step, and after the last."""
    states = [memory.initial_memory([(having, 2)])]
    for each in steps:
        states.append(memory.apply_updates(having, states[-1], each))
    return states


def test_running_statistics_are_those_of_all_steps_together():
    steps, chosen = course(), bind("norm", "running", eps=1e-6, ddof=1)
    for at, state in enumerate(run(Having(**memories("running")), steps)[:-1]):
        now, so_far = steps[at], steps[: at + 1]
        together = [torch.cat([each[name] for each in so_far], 1) for name in ("rewards", "keep")]
        expected = bind("norm", "global", eps=1e-6, ddof=1)(*together)[:, -P:]
        actual = chosen(now["rewards"], now["keep"], state["reward_moments"])
        # float32: some fifty numbers of order three in another order of addition
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("constant", [0.7, 0.1, 5.1])
def test_running_statistics_of_equal_rewards_give_exactly_zero(constant):
    chosen, having = bind("norm", "running", eps=1e-6, ddof=1), Having(**memories("running"))
    steps = [{"rewards": torch.full((2, P, 7), constant), "keep": torch.ones(2, P, 7, dtype=torch.bool)}] * STEPS
    for state in run(having, steps)[:-1]:
        assert chosen(*steps[0].values(), state["reward_moments"]).eq(0).all()
    other = {"rewards": torch.full((2, P, 7), constant + 1), "keep": steps[0]["keep"]}
    assert chosen(*other.values(), run(having, steps)[-1]["reward_moments"]).ne(0).all()


def test_a_moving_average_is_scored_before_it_moves_and_waits_where_nothing_counts():
    steps, decay = course(), 0.75
    states = run(Having(**memories("ema", f"norm.decay={decay}")), steps)
    average = torch.zeros(2)
    for at, (state, each) in enumerate(zip(states, steps, strict=False)):
        torch.testing.assert_close(state["reward_average"], average)
        advantages = bind("norm", "ema", decay=decay)(each["rewards"], state["reward_average"])
        torch.testing.assert_close(advantages, each["rewards"] - average[:, None, None])
        if at != 2:
            means = [each["rewards"][r][each["keep"][r]].mean() for r in range(2)]
            average = decay * average + (1 - decay) * torch.stack(means)
    torch.testing.assert_close(states[-1]["reward_average"], average)


def beta_counts(steps, replica, known, decay, prior, weight):
    """verl-recipe ``spo``: α ← ρα + r, β ← ρβ + 1 − r of each prompt, r the mean of what a step has of it."""
    counts = {number: [prior * weight, (1 - prior) * weight] for number in range(known)}
    for each in steps:
        for number in counts:
            rows = each["prompt_numbers"][replica] == number
            earned = each["rewards"][replica][rows][each["keep"][replica][rows]].double()
            if len(earned):
                r = earned.mean().item()
                counts[number] = [decay * counts[number][0] + r, decay * counts[number][1] + 1 - r]
    return torch.tensor([[a / (a + b), a + b] for a, b in counts.values()])


def test_values_of_prompts_are_those_of_beta_counts_and_wait_where_nothing_counts():
    known, hyperparameters = 4, dict(decay=0.75, prior=0.25, weight=2.0)
    settings = [f"norm.{name}={value}" for name, value in hyperparameters.items()]
    having = Having(**memories("spo", "task=sort", f"task.prompt_set={known}", *settings))
    steps = course()
    for at, each in enumerate(steps):
        each["rewards"] = (each["rewards"] > 3).float()
        each["prompt_numbers"] = torch.tensor([[0, 2, 0], [at % known, 1, 2]])  # one twice, one of the first run never
    for at, state in enumerate(run(having, steps)):
        expected = torch.stack([beta_counts(steps[:at], replica, known, **hyperparameters) for replica in range(2)])
        # float32 against float64, a handful of operations on numbers of order one
        torch.testing.assert_close(state["prompt_values"].double(), expected.double(), rtol=1e-6, atol=1e-6)


def discounted_counts(steps, replica, known, decay, prior, weight):
    """GRPO-DBB, arXiv 2603.18444, alg. 1: α ← λα + Σ r, β ← λβ + N − Σ r of each prompt that a step has."""
    counts = {number: [prior * weight, (1 - prior) * weight] for number in range(known)}
    for each in steps:
        for number in counts:
            rows = each["prompt_numbers"][replica] == number
            earned = each["rewards"][replica][rows][each["keep"][replica][rows]].double()
            if len(earned):
                successes = earned.sum().item()
                counts[number][0] = decay * counts[number][0] + successes
                counts[number][1] = decay * counts[number][1] + len(earned) - successes
    return counts


def test_discounted_shares_are_those_of_beta_counts_with_the_step_itself_and_wait_where_nothing_counts():
    known, hyperparameters = 4, dict(decay=0.75, prior=0.25, weight=2.0)
    settings = [f"norm.{name}={value}" for name, value in hyperparameters.items()]
    having = Having(**memories("dbb", "task=sort", f"task.prompt_set={known}", *settings))
    chosen = bind("norm", "dbb", prompts=known, eps=1e-6, **hyperparameters)
    steps = course()
    for at, each in enumerate(steps):
        each["rewards"] = (each["rewards"] > 3).float()
        each["prompt_numbers"] = torch.tensor([[0, 2, 0], [at % known, 1, 2]])  # one twice, one of the first run never
    for at, state in enumerate(run(having, steps)):
        for replica in range(2):
            before = discounted_counts(steps[:at], replica, known, **hyperparameters)
            expected = torch.tensor([[a / (a + b), a + b] for a, b in before.values()])
            # float32 against float64, a handful of operations on numbers of order one
            torch.testing.assert_close(state["prompt_values"][replica], expected, rtol=1e-6, atol=1e-6)
        if at == len(steps):
            break
        now = steps[at]
        found = chosen(now["rewards"], now["keep"], state["prompt_values"], now["prompt_numbers"])
        for replica in range(2):
            after = discounted_counts(steps[: at + 1], replica, known, **hyperparameters)
            for prompt, number in enumerate(now["prompt_numbers"][replica].tolist()):
                a, b = after[number]
                mean, deviation = a / (a + b), math.sqrt(a * b) / (a + b)
                wanted = (now["rewards"][replica, prompt] - mean) / (deviation + 1e-6)
                torch.testing.assert_close(found[replica, prompt], wanted, rtol=1e-5, atol=1e-5)


def dbb_of(successes, size, share, known, decay):
    """Advantages of one group with so many successes, and the estimated share, by what is known of its prompt."""
    rewards = (torch.arange(size) < successes).double().view(1, size)
    given = rewards, torch.ones_like(rewards, dtype=torch.bool)
    values, numbers = torch.tensor([[share, known]]).double(), torch.zeros(1, dtype=torch.long)
    chosen = bind("norm", "dbb", prompts=1, decay=decay, prior=0.5, weight=2.0, eps=1e-9)
    estimate = count_rewards(values, *given, numbers, decay=decay)[0, 0].item()
    return chosen(*given, values, numbers)[0], estimate


@pytest.mark.parametrize("successes", range(9))
def test_with_nothing_remembered_a_discounted_share_is_the_mean_of_the_group(successes):
    advantages, estimate = dbb_of(successes, 8, 0.3, 5.0, decay=0.0)
    rewards = (torch.arange(8) < successes).double().view(1, 8)
    local = bind("norm", "local", eps=1e-9, ddof=0)(rewards, torch.ones_like(rewards, dtype=torch.bool))[0]
    assert estimate == pytest.approx(successes / 8)
    torch.testing.assert_close(advantages, local)


@pytest.mark.parametrize("decay", [0.25, 0.75, 1.0])
def test_a_discounted_share_has_the_mean_and_variance_of_the_paper_and_never_none_itself(decay):
    """Exactly, over all outcomes: E = wμ + (1 − w)p, Var = (1 − w)² p (1 − p) / N (eq. 14, 15); no advantage is 0."""
    size, share, known, p = 8, 0.4, 5.0, 0.7
    weight = decay * known / (decay * known + size)
    odds = [math.comb(size, s) * p**s * (1 - p) ** (size - s) for s in range(size + 1)]
    found = [dbb_of(s, size, share, known, decay) for s in range(size + 1)]
    mean = sum(o * estimate for o, (_, estimate) in zip(odds, found, strict=True))
    variance = sum(o * (estimate - mean) ** 2 for o, (_, estimate) in zip(odds, found, strict=True))
    assert mean == pytest.approx(weight * share + (1 - weight) * p)
    assert variance == pytest.approx((1 - weight) ** 2 * p * (1 - p) / size)
    assert all(advantages.abs().min() > 0.1 for advantages, _ in found)  # not where all are right or wrong either


def test_variants_keep_to_their_own_memories():
    """Beside others a run's memory is what it is alone, and one that it does not have stays empty."""
    blocks = remembering("running", None, "ema")
    started = memory.initial_memory(blocks)
    assert {name: values.shape[0] for name, values in started.items()} == {"reward_moments": 6, "reward_average": 6}
    assert torch.equal(started["reward_moments"][:2], memory.initial_memory(blocks[:1])["reward_moments"])
    assert started["reward_moments"][2:].eq(0).all()
    step = course()[0]
    for place, (having, _) in enumerate(blocks):
        rows = {name: values[2 * place : 2 * place + 2] for name, values in started.items()}
        after = memory.apply_updates(having, rows, step)
        for name, values in after.items():
            alone = memory.apply_updates(having, memory.initial_memory([(having, 2)]), step).get(name, rows[name])
            assert torch.equal(values, alone)
    assert memory.initial_memory(remembering(None)) == {}
