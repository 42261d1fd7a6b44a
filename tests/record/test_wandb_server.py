"""A server that takes runs gets of each what its own files have: live, and when an offline run is synced."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_runs import SHORT
from wandb_files import finished, no_account  # noqa: F401 (a fixture that applies itself)
from wandb_server import ENTITY, wandb_server

from rlexp.record.loggers import open_wandb

pytestmark = pytest.mark.slow  # whole runs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server():
    with wandb_server() as standin:
        yield standin


@pytest.fixture
def shell(tmp_path, server):
    """Return a function that runs a module as somebody who is logged in at the server."""
    places = {"NETRC": "none", "WANDB_CONFIG_DIR": "config", "WANDB_CACHE_DIR": "cache", "WANDB_DATA_DIR": "data"}
    environment = os.environ | {name: str(tmp_path / "home" / place) for name, place in places.items()}
    environment |= {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": "a" * 40, "PYTHONPATH": str(ROOT)}
    environment.pop("WANDB_MODE", None)

    def run(*arguments):
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_rows(received, folder):
    """Every row as in the run's file, then one with the completions, whose file has been uploaded."""
    *rows, last = [{key: value for key, value in row.items() if key[0] != "_"} for row in received.rows]
    assert rows == lines(folder / "metrics.jsonl")
    table = json.loads(received.files[last["completions"]["path"]])
    samples = lines(folder / "samples.jsonl")
    assert table["data"] == [list(row.values()) for row in samples] and table["columns"] == list(samples[0])


@pytest.mark.rare  # a sweep in a process of its own
def test_a_sweep_is_on_the_server_as_it_is_on_the_disk(server, shell, tmp_path):
    quick = [option for option in SHORT if not option.startswith("logger")]
    wanted = ["logger.mode=online", "logger.group=first", "logger.tags=[mine]", "hydra.sweep.dir=out"]
    said = shell("rlexp.train", "-m", "preset=grpo", "norm=none,local", "seed=0,1", *quick, *wanted)
    assert server.unknown == [] and "wandb" not in said
    trained = {name: run for name, run in server.runs.items() if run.variables["jobType"] == "train"}
    (comparison,) = (run for run in server.runs.values() if run.variables["jobType"] == "aggregate")
    assert len(trained) == 4 and comparison.exit_code == 0
    assert sum(name.endswith(".png") for name in comparison.files) >= 2
    for run in trained.values():
        (folder,) = (path.parent for path in tmp_path.glob("out/*/summary.json") if describes(path, run))
        summary = json.loads((folder / "summary.json").read_text())
        assert run.variables["entity"] == ENTITY and run.variables["groupName"] == "first"
        assert run.variables["tags"] == ["mine", "task=sort", "preset=grpo"]
        assert run.config["code"] == summary["code"][0]
        assert (run.summary["score"], run.summary["status"], run.exit_code) == (summary["score"], "completed", 0)
        check_rows(run, folder)
    assert "http" in shell("rlexp.analysis.workspace", "out", "--push")
    assert [(view["entityName"], view["displayName"]) for view in server.views] == [(ENTITY, "out")]


def describes(path, run):
    summary = json.loads(path.read_text())
    return (summary["variant"], summary["seed"]) == (run.config["variant"], run.config["seed"])


def test_an_offline_run_can_be_synced_later(server, shell, tmp_path):
    samples = [{"step": 0, "prompt": "3 1", "completion": "1 3"}]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    config = SimpleNamespace(seed=0, model_dump=lambda mode: {"seed": 0})
    job = SimpleNamespace(folder=tmp_path, variant="default", config=config)
    logger = open_wandb(job, mode="offline", project="p", entity=None, group=None, tags=[])
    rows = [{"step": step, "reward/mean": step / 3, "progress/tokens": 2**40 + step} for step in range(3)]
    for row in rows:
        logger.log(row["step"], row)
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    logger.finish("failed", {"score": None})
    assert server.runs == {} and finished(tmp_path).exit_code == 1
    (offline,) = tmp_path.glob("wandb/offline-run-*")
    shell("wandb", "sync", "--yes", str(offline))
    (run,) = server.runs.values()
    assert server.unknown == [] and run.exit_code == 1
    check_rows(run, tmp_path)
