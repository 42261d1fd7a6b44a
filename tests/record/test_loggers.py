"""The wandb mirror holds exactly what was logged, and never stands in the way of training."""

import json
import logging
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter, ValidationError
from wandb_files import BLOCK, finished, no_account, read  # noqa: F401 (a fixture that applies itself)

from rlexp.core.registry import schema
from rlexp.record import loggers
from rlexp.record.loggers import LOGGERS, Wandb, open_none, open_wandb, run_id

OFFLINE = {"mode": "offline", "project": "rlexp", "entity": None, "group": None, "tags": ["study"]}


@pytest.fixture(autouse=True)
def no_memory_of_earlier_tests(monkeypatch):
    monkeypatch.setattr(loggers, "_unreachable", [])
    loggers.warn_once.cache_clear()


def job(folder, variant="norm=local,clip.high=0.28", seed=3):
    """Return a job as the engine makes it, in a folder that exists."""
    path = folder / f"{variant.replace('/', '_')},seed={seed}"
    path.mkdir(exist_ok=True)
    values = {"seed": seed, "clip": {"name": "symmetric", "high": 0.28}}
    config = SimpleNamespace(seed=seed, model_dump=lambda mode: values)
    return SimpleNamespace(folder=path, name=path.name, variant=variant, config=config)


