"""What the system refuses ends the run that it is of, in a line that names the file and what to do; nothing is lost."""

import errno
import json
import os
import shutil
import signal
from contextlib import ExitStack

import pytest
from interrupted import jobs
from small_runs import rows

from rlexp.core.exits import RunFailed
from rlexp.record import checkpoint
from rlexp.record.disk import Recorder
from rlexp.sweep import engine, training
from rlexp.sweep.engine import train_jobs

pytestmark = pytest.mark.slow  # whole runs

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Two runs that nothing disturbs, and their scores."""
    whole = jobs(tmp_path_factory.mktemp("whole"), variants=["local"])
    return whole, train_jobs(whole)


@pytest.fixture
def at_step(monkeypatch):
    """Return a function that does something before a step, once."""
    step = training.train_step

    def install(number, action):
        def disturbed(state, now, measure):
            if now == number:
                monkeypatch.setattr(training, "train_step", step)
                action()
            return step(state, now, measure)

        monkeypatch.setattr(training, "train_step", disturbed)

    return install


def status(job):
    return json.loads((job.folder / "summary.json").read_text())["status"]


def again(job):
    return type(job)(**vars(job) | {"config": job.config.model_copy(update={"resume": "failed"})})


def failing(method, folder, error):
    """Make a method of what writes to a folder fail there, and nowhere else."""

    def write(self, *content, **summary):
        if self.folder == folder:
            raise error
        return method(self, *content, **summary)

    return write


@pytest.mark.slow  # sweeps
@pytest.mark.parametrize(("method", "name"), [("write_row", "metrics.jsonl"), ("write_samples", "samples.jsonl")])
def test_a_full_disk_ends_the_run_and_resume_failed_goes_on(tmp_path, monkeypatch, at_step, undisturbed, method, name):
    whole, scores = undisturbed
    parts = jobs(tmp_path, variants=["local"])
    with monkeypatch.context() as patch:
        broken = failing(getattr(Recorder, method), parts[0].folder, FULL)
        at_step(5, lambda: patch.setattr(Recorder, method, broken))
        failed, score = train_jobs(parts)
    file = parts[0].folder / name
    remedy = "make room on that disk; resume=failed then goes on from the last checkpoint"
    assert isinstance(failed, RunFailed)
    assert str(failed) == f"{file} cannot be written (No space left on device): {remedy}"
    assert score == scores[1] and rows(parts[1].folder) == rows(whole[1].folder)
    assert status(parts[0]) == "failed" and checkpoint.load(parts[0].folder)["step"] in (3, 6)
    started = []
    at_step(4 if name == "metrics.jsonl" else 7, lambda: started.append("not from nothing"))
    assert train_jobs([again(parts[0])]) == scores[:1] and started
    assert rows(parts[0].folder) == rows(whole[0].folder)


def test_a_checkpoint_that_cannot_be_written_ends_its_run_and_leaves_the_one_before(tmp_path, monkeypatch, undisturbed):
    whole, scores = undisturbed
    parts, write, calls = jobs(tmp_path, variants=["local"]), checkpoint.write_draft, []

    def full(path, whole):
        calls.append(path)
        if path.parent == parts[0].folder and calls.count(path) == 2:
            raise FULL
        return write(path, whole)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_draft", full)
        failed, score = train_jobs(parts)
    assert isinstance(failed, RunFailed) and str(failed).startswith(f"{parts[0].folder / 'checkpoint.pt'} cannot be")
    assert "make room" in str(failed)
    assert score == scores[1] and checkpoint.load(parts[0].folder)["step"] == 3
    assert train_jobs([again(parts[0])]) == scores[:1]
    assert rows(parts[0].folder) == rows(whole[0].folder)


def test_a_folder_that_is_removed_ends_its_run_only(tmp_path, at_step, undisturbed):
    whole, scores = undisturbed
    parts = jobs(tmp_path, variants=["local"])
    at_step(5, lambda: shutil.rmtree(parts[0].folder))
    failed, score = train_jobs(parts)
    assert isinstance(failed, RunFailed)
    assert score == scores[1] and rows(parts[1].folder) == rows(whole[1].folder)
    assert str(parts[0].folder) in str(failed) and not parts[0].folder.exists()


def test_a_summary_that_cannot_be_written_is_a_failure(tmp_path, monkeypatch, undisturbed):
    """And the run can be gone on with, as it has not ended."""
    _, scores = undisturbed
    parts = jobs(tmp_path, variants=["local"])
    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "finish", failing(Recorder.finish, parts[0].folder, FULL))
        (failed,) = train_jobs(parts[:1])
    assert isinstance(failed, RunFailed) and "summary.json cannot be written" in str(failed)
    assert train_jobs(parts[:1]) == scores[:1]


@pytest.mark.slow  # sweeps
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(MemoryError(), marks=pytest.mark.rare),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_too_little_memory_halves_the_batch_and_changes_no_bit(tmp_path, monkeypatch, caplog, error):
    whole, parts = (jobs(tmp_path / name, seeds=(0, 1)) for name in ("whole", "parts"))
    scores, step, sizes = train_jobs(whole), training.train_step, []

    def small(state, now, measure):
        sizes.append(len(state.seeds))
        if len(state.seeds) > 1 and now == (5 if len(state.seeds) > 2 else 9):
            raise error
        return step(state, now, measure)

    monkeypatch.setattr(training, "train_step", small)
    assert train_jobs(parts) == scores
    assert [*dict.fromkeys(sizes)] == [4, 2, 1]
    assert "4 runs do not fit into memory at once: they are trained as two batches" in caplog.messages
    for one, other in zip(whole, parts, strict=True):
        assert rows(one.folder) == rows(other.folder) and status(other) == "completed"


def test_a_run_that_does_not_fit_alone_says_what_takes_less(tmp_path, at_step):
    (job,) = jobs(tmp_path, variants=["local"], seeds=[0])

    def exhausted():
        raise MemoryError

    at_step(5, exhausted)
    (failed,) = train_jobs([job])
    assert str(failed).startswith("local0 does not fit into memory, even alone: take a smaller group_size")
    assert status(job) == "failed" and isinstance(*train_jobs([again(job)]), float)


def test_a_ctrl_c_in_the_last_step_lets_the_run_complete_and_nothing_else_begin(tmp_path, at_step):
    first, second = jobs(tmp_path, variants=["local"])
    at_step(12, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        train_jobs([first])
    assert status(first) == "completed"
    assert isinstance(*train_jobs([second]), float)


def test_what_has_diverged_begins_again_and_nothing_else(tmp_path):
    (job,) = jobs(tmp_path, "resume=failed", variants=["local"], seeds=[0])
    train_jobs([job])
    for fate, step in (("failed", 12), ("diverged", -1), ("interrupted", 12)):
        (job.folder / "summary.json").write_text(json.dumps({"status": fate, "reason": "x"}))
        with ExitStack() as locks:
            assert engine.state_or_result(job, locks)["step"] == step
