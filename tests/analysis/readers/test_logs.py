"""Logs of trackers and trainers, made by themselves: a real one, a wrong one, one that was cut, one of a million rows.

verl and prime-rl do not install beside this package. Their lines are written as their loggers write them: `FileLogger`
of verl/utils/tracking.py at volcengine/verl b178a3cd, `FileMonitor` of src/prime_rl/utils/monitor/file.py at
PrimeIntellect-ai/prime-rl a28a9a4c.
"""

import json
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import orjson
import pytest
from compare_command import run
from wandb_logs import offline_run, write_records

from rlexp.analysis import load
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.readers.logs import Columns
from rlexp.analysis.data.readers.wandb_files import BLOCK, HEADER, RECORD, records
from rlexp.analysis.stats.answer import Question, answer

DATA = Path(__file__).parents[2] / "data" / "logs"
ARMS, SEEDS = {"grpo": 0.5, "dapo": 0.6}, (0, 1)
MILLION = 1_000_000
REWARD = Columns(metric="eval/reward")


def values(arm, seed, steps=5):
    return [ARMS[arm] + 0.01 * step + 0.001 * seed for step in range(steps)]


def verl(folder, arm, seed, steps=5):
    path = folder / "my_project" / f"{arm}_seed{seed}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb", buffering=0) as file:
        for step, value in enumerate(values(arm, seed, steps), 1):
            data = {"actor/pg_loss": np.float32(0.1), "val-core/gsm8k/reward/mean@1": np.float64(value)}
            file.write(orjson.dumps({"step": step, "data": data}, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def prime_rl(folder, arm, seed, steps=5):
    path = folder / f"{arm}-s{seed}" / "metrics.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("a", buffering=1) as file:
        for step, value in enumerate(values(arm, seed, steps)):
            file.write(json.dumps({"step": step, "time": time.time(), "progress/tokens": 512 * step}) + "\n")
            file.write(json.dumps({"step": step, "time": time.time(), "eval/reward": value}) + "\n")


def trainer_state(folder, arm, seed, steps=5):
    state = pytest.importorskip("transformers").TrainerState
    for upto in (steps // 2, steps):
        path = folder / f"{arm}_seed{seed}" / f"checkpoint-{upto}"
        path.mkdir(parents=True)
        history = [{"loss": 0.1, "epoch": step / steps, "step": step} for step in range(upto)]
        history += [{"eval_reward": value, "step": step} for step, value in enumerate(values(arm, seed, upto))]
        state(global_step=upto, log_history=history).save_to_json(str(path / "trainer_state.json"))


def tensorboard(folder, arm, seed, steps=5):
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder / arm / f"seed_{seed}"))
    for step, value in enumerate(values(arm, seed, steps)):
        writer.add_scalar("eval/reward", value, step)
    writer.add_text("note", "is no number")
    writer.add_hparams({"lr": 0.1}, {"hparam/best": 1.0})
    writer.close()


def wandb(folder, arm, seed, steps=5):
    config = {"algorithm": {"name": arm}, "seed": seed}
    offline_run(folder, f"run-{arm}-{seed}", config, [{"eval/reward": value} for value in values(arm, seed, steps)])


def trackio(folder, arm, seed, steps=5):
    tool = pytest.importorskip("trackio")
    tool.init(project="p", name=f"{arm}-{seed}", config={"method": arm, "seed": seed}, embed=False)
    for value in values(arm, seed, steps):
        tool.log({"eval/reward": value})
    tool.finish()


FORMATS = {
    "verl": (verl, "val-core/gsm8k/reward/mean@1", "JSON lines"),
    "prime_rl": (prime_rl, "eval/reward", "JSON lines"),
    "trainer_state": (trainer_state, "eval_reward", "trainer_state.json"),
    "tensorboard": (tensorboard, "eval/reward", "TensorBoard"),
    "wandb": (wandb, "eval/reward", "W&B run"),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "wandb" else n for n in FORMATS])
