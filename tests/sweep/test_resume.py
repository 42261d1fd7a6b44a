"""Stopped at any moment and started again, a run leaves the same bits as one that was never stopped."""

import json
import multiprocessing
import os
import random
import signal
import sys
import time

import pytest
from command import command, no_comparison  # noqa: F401 (fixtures)
from interrupted import LONG, jobs, stop_at  # noqa: F401 (a fixture)
from small_runs import SHORT, SMALL, rows

from rlexp import train
from rlexp.config.schema import load
from rlexp.core.exits import RunFailed
from rlexp.record import checkpoint
from rlexp.sweep import engine, training
from rlexp.sweep.engine import Recording, train_jobs
from rlexp.sweep.job import Job
from rlexp.sweep.training import Step

pytestmark = pytest.mark.slow  # whole runs


@pytest.fixture(scope="module", params=["gru", "transformer"])
def never_stopped(request, tmp_path_factory):
    """Return a model, runs of it, and their scores."""
    whole = jobs(tmp_path_factory.mktemp("whole"), f"model={request.param}")
    return request.param, whole, train_jobs(whole)


@pytest.mark.parametrize("number", [4, 9])  # between checkpoints, and at one
def test_resumed_equals_never_stopped(tmp_path, stop_at, never_stopped, number):
    model, whole, scores = never_stopped
    parts = jobs(tmp_path / "parts", f"model={model}")
    stop_at(number)
    with pytest.raises(KeyboardInterrupt):
        train_jobs(parts)
    assert json.loads((parts[0].folder / "summary.json").read_text())["status"] == "interrupted"
    assert train_jobs(parts) == scores
    for one, other in zip(whole, parts, strict=True):
        assert rows(one.folder) == rows(other.folder)
        assert json.loads((other.folder / "summary.json").read_text())["status"] == "completed"
        states = [checkpoint.load(job.folder) for job in (one, other)]
        ours, theirs = (state["networks"]["policy"]["parameters"] for state in states)
        assert ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)


@pytest.mark.parametrize(
    "choices",
    [
        ("filter=dynamic", "filter.refill.rounds=3", "shaping=flips_persistent"),
        pytest.param(("filter=top_entropy", "shaping=noise"), marks=pytest.mark.rare),
        pytest.param(("reward=prm", "filter=dynamic"), marks=pytest.mark.rare),
        ("optimizer=momentum", "lr=0.1"),
        ("sampler=fp8_per_tensor", "sampler.top_p=0.8", "sampler.training=truncated", "temperature_final=0.6"),
        pytest.param(("optimizer=sgd", "lr=0.5"), marks=pytest.mark.rare),
        pytest.param(("optimizer=rmsprop",), marks=pytest.mark.rare),
        (
            "reward=ensemble_mean",
            "reward.model.members=2",
            "reward.model.pairs=16",
            "reward.model.updates=3",
            "reward.model.refresh=4",
            "reward.model.refresh_pairs=4",
            "reward.model.refresh_updates=2",
        ),
    ],
    ids=" ".join,
)
def test_noise_and_dynamic_sampling_resume_where_they_stopped(tmp_path, stop_at, choices):
    """Wrong verdicts stay wrong, rounds are counted on, and so is what an optimizer keeps."""
    (whole,), (part,) = (jobs(tmp_path / name, *choices, variants=["global"], seeds=[0]) for name in ("whole", "part"))
    train_jobs([whole])
    stop_at(8)
    with pytest.raises(KeyboardInterrupt):
        train_jobs([part])
    train_jobs([part])
    assert rows(whole.folder) == rows(part.folder)


def test_ctrl_c_while_files_are_opened_leaves_all_runs_with_a_summary(tmp_path, stop_at, monkeypatch):
    parts = jobs(tmp_path, variants=["local"])
    stop_at(8)
    with pytest.raises(KeyboardInterrupt):
        train_jobs(parts)
    opened = engine.open_run

    def interrupted(job, saved):
        if job is parts[1]:
            os.kill(os.getpid(), signal.SIGINT)
        return opened(job, saved)

    monkeypatch.setattr(engine, "open_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_jobs(parts)
    for part in parts:
        assert json.loads((part.folder / "summary.json").read_text())["status"] == "interrupted"


@pytest.mark.bits
def test_runs_that_stand_at_different_steps_go_on_together(tmp_path, stop_at):
    whole = jobs(tmp_path / "whole")
    scores = train_jobs(whole)
    parts = jobs(tmp_path / "parts")
    stop_at(8)
    with pytest.raises(KeyboardInterrupt):
        train_jobs(parts[:2])
    assert train_jobs(parts[2:3]) == scores[2:3]
    before = (parts[2].folder / "metrics.jsonl").stat().st_mtime_ns
    assert train_jobs(parts) == scores
    assert all(rows(one.folder) == rows(other.folder) for one, other in zip(whole, parts, strict=True))
    assert (parts[2].folder / "metrics.jsonl").stat().st_mtime_ns == before, "a finished run is not touched"


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, stop_at, caplog):
    (whole,) = jobs(tmp_path / "whole", variants=["local"], seeds=[0])
    train_jobs([whole])
    (part,) = jobs(tmp_path / "part", variants=["local"], seeds=[0])
    stop_at(8)
    with pytest.raises(KeyboardInterrupt):
        train_jobs([part])
    assert checkpoint.load(part.folder)["step"] == 6
    latest = part.folder / checkpoint.LATEST
    content = latest.read_bytes()
    for damaged in (content[:1000], b"", b"\x80\x02}q\x00h\x07." + bytes(1000)):
        latest.write_bytes(damaged)
        assert checkpoint.load(part.folder)["step"] == 3
        assert caplog.messages[-1] == f"{latest} is damaged: the one before it is taken"
    train_jobs([part])
    assert f"{latest} is damaged: the run goes on after step 3" in caplog.messages
    assert rows(part.folder) == rows(whole.folder)


