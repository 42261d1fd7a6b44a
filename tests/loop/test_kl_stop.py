"""A rollout is left once a run is too far from the policy that sampled it: this run alone, from that update on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from plain_step import Recipe
from small_runs import values
from toy_state import make_state, variant

from rlexp.config.schema import read
from rlexp.core.errors import ConfigError
from rlexp.loop import kl_stop, step
from rlexp.loop.metrics import of_others
from rlexp.loop.step import train_step

PLAIN = variant(Recipe())
UPDATES = 6  # of a rollout


def runs(*limits, seeds=None):
    """One run for each limit."""
    blocks = [(replace(PLAIN, kl_stop=limit), 1) for limit in limits]
    seeds = seeds or [*range(len(limits))]
    return make_state(blocks, seeds, dtype=torch.float32, inner_steps=3, minibatches=2)


def weights(state, replica):
    """Everything that an update changes, of one run."""
    return [row.clone() for row in state.optimizer.rows(replica)]


def same(left, right):
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def course(state, replica, monkeypatch):
    """Weights of a run before and after each update of the first rollout, and its distance at each."""
    seen, distances = [weights(state, replica)], []
    real, measured = step.update, kl_stop.distance_from_old

    def watched(*given, **more):
        row = real(*given, **more)
        seen.append(weights(state, replica))
        return row

    def noted(*given):
        found = measured(*given)
        distances.append(found)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(step, "update", watched)
        patch.setattr(kl_stop, "distance_from_old", noted)
        train_step(state, 1, False)
    return seen, distances


def test_a_run_stands_still_from_the_update_at_which_it_is_too_far(monkeypatch):
    """The limit lies between two of the distances that are measured without one."""
    _, distances = course(runs(1e9), 0, monkeypatch)
    found = [each.item() for each in distances]
    assert found[0] == pytest.approx(0, abs=1e-6) and len(found) == UPDATES
    at = next(i for i in range(2, UPDATES) if found[i] > 1.2 * max(found[:i]))
    limit = (found[at] + max(found[:at])) / 2
    seen, _ = course(runs(limit), 0, monkeypatch)
    moved = [not same(before, after) for before, after in zip(seen, seen[1:], strict=False)]
    assert moved == [True] * at + [False] * (UPDATES - at)
    row = train_step(runs(limit), 1, True)
    assert row["kl/stopped"].item() == pytest.approx((UPDATES - at) / UPDATES)


@pytest.mark.bits
@pytest.mark.slow
def test_neighbours_do_not_notice_and_a_stopped_run_is_the_same_alone():
    together, free, alone = runs(None, 1e-4, 1e9), runs(None, None, None), runs(1e-4, seeds=[1])
    for at in (1, 2, 3):
        row, without, own = train_step(together, at, True), train_step(free, at, True), train_step(alone, at, True)
        for name, found in own.items():
            torch.testing.assert_close(found[0], row[name][1], rtol=0, atol=0, equal_nan=True)
        for name, found in without.items():
            torch.testing.assert_close(found[[0, 2]], row[name][[0, 2]], rtol=0, atol=0, equal_nan=True)
    assert row["kl/stopped"][1] > 0 and row["kl/stopped"][2] == 0 and row["kl/stopped"][0].isnan()
    assert of_others(together.blocks) == [{"kl/stopped"}, set(), set()]
    assert same(weights(together, 0), weights(free, 0)) and not same(weights(together, 1), weights(free, 1))


def test_the_next_rollout_starts_afresh():
    state = runs(1e-4)
    before = weights(state, 0)
    train_step(state, 1, False)
    after = weights(state, 0)
    train_step(state, 2, False)
    assert not same(before, after) and not same(after, weights(state, 0))
    assert state.optimizer.updates == 2 * UPDATES  # the schedule goes on


def test_without_a_limit_nothing_is_measured(monkeypatch):
    monkeypatch.setattr(kl_stop, "distance_from_old", None)
    assert "kl/stopped" not in train_step(runs(None, None), 1, True)


def test_the_distance_is_k3_by_hand():
    log_probs = torch.tensor([[[[-1.0, -2.0, 7.0]], [[-0.5, 9.0, 9.0]]]]).double()
    old = torch.tensor([[[[-1.5, -1.0, 0.0]], [[-0.5, 0.0, 0.0]]]]).double()
    mask = torch.tensor([[[[True, True, False]], [[True, False, False]]]])
    ratios = torch.tensor([0.5, -1.0, 0.0]).double()
    wanted = (ratios.exp() - 1 - ratios).mean()
    torch.testing.assert_close(kl_stop.distance_from_old(log_probs, old, mask)[0], wanted)


@pytest.mark.parametrize("limit", ["0", "-0.1", "inf"])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(ConfigError) as error:
        read(values(f"kl_stop={limit}"))
    assert len(error.value.problems) == 1 and error.value.problems[0].startswith(f"kl_stop={limit}")