def test_runs_as_the_tool_wrote_them(tmp_path, name):
    write, metric, kind = FORMATS[name]
    for arm in ARMS:
        for seed in SEEDS:
            write(tmp_path / "logs", arm, seed)
    data = load(tmp_path / "logs", columns=Columns(metric=metric))
    assert data.origin.kind == kind and {data.labels[variant] for variant in data.variants} == {*ARMS}
    assert not data.problems and data.runs["status"].eq("completed").all()
    comparison = answer(data, Question(baseline="grpo")).comparisons[0]
    assert comparison.paired and comparison.scores.index.tolist() == [0, 1]
    dapo = next(variant for variant, label in data.labels.items() if label == "dapo")
    assert comparison.table.loc[dapo, "difference"] == pytest.approx(0.1, abs=1e-6)
    assert data.runs["score"].max() == pytest.approx(values("dapo", 1)[-1], abs=1e-6)


@pytest.mark.parametrize("name", ["trackio", "tensorboard"])
def test_files_that_a_tool_wrote_once(name):
    if name == "tensorboard":
        pytest.importorskip("tensorboard")
    data = load(DATA / name)
    assert data.score_metric == "eval/reward" and {*data.labels.values()} == {*ARMS}
    assert sorted(data.runs["score"]) == pytest.approx(sorted(values(arm, seed)[-1] for arm in ARMS for seed in SEEDS))


@pytest.mark.slow
def test_trackio_as_it_writes_now(tmp_path, monkeypatch):
    pytest.importorskip("trackio")
    monkeypatch.setattr("trackio.utils.TRACKIO_DIR", tmp_path)
    monkeypatch.setattr("trackio.sqlite_storage.TRACKIO_DIR", tmp_path)
    for arm in ARMS:
        for seed in SEEDS:
            trackio(tmp_path, arm, seed)
    data = load(tmp_path)
    assert {*data.labels.values()} == {*ARMS} and "arm: method, which varies (guessed)" in data.origin.said


