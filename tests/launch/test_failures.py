"""One run's fate is its own, and whatever happens to a sweep is on record."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from analysis_fixtures import random_scores, write_sweep
from command import CONF, command  # noqa: F401 (a fixture)
from engine_double import engine_of  # noqa: F401 (a fixture)
from sweep_files import rows

import rlexp.analysis.compare
from rlexp.launch import hooks
from rlexp.loop import reward_model, start

pytestmark = pytest.mark.slow  # whole runs

TINY = ("preset=tiny",)


def test_a_failed_run_is_named_and_the_others_count(command, tmp_path, engine_of):
    engine_of(lambda job: FloatingPointError("loss is nan") if job.config.seed == 1 else 0.5)
    result = command("-m", "norm=local,none", "seed=0,1", "hydra.sweep.dir=x")
    assert result.code == 1
    failed = [line for line in result.err.splitlines() if not line.startswith("note: ")]
    assert failed == [f"norm={norm},seed=1: failed: FloatingPointError: loss is nan" for norm in ("local", "none")]
    assert "the table" in result.out
    fates = [(row["status"], row["score"]) for row in rows(tmp_path / "x")]
    assert fates == [("completed", 0.5)] * 2 + [("failed", None)] * 2


@pytest.mark.slow
def test_a_run_that_diverges_says_so(command, tmp_path):
    result = command("-m", *TINY, "lr=1e-3,1e38", "warmup_steps=0", "seed=0", "steps=6", "hydra.sweep.dir=x")
    assert result.code == 1
    good, bad = rows(tmp_path / "x")
    assert (good["status"], bad["status"]) == ("completed", "diverged")
    assert result.err.splitlines()[-1] == f"{bad['name']}: diverged: {bad['reason']}"


def test_a_crash_fails_only_its_own_batch_and_leaves_the_traceback_in_its_logs(command, tmp_path, engine_of):
    def train(job):
        if job.config.group_size.completions == 2:
            raise MemoryError("no more")
        return 0.5

    engine_of(train)
    result = command("-m", "group_size=2,4", "seed=0,1", "hydra.sweep.dir=x")
    assert result.code == 1
    assert "Traceback" not in result.out + result.err
    for row in rows(tmp_path / "x"):
        log = (tmp_path / "x" / row["name"] / "train.log").read_text()
        crashed = "group_size=2" in row["name"]
        assert row["status"] == ("failed" if crashed else "completed")
        assert ("Traceback" in log and "MemoryError: no more" in log) == crashed


def test_a_failed_single_run_is_one_line_and_its_log_has_the_traceback(command, tmp_path, engine_of):
    engine_of(lambda job: FloatingPointError("loss is nan"))
    result = command("hydra.run.dir=x")
    assert (result.code, result.err) == (1, "run failed: FloatingPointError: loss is nan (see x)\n")
    assert "FloatingPointError" in (tmp_path / "x" / "train.log").read_text()


def test_later_batches_run_although_an_earlier_one_failed(command, tmp_path, engine_of):
    buckets = engine_of(lambda job: ValueError("bad luck") if job.config.seed == 0 else 0.5)
    result = command("-m", "norm=local", "seed=range(0,5)", "hydra.sweeper.max_batch_size=2", "hydra.sweep.dir=x")
    assert result.code == 1
    assert [len(bucket) for bucket in buckets] == [2, 2, 1]
    assert [row["job"] for row in rows(tmp_path / "x")] == [0, 1, 2, 3, 4]
    assert [row["status"] for row in rows(tmp_path / "x")] == ["failed"] + ["completed"] * 4
    assert result.out.count("the table") == 1


def test_the_index_is_there_before_training_and_says_what_was_interrupted(command, tmp_path, engine_of):
    def train(job):
        if job.config.group_size.completions == 4:
            assert [row["status"] for row in rows(tmp_path / "x")] == ["completed", "running"]
            raise KeyboardInterrupt
        return 0.5

    engine_of(train)
    result = command("-m", "group_size=2,4", "seed=0", "hydra.sweep.dir=x")
    same = "python -m rlexp.train -m group_size=2,4 seed=0 hydra.sweep.dir=x"
    assert result.code == 130
    typed = same.replace("-m group", f"--config-dir {CONF} -m group")
    said = [line for line in result.err.splitlines() if not line.startswith("note: ")]
    assert said == [*(f"[rlexp] batch {n} of 2: 1 runs" for n in (1, 2)), f"interrupted; go on with: {typed}"]
    assert [row["status"] for row in rows(tmp_path / "x")] == ["completed", "interrupted"]


def row_written(path):
    return path.stat().st_size > 0


@pytest.mark.slow
def test_ctrl_c_in_the_terminal(tmp_path):
    arguments = ["-m", *TINY, "steps=100000", "seed=0,1", "hydra.sweep.dir=x"]
    command = [sys.executable, "-m", "rlexp.train", "--config-dir", str(CONF), *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    while process.poll() is None and len([*filter(row_written, tmp_path.glob("x/*/metrics.jsonl"))]) < 2:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    last = err.splitlines()[-1]
    assert last.startswith("interrupted; go on with: python -m rlexp.train ") and last.endswith(" hydra.sweep.dir=x")
    assert [row["status"] for row in rows(tmp_path / "x")] == ["interrupted"] * 2
    for row in rows(tmp_path / "x"):
        assert json.loads((tmp_path / "x" / row["name"] / "summary.json").read_text())["status"] == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        (start, "imitation_loss", ["start=sft", "start.accuracy=1.0"]),
        (reward_model, "pair_losses", ["reward=learned", "reward.model.updates=1000"]),
    ],
    ids=["a start", "a judge"],
)
def test_a_signal_ends_what_is_trained_before_the_first_step(command, monkeypatch, module, name, words, number):
    update, updates = getattr(module, name), []

    def signalled(*inputs):
        updates.append(1)
        if len(updates) == 2:
            os.kill(os.getpid(), number)
        return update(*inputs)

    monkeypatch.setattr(module, name, signalled)
    result = command(*TINY, *words, "hydra.run.dir=x")
    assert result.code == 130 and "interrupted; go on with: " in result.err and len(updates) == 2


def test_results_outlive_a_failure_to_compare_them(command, tmp_path, engine_of, monkeypatch):
    engine_of(lambda job: 0.5)
    monkeypatch.setattr(rlexp.analysis.compare, "report", lambda folder, **_: 1 / 0)
    result = command("-m", "seed=0", "hydra.sweep.dir=x")
    assert result.code == 1
    assert result.err.endswith("no comparison: ZeroDivisionError: division by zero (rlexp compare x)\n")
    assert [row["status"] for row in rows(tmp_path / "x")] == ["completed"]


def test_the_end_of_a_sweep_computes_its_answer_once_and_compares_as_the_command_does(tmp_path, monkeypatch, capsys):
    folder = write_sweep(tmp_path / "x", random_scores(["norm=a", "norm=b"], 3), 4)
    problems = []
    page = hooks.write_page(folder, None, problems)
    with monkeypatch.context() as patched:
        patched.setattr(rlexp.analysis.compare, "load", None)
        patched.setattr(rlexp.analysis.compare, "answer", None)
        hooks.compare(folder, None, page, problems)
    assert problems == [] and "x: eval/greedy_accuracy (higher is better)" in capsys.readouterr().out
    written = {file.name: file.read_bytes() for file in (folder / "analysis").iterdir() if file.suffix != ".pdf"}
    assert "runs.csv" in written and "effects.png" in written
    hooks.compare(folder, None, None, problems)
    assert {name: (folder / "analysis" / name).read_bytes() for name in written} == written
