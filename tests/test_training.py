"""Training as a stream of events, in memory: what comes when, and that its numbers are those of a recorded run."""

import doctest
import gc
import json
import weakref
from contextlib import closing

import pytest
import torch
from small_runs import SHORT, SMALL, compose, rows

from rlexp import training
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.record import checkpoint
from rlexp.record.disk import dump_json
from rlexp.sweep import training as batches
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job
from rlexp.sweep.training import Cadence
from rlexp.training import Checkpoint, Ended, Row, Samples, Step, train

pytestmark = pytest.mark.slow  # whole runs

STEPS = 4
RUN = [*SHORT, *SMALL, f"steps={STEPS}", "log_every=2", "eval.every=4", "checkpoint_every=3"]
LOCAL, RUNNING = compose(*RUN, "norm=local"), compose(*RUN, "norm=running")


def kinds(events):
    return [(type(event).__name__, event.step) for event in events]


def of_run(events, run, kind=Row):
    return [event for event in events if isinstance(event, kind) and event.run == run]


def as_written(events, run):
    """The rows of a run as its file has them, without times."""
    return [json.loads(dump_json({"step": event.step, **event.metrics})) for event in of_run(events, run)]


@pytest.fixture(scope="module")
def whole():
    """All events of two runs that train as one batch."""
    return list(train([LOCAL, RUNNING]))


def test_events_come_in_the_order_of_the_steps_each_kind_for_all_runs(whole):
    def of_both(kind, step):
        return [(kind, step)] * 2

    expected = [("Step", -1), *of_both("Row", 0), *of_both("Samples", 0), ("Step", 0), ("Step", 1)]
    expected += [*of_both("Row", 2), *of_both("Samples", 2), ("Step", 2), *of_both("Checkpoint", 3), ("Step", 3)]
    expected += [*of_both("Row", 4), *of_both("Samples", 4), *of_both("Checkpoint", 4), ("Step", 4)]
    assert kinds(whole) == [*expected, *of_both("Ended", 4)]
    assert [event.run for event in whole if not isinstance(event, Step)] == [0, 1] * 9
    assert all(event.runs == (0, 1) for event in whole if isinstance(event, Step))
    assert all((event.status, event.error) == ("completed", None) for event in whole if isinstance(event, Ended))


def test_rows_samples_and_states_are_those_of_recorded_runs_to_the_bit(tmp_path, whole):
    jobs = [Job(config, tmp_path / name, name, name) for name, config in (("a", LOCAL), ("b", RUNNING))]
    for job in jobs:
        job.folder.mkdir()
    train_jobs(jobs)
    for run, job in enumerate(jobs):
        assert as_written(whole, run) == rows(job.folder)
        completions = [row for event in of_run(whole, run, Samples) for row in event.completions]
        lines = (job.folder / "samples.jsonl").read_text().splitlines()
        assert [json.loads(dump_json(row)) for row in completions] == [json.loads(line) for line in lines]
        last, saved = of_run(whole, run, Checkpoint)[-1].state, checkpoint.load(job.folder)
        ours, theirs = (state["networks"]["policy"]["parameters"] for state in (last, saved))
        assert all(torch.equal(ours[name], theirs[name]) for name in ours | theirs)


def test_a_run_goes_on_from_the_state_of_a_checkpoint_beside_one_that_begins(whole):
    state = of_run(whole, 1, Checkpoint)[0].state
    events = list(train([LOCAL, RUNNING], states={1: state}))
    assert as_written(events, 1) == [row for row in as_written(whole, 1) if row["step"] > 3]
    assert as_written(events, 0) == as_written(whole, 0)
    assert [event.status for event in events if isinstance(event, Ended)] == ["completed"] * 2


def test_a_state_of_another_config_ends_its_run_only(whole):
    other = LOCAL.model_copy(update={"critic": compose(*RUN, "critic=value", "norm=gae").critic})
    (ended,) = train(other, states={0: of_run(whole, 0, Checkpoint)[0].state})
    assert ended.status == "failed" and isinstance(ended.error, RunFailed)
    assert "lacks the networks critic" in str(ended.error)