def test_a_failed_run_is_trained_again_only_on_request(tmp_path):
    (wild,) = jobs(tmp_path, "lr=1e30", variants=["local"], seeds=[0])
    assert isinstance(train_jobs([wild])[0], FloatingPointError)
    (again,) = train_jobs([wild])
    assert isinstance(again, RunFailed) and "resume=failed" in str(again)
    (asked,) = jobs(tmp_path, "lr=1e30", "resume=failed", variants=["local"], seeds=[0])
    assert isinstance(train_jobs([asked])[0], FloatingPointError)


def test_a_first_signal_saves_and_stops(tmp_path, monkeypatch):
    step, (job,) = training.train_step, jobs(tmp_path, "checkpoint_every=1000", variants=["local"], seeds=[0])

    def signalled(state, now, measure):
        if now == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return step(state, now, measure)

    monkeypatch.setattr(training, "train_step", signalled)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train_jobs([job])
    assert signal.getsignal(signal.SIGINT) is handler
    assert checkpoint.load(job.folder)["step"] == 5


def test_a_signal_at_the_very_end_of_a_step_saves_the_next_one(tmp_path, monkeypatch):
    """After it was decided that this step is not saved, and before it was decided whether to go on."""
    (job,) = jobs(tmp_path, "checkpoint_every=1000", variants=["local"], seeds=[0])
    take = Recording.take

    def signalled(self, event):
        take(self, event)
        if isinstance(event, Step) and event.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Recording, "take", signalled)
    with pytest.raises(KeyboardInterrupt):
        train_jobs([job])
    assert checkpoint.load(job.folder)["step"] == 6


TINY = ["preset=tiny", "norm=local,hybrid", "seed=0,1"]
KILLS = 4  # of each model; README says so
KILLED = [*SHORT, *SMALL, "norm=local,hybrid", "steps=40", "checkpoint_every=4", "threads=1"]
IN_FLIGHT = ["data=pipeline", "data.rollouts=2", "data.tokens=16", "data.max_age=2", "anchor=proximal"]
LONG_ANSWERS = ["steps=16", "task=addition", "task.cap=40", "seed=0,1", "hydra.launcher.workers=3", *IN_FLIGHT]


def test_the_same_command_skips_what_is_done_and_refuses_another_config(command, tmp_path, no_comparison):  # noqa: F811
    sweep = ["-m", *TINY, "steps=4", "hydra.sweep.dir=sweep"]
    assert command(*sweep).code == 0
    files = sorted(tmp_path.glob("sweep/*/metrics.jsonl"))
    times = [file.stat().st_mtime_ns for file in files]
    assert len(files) == 4 and command(*sweep).code == 0
    assert [file.stat().st_mtime_ns for file in files] == times
    index = [json.loads(line) for line in (tmp_path / "sweep" / "jobs.jsonl").read_text().splitlines()]
    assert [row["status"] for row in index] == ["completed"] * 4 and all(row["score"] is not None for row in index)
    by_seed = ["-m", "preset=tiny", "seed=0,1", "hydra.sweep.dir=seeds", "hydra.sweep.subdir=s${seed}"]
    assert command(*by_seed).code == 0
    other = command(*by_seed, "lr=0.5")
    assert other.code == 2 and "s0 holds a run with another config (lr: 0.001 there, 0.5 here)" in other.err
    never = command(*sweep, "resume=never")
    assert never.code == 2 and "holds a run already" in never.err


@pytest.mark.rare  # a campaign
@pytest.mark.parametrize("own", [["seed=0"], ["seed=0", "model=gru"], LONG_ANSWERS], ids=["transformer", "gru", "long"])
def test_kills_after_random_numbers_of_rows_change_nothing(command, tmp_path, no_comparison, own):  # noqa: F811
    """SIGKILL of all processes after a random number of rows, then the same command again, until it is through."""
    arguments = ["-m", *KILLED, *own, "hydra.sweep.dir=sweep"]
    chance, said = random.Random(7), tmp_path / "said.txt"
    for _ in range(KILLS):
        process, rows_then = started(arguments, tmp_path, said), count(tmp_path)
        wait = chance.randint(1, 8)
        while process.exitcode is None and count(tmp_path) < rows_then + wait:
            time.sleep(0.005)
        assert process.exitcode is None, f"it ended before it was killed: {said.read_text()}"
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    assert command(*arguments).code == 0
    folders = sorted(file.parent for file in tmp_path.glob("sweep/*/metrics.jsonl"))
    whole = [Job(load(each / "config.yaml"), tmp_path / "whole" / each.name, each.name, "whole") for each in folders]
    for job in whole:
        job.folder.mkdir(parents=True)
    for folder, job, score in zip(folders, whole, train_jobs(whole), strict=True):
        assert rows(job.folder) == rows(folder), folder.name
        assert json.loads((folder / "summary.json").read_text())["score"] == score


def started(arguments, folder, said):
    """Start the command in a process of its own, forked from one that has imported everything and computed nothing."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["rlexp.train", "rlexp.sweep.engine", "rlexp.launch.launcher"])
    process = forks.Process(target=sweep, args=(arguments, folder, said))
    process.start()
    return process


def sweep(arguments, folder, said):
    os.setsid()  # a group of its own, with its workers
    os.chdir(folder)
    sys.argv, sys.stderr = ["rlexp", *arguments], open(said, "a", buffering=1)
    train.main()


def count(folder):
    """Rows in the files of all runs."""
    return sum(file.read_bytes().count(b"\n") for file in folder.glob("sweep/*/metrics.jsonl"))
