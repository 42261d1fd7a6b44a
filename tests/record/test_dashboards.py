"""What dashboards are told of a run beside its rows: tags, group, code, completions."""

import json
import sqlite3
import sys
from types import SimpleNamespace

import pytest
from small_runs import compose
from wandb_files import finished, no_account, values  # noqa: F401 (a fixture that applies itself)

from rlexp.core.errors import ConfigError
from rlexp.record.loggers import open_trackio, open_wandb, own_tags, problems, run_settings

pytestmark = pytest.mark.slow  # whole runs

STUDY = {"name": "norms", "expect": []}
SAMPLES = [
    {"step": step, "prompt": "3 1", "completion": "1 3", "correct": True, "reward": 1.0, "advantage": None}
    for step in (0, 2)
]
EARLIER = {"step": 0, "files": "a" * 16, "commit": "c0ffee", "dirty": True, "diff": "+x"}
NOW = {"step": 1, "files": "b" * 16, "commit": None, "dirty": None, "diff": None}


@pytest.fixture
def job(tmp_path):
    """A job that has left completions, and that other code went on with after step 1."""
    folder = tmp_path / "norms" / "preset=dapo,seed=3"
    folder.mkdir(parents=True)
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in SAMPLES))
    (folder / "code.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in (EARLIER, NOW)))
    tree = {"seed": 3, "task": {"name": "sort"}, "study": STUDY}
    config = SimpleNamespace(seed=3, model_dump=lambda mode: tree)
    return SimpleNamespace(folder=folder, name=folder.name, variant="preset=dapo,lr=0.1", config=config)


def test_wandb_has_tags_group_code_and_completions(job):
    logger = open_wandb(job, mode="offline", project="p", entity=None, group="first try", tags=["mine", "task=sort"])
    logger.log(2, {"reward/mean": 0.5})
    logger.finish("completed", {"score": 0.5})
    found = finished(job.folder)
    assert list(found.run.tags) == ["mine", "task=sort", "study=norms", "preset=dapo"]
    assert found.run.run_group == "first try"
    config = values(found.run.config.update)
    assert config["code"] == {**NOW, "earlier": [EARLIER]}
    (file,) = job.folder.glob("wandb/offline-run-*/files/media/table/completions_*.json")
    table = json.loads(file.read_text())
    assert table == {"columns": list(SAMPLES[0]), "data": [list(row.values()) for row in SAMPLES]}


def test_a_run_without_code_or_completions_still_says_what_it_can(job):
    for name in ("samples.jsonl", "code.jsonl"):
        (job.folder / name).unlink()
    assert {"version", "files", "commit"} <= run_settings(job)["code"].keys()
    logger = open_wandb(job, mode="offline", project="p", entity=None, group=None, tags=[])
    logger.log(2, {"reward/mean": 0.5})
    logger.finish("completed", {})
    found = finished(job.folder)
    assert found.run.run_group == job.variant and len(found.rows) == 1


@pytest.mark.parametrize(
    ("variant", "tags"),
    [
        ("norm=local", ["task=sort"]),
        ("norm=local,preset=trl_rloo", ["task=sort", "preset=trl_rloo"]),
        ("preset=none,norm=local", ["task=sort"]),
        ("+preset=grpo", ["task=sort", "preset=grpo"]),
    ],
)
def test_a_run_has_the_tags_of_its_task_and_preset(tmp_path, variant, tags):
    assert own_tags(SimpleNamespace(folder=tmp_path, variant=variant, config=compose())) == tags


def test_a_logger_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    line = "logger=trackio: needs the package trackio, which is not installed: pip install trackio"
    with pytest.raises(ConfigError, match=line):
        compose("logger=trackio")
    assert not list(problems(compose("logger=none")))


def test_trackio_has_the_rows_of_runs_that_are_open_together(job, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("trackio", reason="trackio is not installed")
    jobs = [SimpleNamespace(**vars(job) | {"variant": f"norm={norm}"}) for norm in ("local", "global")]
    opened = [open_trackio(each, project="p", group=None) for each in jobs]
    for step in range(3):
        for shift, logger in enumerate(opened):
            logger.log(step, {"reward/mean": step + shift / 2, "length/correct": float("nan")})
    for logger in opened:
        logger.finish("completed", {"score": 0.5, "steps": 2, "final": {}})
    assert capfd.readouterr().out == ""
    (path,) = (tmp_path / "trackio").glob("*.db")
    with sqlite3.connect(path) as database:
        rows = database.execute("select run_name, step, metrics from metrics order by run_name, id").fetchall()
    assert {name for name, _, _ in rows} == {"norms/norm=global-s3", "norms/norm=local-s3"}
    local = [(step, json.loads(metrics)) for name, step, metrics in rows if "local" in name]
    assert local[:3] == [(step, {"reward/mean": float(step)}) for step in range(3)]
    assert local[3][0] == 2 and local[3][1]["summary/score"] == 0.5
    assert len(local[3][1]["completions"]["_value"]) == 2
