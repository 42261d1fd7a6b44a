"""What norms remember: over several steps they are what one batch of all of them would give."""

from __future__ import annotations

import pytest
import torch
from axis_choices import bind, numbers
from small_runs import compose

from rlexp.axes import norm
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
