"""How many processes pay: short sweeps stay in one, long ones take the cores."""

from pathlib import Path

import pytest
from small_runs import SHORT, SMALL, compose

from rlexp.sweep import cost
from rlexp.sweep.cost import Cost, cost_of, workers_that_pay
from rlexp.sweep.job import Job

DEFAULT = Cost(0.011, 0.0135)  # of the default recipe on the machine of docs/performance.md


def jobs(runs, *overrides, **changes):
    config = compose(*overrides).model_copy(update=changes)
    return [Job(config.model_copy(update={"seed": seed}), Path(f"no/{seed}"), "x", "x") for seed in range(runs)]


@pytest.mark.parametrize(
    ("runs", "changes", "each", "cores", "workers"),
    [
        (30, {}, DEFAULT, 2, 2),
        (30, {}, DEFAULT, 16, 15),  # as a sixteenth would not be done earlier
        (30, {}, DEFAULT, 1, 1),
        (4, {"steps": 100}, DEFAULT, 2, 1),  # a few seconds
        (160, {"steps": 100}, Cost(0.002, 0.00005), 16, 1),  # runs that cost next to nothing in a batch
        (2, {}, Cost(0.0, 10.0), 16, 2),  # no more than there are runs
        (30, {"threads": 2}, DEFAULT, 2, 1),
        (30, {"device": "cuda"}, DEFAULT, 16, 1),
    ],
)
def test_as_many_processes_as_pay(monkeypatch, runs, changes, each, cores, workers):
    monkeypatch.setattr(cost, "measured", lambda buckets: dict.fromkeys(buckets, each))
    assert workers_that_pay(jobs(runs, **changes), None, cores) == workers


def test_processes_share_the_memory(monkeypatch):
    monkeypatch.setattr(cost, "available_bytes", lambda device: 3.5 * cost.BYTES_OF_PROCESS)
    assert cost.most_workers(jobs(30), 16) == 3


def test_a_batch_after_another_is_counted(monkeypatch):
    """Three shapes, one of them with half of the work: two processes end no earlier than that one."""
    unequal = [job for size, runs in ((4, 2), (8, 2), (16, 1)) for job in jobs(runs, f"group_size={size}")]
    prices = iter([Cost(0.0, 0.1), Cost(0.0, 0.1), Cost(0.0, 0.4)])
    monkeypatch.setattr(cost, "measured", lambda buckets: {key: next(prices) for key in buckets})
    buckets = cost.by_shape(unequal)
    costs = cost.measured(buckets)
    assert cost.seconds_with(buckets, costs, None, 2) == pytest.approx(cost.SECONDS_TO_START + 400 * (0.2 + 0.4))
    assert cost.seconds_with(buckets, costs, None, 3) == pytest.approx(cost.SECONDS_TO_START + 400 * 0.4)


def test_what_is_shared_by_the_runs_of_a_batch(monkeypatch):
    monkeypatch.setattr(cost, "step_seconds", lambda configs: 0.01 + 0.02 * len(configs))
    assert cost_of([compose()] * 4) == pytest.approx(Cost(0.01, 0.02))
    assert cost_of([compose()]) == pytest.approx(Cost(0.0, 0.03))
    monkeypatch.setattr(cost, "step_seconds", lambda configs: 1.0 if len(configs) == 1 else pytest.fail("too long"))
    assert cost_of([compose()] * 4) == Cost(0.0, 1.0)


def test_a_short_sweep_is_not_tried_out_and_a_mistake_in_it_is_not_ours(monkeypatch):
    monkeypatch.setattr(cost, "measured", lambda buckets: pytest.fail("tried out"))
    assert workers_that_pay(jobs(8, *SHORT), None, 16) == 1
    monkeypatch.setattr(cost, "measured", lambda buckets: 1 / 0)
    assert workers_that_pay(jobs(8), None, 16) == 1


def test_trying_out_measures_something():
    (each,) = cost.measured(cost.by_shape(jobs(3, *SHORT, *SMALL))).values()
    assert each.fixed >= 0 and each.each >= 0 and sum(each) > 0