WRONG = {
    "run-x.wandb": "is no .wandb file of a run",
    "trainer_state.json": "is damaged: no JSON",
    "project.db": "is no Trackio project",
    "metrics.jsonl": "has no line that is a JSON object",
    "events.out.tfevents.1.host": "has no TensorBoard file with a scalar",
    "notes.txt": "is no log that is known",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_ends_in_a_line(tmp_path, capsys, name):
    if "tfevents" in name:
        pytest.importorskip("tensorboard")
    path = tmp_path / name
    path.write_bytes(b"this is none of them\n" * 10)
    code, out, err = run(capsys, path)
    assert (code, out) == (2, "") and err.count("\n") == 1 and WRONG[name] in err


def test_a_state_of_something_else_ends_in_a_line(tmp_path, capsys):
    path = tmp_path / "trainer_state.json"
    path.write_text('{"epoch": 1}')
    code, _, err = run(capsys, path)
    assert code == 2 and "is no trainer state: it has no log_history" in err


def test_a_database_of_something_else_ends_in_a_line(tmp_path, capsys):
    with closing(sqlite3.connect(tmp_path / "x.db")) as database:
        database.execute("CREATE TABLE metrics (a)")
    code, _, err = run(capsys, tmp_path / "x.db")
    assert code == 2 and "its table metrics has other columns" in err


def cut(path, share=0.7):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


def test_a_line_that_was_cut_is_skipped_and_said(tmp_path):
    for seed in SEEDS:
        prime_rl(tmp_path, "grpo", seed)
    path = tmp_path / "grpo-s0" / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    data = load(tmp_path, columns=REWARD)
    assert [problem.reason for problem in data.problems] == ["line 10 is damaged: skipped"]
    assert any("Runs end apart, at step 3 to 4" in remark for remark in data.remarks)


def test_a_trainer_state_that_was_cut_leaves_the_one_before_it(tmp_path):
    trainer_state(tmp_path, "grpo", 0)
    cut(tmp_path / "grpo_seed0/checkpoint-5/trainer_state.json")
    data = load(tmp_path, columns=Columns(metric="eval_reward"))
    assert data.problems == [("grpo_seed0/checkpoint-5/trainer_state.json", "is damaged: no JSON")]
    assert data.metrics["step"].max() == 1


def test_event_files_that_were_cut_are_read_as_far_as_they_go(tmp_path):
    pytest.importorskip("tensorboard")
    shutil.copytree(DATA / "tensorboard", tmp_path / "logs")
    (file,) = (tmp_path / "logs/grpo/seed_0").iterdir()
    cut(file, 0.6)
    data = load(tmp_path / "logs")
    assert any(
        "grpo/seed_0" in problem.run and "is cut, or damaged: skipped" in problem.reason for problem in data.problems
    )
    assert any("Runs end apart" in remark for remark in data.remarks)


def test_a_database_that_was_cut_ends_in_a_line(tmp_path, capsys):
    shutil.copy(DATA / "trackio/logs.db", tmp_path)
    cut(tmp_path / "logs.db", 0.4)
    code, _, err = run(capsys, tmp_path / "logs.db")
    assert code == 2 and err.count("\n") == 1 and "is no Trackio project" in err


@pytest.mark.slow
def test_a_wandb_file_that_was_cut_is_of_a_run_that_did_not_end(tmp_path):
    folder = offline_run(tmp_path, "grpo-s0", {"lr": 0.1}, [{"reward": 0.1 * step} for step in range(200)])
    (file,) = folder.glob("*.wandb")
    shutil.copy(file, tmp_path / "whole-s1.wandb")
    cut(file)
    data = load(tmp_path / "wandb")
    assert [problem.reason for problem in data.problems] == [
        "the end of its file is cut, or damaged: skipped",
        "interrupted: it did not end, or its file was cut",
    ]
    assert 50 < data.metrics["step"].max() < 199


def test_a_wandb_file_may_be_cut_at_any_byte(tmp_path):
    """Whole records are read; what is said of the rest depends on whether a record was cut, its head included."""
    folder = offline_run(tmp_path, "grpo-s0", {"lr": 0.1}, [{"reward": 0.1}])
    (file,) = folder.glob("*.wandb")
    content, damage = file.read_bytes(), []
    ends, place = {HEADER.size}, HEADER.size
    for record in records(file, damage):
        place += RECORD.size + len(record)
        ends.add(place)
    assert not damage and place == len(content) < BLOCK
    for length in range(HEADER.size, len(content)):
        file.write_bytes(content[:length])
        damage = []
        found = len([*records(file, damage)])
        assert (found, bool(damage)) == (sum(end <= length for end in ends) - 1, length not in ends)


@pytest.mark.slow
def test_a_wandb_run_that_failed_counts_nowhere(tmp_path):
    offline_run(tmp_path, "grpo-s0", {}, [{"reward": 0.1}])
    offline_run(tmp_path, "grpo-s1", {}, [{"reward": 0.2}], exit_code=3)
    data = load(tmp_path)
    assert sorted(data.runs["status"]) == ["completed", "failed"] and data.problems == [
        ("grpo-s1", "failed: exit code 3")
    ]


def test_records_of_wandb_go_over_blocks(tmp_path):
    from wandb.proto.wandb_internal_pb2 import Record

    records = []
    for step in range(3000):
        record = Record()
        item = record.history.item.add()
        item.nested_key.append("reward")
        item.value_json = str(step / 7)
        record.history.step.num = step
        records.append(record.SerializeToString())
    records.append(b"\x10\x01" + b"\x00" * 0)  # a record of nothing
    data = load(write_records(tmp_path / "a.wandb", records), columns=Columns())
    assert len(data.metrics) == 3000 and data.metrics["reward"].iloc[-1] == pytest.approx(2999 / 7)


def test_steps_that_were_logged_again_count_once(tmp_path):
    path = tmp_path / "run_s0" / "metrics.jsonl"
    path.parent.mkdir()
    steps = [0, 1, 2, 3, 2, 3, 4]  # killed after 3, gone on from 2
    path.write_text("".join(json.dumps({"step": step, "reward": place}) + "\n" for place, step in enumerate(steps)))
    data = load(tmp_path)
    assert data.metrics["reward"].tolist() == [0, 1, 4, 5, 6] and "2 rows of a step that was logged again" in str(
        data.remarks
    )


def test_json_lines_of_several_runs_are_a_table(tmp_path):
    rows = [
        {"arm": arm, "seed": seed, "item": item, "score": 0.1 * item}
        for arm in "ab"
        for seed in SEEDS
        for item in range(3)
    ]
    (tmp_path / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = load(tmp_path / "evals.jsonl")
    assert len(data.runs) == 4 and "3 evaluations of one checkpoint (column item)" in str(data.remarks)


def test_a_folder_of_two_formats_is_refused(tmp_path, capsys):
    prime_rl(tmp_path, "grpo", 0)
    (tmp_path / "grpo-s0" / "evals.csv").write_text("a,b\n1,2\n")
    code, _, err = run(capsys, tmp_path)
    assert (
        code == 2 and "has logs of several formats: CSV (grpo-s0/evals.csv), JSON lines (grpo-s0/metrics.jsonl)" in err
    )


class FakeApi:
    """What `wandb.Api` has of it that the reader asks for."""

    asked = None

    def runs(self, path, filters, order):
        type(self).asked = (path, filters)
        return [FakeRun(arm, seed) for arm in ARMS for seed in SEEDS]


class FakeRun:
    def __init__(self, arm, seed):
        self.name, self.config, self.state = f"happy-cloud-{arm}{seed}", {"algo": arm, "seed": seed}, "finished"
        self.url, self.group = "https://wandb.ai/x", None
        self.rows = [{"eval/reward": value, "_step": step} for step, value in enumerate(values(arm, seed))]

    def scan_history(self):
        return iter(self.rows)


def test_a_project_online(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("wandb.Api", FakeApi)
    data = load("wandb://me/project/sweep1")
    assert FakeApi.asked == ("me/project", {"group": "sweep1"})
    assert {*data.labels.values()} == {*ARMS} and data.origin.kind == "W&B project"
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "wandb://me/project")[0] == 0 and (tmp_path / "wandb-me-project-analysis/table.md").is_file()


def test_a_project_that_does_not_answer_ends_in_a_line(monkeypatch, capsys):
    def silent():
        raise ConnectionError("nobody\nthere")

    monkeypatch.setattr("wandb.Api", silent)
    code, _, err = run(capsys, "wandb://me/project")
    assert (code, err) == (2, "error: wandb://me/project cannot be read: nobody there\n")
    assert "names no project" in run(capsys, "wandb://me")[2]


def test_a_sweep_of_ours_needs_no_columns(tmp_path, capsys):
    from analysis_fixtures import random_scores, write_sweep

    sweep = write_sweep(tmp_path / "sweep", random_scores(["norm=a", "norm=b"], 3))
    assert "leave out --arm, --seed, --step and --better" in run(capsys, sweep, "--arm", "norm")[2]
    prime_rl(tmp_path / "others", "grpo", 0)
    assert "is no log of another tool" in run(capsys, sweep, tmp_path / "others")[2]
    with pytest.raises(AnalysisError, match="without configurations and checksums of rlexp"):
        load(tmp_path / "others", columns=None)


def million_jsonl(path):
    path = path / "grpo_s0.jsonl"
    path.write_text("".join(f'{{"step": {step}, "reward": {step % 97}, "loss": 0.5}}\n' for step in range(MILLION)))
    return path


def million_trainer_state(path):
    history = ", ".join(f'{{"step": {step}, "reward": {step % 97}}}' for step in range(MILLION))
    (path / "trainer_state.json").write_text(f'{{"global_step": {MILLION}, "log_history": [{history}]}}')
    return path / "trainer_state.json"


def million_trackio(path):
    path = path / "p.db"
    shutil.copy(DATA / "trackio/logs.db", path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM metrics")
        rows = (("a", "t", "grpo_s0", step, f'{{"reward": {step % 97}}}') for step in range(MILLION))
        database.executemany(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)", rows
        )
    return path


def million_tensorboard(path):
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    event = Event()
    value = event.summary.value.add(tag="reward")
    with (path / "events.out.tfevents.1.host").open("wb") as file:
        writer = RecordWriter(file)
        for step in range(MILLION):
            event.step, value.simple_value = step, step % 97
            writer.write(event.SerializeToString())
    return path


def million_wandb(path):
    from wandb.proto.wandb_internal_pb2 import Record

    def records():
        record = Record()
        item = record.history.item.add()
        item.nested_key.append("reward")
        for step in range(MILLION):
            item.value_json, record.history.step.num = str(step % 97), step
            yield record.SerializeToString()

    return write_records(path / "run.wandb", records())


MILLIONS = [million_jsonl, million_trainer_state, million_trackio, million_tensorboard, million_wandb]


@pytest.mark.rare
@pytest.mark.parametrize("write", MILLIONS, ids=lambda write: write.__name__)
def test_a_million_rows(tmp_path, write):
    path = write(tmp_path)
    begin = time.process_time()
    data = load(path, columns=Columns(metric="reward"))
    seconds = time.process_time() - begin
    assert len(data.metrics) == MILLION and data.metrics["reward"].max() == 96
    assert seconds < 20