def test_who_is_asked_to_stop_saves_and_ends_as_interrupted_and_begins_nothing_else():
    wider = compose(*RUN, "group_size.completions=8")
    asked = iter([False, False, True, True])
    events = list(train([LOCAL, wider], stop=lambda: next(asked)))
    assert kinds(events)[-3:] == [("Checkpoint", 2), ("Step", 2), ("Ended", 2)]
    assert events[-1].status == "interrupted" and not of_run(events, 1)


def test_a_stop_in_the_last_step_lets_the_run_complete():
    asked = iter([False] * STEPS + [True])
    (*_, last) = train(LOCAL, stop=lambda: next(asked))
    assert last.status == "completed"


def test_a_consumer_ends_one_run_and_its_neighbour_does_not_notice(whole):
    events, stream = [], train([LOCAL, RUNNING])
    for event in stream:
        events.append(event)
        if isinstance(event, Row) and (event.run, event.step) == (0, 2):
            stream.end(0)
    assert kinds(of_run(events, 0, Row | Samples | Checkpoint | Ended)) == [("Row", 0), ("Samples", 0), ("Row", 2)]
    assert as_written(events, 1) == as_written(whole, 1) and events[-1] == Ended(1, 4, "completed")


def test_a_run_that_diverges_ends_with_the_reason_and_its_neighbour_does_not_notice(whole):
    wild = LOCAL.model_copy(update={"lr": 1e30})
    events = list(train([wild, RUNNING]))
    (ended,) = of_run(events, 0, Ended)
    assert (ended.step, ended.status) == (2, "diverged") and "loss/total is nan" in str(ended.error)
    assert not of_run(events, 0, Checkpoint)
    assert as_written(events, 1) == as_written(whole, 1)


def test_closing_early_releases_the_networks_and_puts_the_settings_of_torch_back(monkeypatch):
    made, build = [], batches.build

    def spy(configs):
        state = build(configs)
        made.append(weakref.ref(state.policy))
        return state

    monkeypatch.setattr(batches, "build", spy)
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(2)
    try:
        with closing(train(LOCAL.model_copy(update={"matmul_precision": "medium"}))) as events:
            next(event for event in events if isinstance(event, Row))
            assert torch.get_float32_matmul_precision() == "medium" and made[0]() is not None
        assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (2, precision)
        gc.collect()
        assert made[0]() is None and not [*events]
    finally:
        torch.set_num_threads(threads)


def test_configs_of_different_shapes_train_one_batch_after_another(whole):
    wider = compose(*RUN, "group_size.completions=8")
    events = list(train([LOCAL, wider, RUNNING]))
    assert [event.run for event in events if isinstance(event, Ended)] == [0, 2, 1]
    assert as_written(events, 0) == as_written(whole, 0) and as_written(events, 2) == as_written(whole, 1)
    assert as_written(events, 1) == as_written(list(train(wider)), 0)


def test_a_config_of_another_backend_is_refused_in_a_line():
    with pytest.raises(ConfigError, match=r"^backend=trl: train\(\) trains backend=replicas only$"):
        train(LOCAL.model_copy(update={"backend": LOCAL.backend.model_copy(update={"name": "trl"})}))


@pytest.mark.parametrize("steps", [1, 2, 3, 10])
def test_the_last_step_is_measured_evaluated_sampled_and_saved(steps):
    often = {"log_every": 7, "checkpoint_every": 7, "eval": LOCAL.eval.model_copy(update={"every": 7})}
    cadence = Cadence(LOCAL.model_copy(update={"steps": steps, **often}))
    asked = cadence.measures, cadence.evaluates, cadence.samples, cadence.saves
    assert all(ask(steps) and ask(0) for ask in asked)
    assert [step for step in range(steps + 1) if cadence.samples(step)] == sorted({0, steps // 2, steps})


def test_the_example_of_its_docstring_runs():
    found = doctest.testmod(training)
    assert found.attempted and not found.failed
