"""The weight of the entropy bonus: steered as by hand, each run's own, and a bound of advantages beside it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from axis_choices import CLOSE
from plain_step import Recipe
from small_runs import compose, values
from toy_state import make_experience, make_state, variant

from rlexp.axes import entropy_control
from rlexp.config.schema import read
from rlexp.core import memory
from rlexp.core.errors import ConfigError
from rlexp.core.registry import bind_choice
from rlexp.loop.data import gather_groups
from rlexp.loop.metrics import of_others
from rlexp.loop.step import train_step

KNOBS = dict(target=0.9, delta=0.25, least=0.1, most=0.5)


def settings(**hyperparameters):
    node = compose("entropy_control=adaptive").entropy_control
    return node.model_copy(update={"initial": 0.3, **KNOBS, **hyperparameters})


def with_control(base, **hyperparameters):
    node = settings(**hyperparameters)
    control = bind_choice(entropy_control.FUNCTIONS, node)
    return replace(
        base,
        entropy_control=control,
        memories={**base.memories, **memory.bind_memories(entropy_control.MEMORIES, node)},
    )


def by_hand(coef, log_probs, mask):
    """Skywork-OR1, of one run: up while the entropy is at most the target, down while it is above."""
    found = [-log_probs[place] for place in np.ndindex(*mask.shape) if mask[place]]
    if not found:
        return None
    entropy = math.fsum(found) / len(found)
    coef = min(coef + 0.25, 0.5) if entropy <= 0.9 else max(coef - 0.25, 0.1)
    return coef, entropy


def test_a_weight_moves_as_by_hand():
    """Five runs: far below the target, above it, at both bounds, and one without a token."""
    rng = np.random.default_rng(5)
    scale = np.array([0.3, 2.0, 0.3, 2.0, 1.0]).reshape(5, 1, 1, 1)
    log_probs = -scale * rng.exponential(size=(5, 3, 4, 6))
    mask = np.arange(6) < rng.integers(1, 7, size=(5, 3, 4, 1))
    mask[4] = False
    before = torch.tensor([[0.2, 1.0], [0.4, 1.0], [0.45, 1.0], [0.15, 1.0], [0.3, 0.7]], dtype=torch.float64)
    after = entropy_control.steer(before, torch.from_numpy(log_probs), torch.from_numpy(mask), **KNOBS)
    for r in range(5):
        wanted = by_hand(before[r, 0].item(), log_probs[r], mask[r]) or before[r].tolist()
        torch.testing.assert_close(after[r], torch.tensor(wanted, dtype=torch.float64), **CLOSE)
    assert after[:4, 0].tolist() == pytest.approx([0.45, 0.15, 0.5, 0.1])


def test_the_bonus_is_given_only_up_to_the_target_and_not_before_anything_was_seen():
    steering = torch.tensor([[0.3, 0.9], [0.3, 0.91], entropy_control.start_at(initial=0.3)], dtype=torch.float64)
    found = entropy_control.adaptive(steering, initial=0.3, **KNOBS)
    assert found.tolist() == [0.3, 0.0, 0.0]
    assert entropy_control.fixed(0.02) == 0.02


def mixed(*variants, seeds):
    return make_state([(each, 1) for each in variants], seeds, dtype=torch.float32, inner_steps=2)


@pytest.mark.bits
def test_each_run_steers_its_own_and_is_the_same_alone():
    plain = variant(Recipe(entropy_bonus=0.0))
    steered, other = with_control(plain, target=9.0), with_control(plain, target=1e-9)
    together, alone = mixed(steered, plain, other, seeds=[0, 1, 2]), mixed(steered, seeds=[0])
    assert of_others(together.blocks) == [set(), {"entropy/coef"}, set()]
    for step in (1, 2, 3):
        row, own = train_step(together, step, True), train_step(alone, step, True)
        for name, found in own.items():
            torch.testing.assert_close(found[0], row[name][0], rtol=0, atol=0, equal_nan=True)
        weights = {1: 0.0, 2: 0.5, 3: 0.5}[step]
        assert row["entropy/coef"][0].item() == pytest.approx(weights) and row["entropy/coef"][2] == 0
        assert row["entropy/coef"][1].isnan() and (row["loss/entropy"] != 0).tolist() == [step > 1, False, False]


def test_a_weight_beyond_its_bounds_is_refused_and_the_first_is_that_of_the_key():
    node = read(values("entropy_control.name=adaptive", *(f"+entropy_control.{k}={v}" for k, v in KNOBS.items()),
                       "+entropy_control.initial=${entropy_coef}", "entropy_coef=0.4")).entropy_control  # fmt: skip
    assert node.initial == 0.4
    with pytest.raises(ConfigError) as error:
        read(values("entropy_control.name=adaptive", *(f"+entropy_control.{k}={v}" for k, v in KNOBS.items()),
                    "+entropy_control.initial=2.0"))  # fmt: skip
    assert [*error.value.problems] == ["entropy_control.initial=2: must be at most entropy_control.most=0.5"]


def test_advantages_are_bounded_after_the_norm_and_only_in_runs_that_ask():
    plain = variant(Recipe())
    bounded = replace(plain, advantage_clip=0.3)
    state = make_state([(plain, 1), (bounded, 1)], [0, 0])
    free, clipped = make_experience(state, 1, gather_groups(state, 1)).advantages
    assert free.abs().max() > 0.3
    torch.testing.assert_close(clipped, free.clamp(-0.3, 0.3), rtol=0, atol=0)


def test_advantages_are_whitened_after_the_norm_and_only_in_runs_that_ask():
    """Over the tokens that count, one by one; what is outside the statistics or the mask is 0."""
    plain = variant(Recipe(drop_from_statistics=True))
    state = make_state([(plain, 2), (replace(plain, whiten_advantages=True), 2)], [0, 1, 0, 1])
    batch = make_experience(state, 1, gather_groups(state, 1))
    assert not batch.keep.all() and not batch.mask.all()
    for run in (0, 1):
        places = [p for p in np.ndindex(*batch.mask[run].shape) if batch.mask[run][p] and batch.keep[run][p[:-1]]]
        numbers = [batch.advantages[run][p].item() for p in places]
        mean = math.fsum(numbers) / len(numbers)
        variance = math.fsum((x - mean) ** 2 for x in numbers) / (len(numbers) - 1)
        expected = torch.zeros_like(batch.advantages[run])
        for place, number in zip(places, numbers, strict=True):
            expected[place] = (number - mean) / math.sqrt(variance + 1e-8)
        torch.testing.assert_close(batch.advantages[run + 2], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bound", ["0", "-1", "inf"])
def test_a_bound_that_bounds_nothing_is_refused(bound):
    with pytest.raises(ConfigError) as error:
        read(values(f"advantage_clip={bound}"))
    assert len(error.value.problems) == 1 and error.value.problems[0].startswith(f"advantage_clip={bound}")