def row(step, shift):
    """Return a row of awkward numbers, long enough that 60 of them need several blocks of the file."""
    return {f"section/{index}": (0.1 + shift) * index / 3 for index in range(30)} | {"progress/tokens": step * 2**40}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Two runs that were open at the same time, 60 rows each; the second one failed."""
    folder = tmp_path_factory.mktemp("sweep")
    jobs = [job(folder, seed=0), job(folder, seed=1)]
    opened = [open_wandb(item, **OFFLINE) for item in jobs]
    for step in range(60):
        for shift, logger in enumerate(opened):
            logger.log(step * 10, row(step, shift))
    opened[0].finish("completed", {"score": 0.5, "collapsed": False, "final": {"section/1": 0.0}})
    opened[1].finish("failed", {"score": None})
    return [(item, finished(item.folder)) for item in jobs]


def test_the_file_holds_exactly_what_was_logged(sweep):
    for shift, (_, found) in enumerate(sweep):
        logged = [{key: value for key, value in line.items() if not key.startswith("_")} for line in found.rows]
        assert logged == [{"step": step * 10, **row(step, shift)} for step in range(60)]
        assert [line["_step"] for line in found.rows] == [line["step"] for line in found.rows]


def test_a_run_can_be_found_by_what_it_is(sweep):
    for seed, (item, found) in enumerate(sweep):
        run = found.run
        assert (run.display_name, run.run_group, run.job_type) == (f"{item.variant}-s{seed}", item.variant, "train")
        assert (run.project, list(run.tags), run.run_id) == ("rlexp", ["study"], run_id(item))
        logged = {item.key: json.loads(item.value_json) for item in run.config.update}
        wanted = {"seed": seed, "variant": item.variant, "sweep_name": item.folder.parent.name}
        wanted |= {"clip": {"name": "symmetric", "high": 0.28}}
        assert {key: logged[key] for key in wanted} == wanted


def test_the_axis_of_every_metric_is_the_step(sweep):
    assert {found.axes["*"] for _, found in sweep} == {"step"}


def test_the_summary_and_the_status_are_kept(sweep):
    (_, good), (_, bad) = sweep
    assert (good.summary["score"], good.summary["collapsed"], good.summary["status"]) == (0.5, False, "completed")
    assert (bad.summary["score"], bad.summary["status"]) == (None, "failed")
    assert (good.exit_code, bad.exit_code) == (0, 1)
    assert good.summary["section/1"] == row(59, 0)["section/1"]


@pytest.mark.slow
def test_a_killed_process_leaves_its_rows(tmp_path):
    script = (
        "import os, sys, time; sys.path[:0] = sys.argv[1].split(os.pathsep)\n"
        "from pathlib import Path; from test_loggers import OFFLINE, job, open_wandb, row\n"
        "logger = open_wandb(job(Path(sys.argv[2])), **OFFLINE)\n"
        "for step in range(5): logger.log(step, row(step, 0))\n"
        "time.sleep(1.8); print('logged', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, os.pathsep.join([str(Path(__file__).parent), *sys.path]), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"logged\n"
        process.send_signal(signal.SIGKILL)
    assert len(read(job(tmp_path).folder).rows) == 5


@pytest.mark.slow
def test_without_a_key_a_terminal_is_not_asked_for_one(tmp_path):
    script = (
        "import os, sys; sys.path[:0] = sys.argv[1].split(os.pathsep)\n"
        "from pathlib import Path; from test_loggers import OFFLINE, job, open_wandb, row\n"
        "for seed in range(3): open_wandb(job(Path(sys.argv[2]), seed=seed), **OFFLINE | {'mode': 'online'})"
    )
    terminal, child = pty.openpty()
    command = [sys.executable, "-c", script, os.pathsep.join([str(Path(__file__).parent), *sys.path]), str(tmp_path)]
    subprocess.run(command, stdin=child, stdout=child, stderr=child, check=True, timeout=60)
    screen = os.read(terminal, 100_000).decode().splitlines()
    assert len(screen) == 1 and "No API key" in screen[0] and "logging offline" in screen[0]
    assert len(list(tmp_path.glob("*/wandb/offline-run-*"))) == 3


def test_a_server_that_does_not_answer_is_asked_once(tmp_path, monkeypatch, caplog):
    import wandb

    modes, init = [], wandb.init

    def no_server(mode, **options):
        modes.append(mode)
        if mode == "online":
            raise wandb.errors.CommError("refused\nsecond line")
        return init(mode=mode, **options)

    monkeypatch.setattr(wandb, "init", no_server)
    for seed in range(3):
        open_wandb(job(tmp_path, seed=seed), **OFFLINE | {"mode": "online"}).finish("completed", {})
    assert modes == ["online", "offline", "offline", "offline"]
    messages = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(messages) == 1 and "(refused): logging offline" in messages[0]


@pytest.mark.parametrize("error", [ConnectionResetError("Connection lost"), RuntimeError("Connection lost")])
def test_training_outlives_wandb(caplog, monkeypatch, error):
    def gone(*_, **__):
        raise error

    monkeypatch.setattr(loggers.atexit, "register", lambda _: None)

    runs = [Wandb(SimpleNamespace(log=gone, finish=gone, summary={})) for _ in range(2)]
    for logger in runs:
        logger.log(1, {})
        logger.finish("completed", {})
    assert len(caplog.records) == 1


@pytest.mark.slow
def test_a_killed_wandb_is_started_anew_for_the_next_runs(tmp_path):
    script = (
        "import os, subprocess, sys, time; sys.path[:0] = sys.argv[1].split(os.pathsep)\n"
        "from pathlib import Path; from test_loggers import OFFLINE, job, open_wandb, row\n"
        "first = open_wandb(job(Path(sys.argv[2]), seed=0), **OFFLINE); first.log(0, row(0, 0))\n"
        "core = subprocess.run(['pgrep', '-P', str(os.getpid()), '-f', 'wandb-core'], capture_output=True, text=True)\n"
        "os.kill(int(core.stdout.split()[0]), 9); time.sleep(0.5)\n"
        "first.log(1, row(1, 0)); first.finish('completed', {})\n"
        "second = open_wandb(job(Path(sys.argv[2]), seed=1), **OFFLINE); second.log(0, row(0, 0))\n"
        "second.finish('completed', {})"
    )
    command = [sys.executable, "-c", script, os.pathsep.join([str(Path(__file__).parent), *sys.path]), str(tmp_path)]
    own = {key: value for key, value in os.environ.items() if key != "WANDB_SERVICE"}  # not the process of other tests
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=own)
    assert done.returncode == 0 and done.stderr.count("\n") == 1 and "wandb has stopped" in done.stderr
    assert finished(job(tmp_path, seed=1).folder).exit_code == 0


def test_disabled_and_none_leave_no_files(tmp_path):
    for logger in (open_wandb(job(tmp_path), **OFFLINE | {"mode": "disabled"}), open_none(job(tmp_path))):
        logger.log(1, {"reward/mean": 0.5})
        logger.finish("completed", {"score": 0.5})
    assert list(job(tmp_path).folder.iterdir()) == []


def test_ids_are_legal_and_differ_between_sweeps(tmp_path):
    (tmp_path / "other").mkdir()
    here, there = (job(folder, "x='a/b:c;#?%',ks=[1,2]" + "y" * 200) for folder in (tmp_path, tmp_path / "other"))
    assert run_id(here) == run_id(here) != run_id(there)
    assert len(run_id(here)) < 80 and not set(run_id(here)) & set("/\\#?%:;,' []")


def test_the_hyperparameters_are_the_schema():
    read_node = TypeAdapter(schema(LOGGERS)).validate_python
    assert read_node({"name": "wandb", **OFFLINE}).mode == "offline"
    assert read_node({"name": "none"}).name == "none"
    with pytest.raises(ValidationError, match="'offline', 'online' or 'disabled'"):
        read_node({"name": "wandb", **OFFLINE, "mode": "onlin"})


@pytest.mark.slow
def test_wandb_is_imported_by_its_users_only():
    script = "import sys, rlexp.record.loggers, rlexp.record.progress\n"
    script += "sys.exit(bool({'wandb', 'trackio'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", script], check=True)
