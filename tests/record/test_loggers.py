"""The wandb mirror holds exactly what was logged, and never stands in the way of training."""

import json
import logging
import os
import pty
import signal
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter, ValidationError

from rlexp.core.registry import schema
from rlexp.record import logged, wandb_logger
from rlexp.record.logged import run_id
from rlexp.record.loggers import LOGGERS, open_none
from rlexp.record.wandb_logger import Wandb, open_wandb

OFFLINE = {"mode": "offline", "project": "rlexp", "entity": None, "group": None, "tags": ["study"]}
BLOCK = 32768


@pytest.fixture(autouse=True)
def no_account(monkeypatch, tmp_path):
    """No key, no server, nothing outside the test's own folder, and no memory of earlier tests."""
    environment = {
        "NETRC": tmp_path / "none",
        "WANDB_BASE_URL": "http://127.0.0.1:9",
        "WANDB_CONFIG_DIR": tmp_path / "config",
        "WANDB_CACHE_DIR": tmp_path / "cache",
        "WANDB_DATA_DIR": tmp_path / "data",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setattr(wandb_logger, "_unreachable", [])
    logged.warn_once.cache_clear()


def job(folder, variant="norm=local,clip.high=0.28", seed=3):
    """Return a job as the engine makes it, in a folder that exists."""
    path = folder / f"{variant.replace('/', '_')},seed={seed}"
    path.mkdir(exist_ok=True)
    values = {"seed": seed, "clip": {"name": "symmetric", "high": 0.28}}
    config = SimpleNamespace(seed=seed, model_dump=lambda mode: values)
    return SimpleNamespace(folder=path, name=path.name, variant=variant, config=config)


def payloads(data):
    """Yield the records of a .wandb file: LevelDB log blocks of 32 KiB behind a header of seven bytes."""
    place, parts = 7, b""
    while place + 7 <= len(data):
        if BLOCK - place % BLOCK < 7:
            place += BLOCK - place % BLOCK
            continue
        checksum, length, kind = struct.unpack_from("<IHB", data, place)
        part = data[place + 7 : place + 7 + length]
        if len(part) < length or kind == 0:
            return
        assert zlib.crc32(bytes([kind]) + part) == checksum
        place, parts = place + 7 + length, parts + part
        if kind in (1, 4):
            yield parts
            parts = b""


def values(items):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def read(folder):
    """Return what the newest offline run in a folder holds: its run record, rows, summary, metrics and exit code."""
    from wandb.proto.wandb_internal_pb2 import Record

    path = sorted(folder.glob("wandb/offline-run-*/*.wandb"))[-1]
    found = SimpleNamespace(run=None, rows=[], summary={}, axes={}, exit_code=None)
    for payload in payloads(path.read_bytes()):
        record = Record.FromString(payload)
        match record.WhichOneof("record_type"):
            case "run":
                found.run = record.run
            case "history":
                found.rows.append(values(record.history.item))
            case "summary":
                found.summary |= values(record.summary.update)
            case "metric":
                found.axes[record.metric.name or record.metric.glob_name] = record.metric.step_metric
            case "exit":
                found.exit_code = record.exit.exit_code
    return found


def finished(folder):
    """As `read`, once wandb's own process, which writes the file, has come to the end of the run."""
    for _ in range(200):
        found = read(folder)
        if found.exit_code is not None:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no end of the run in {folder}")


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
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from test_loggers import OFFLINE, job, open_wandb, row\n"
        "logger = open_wandb(job(Path(sys.argv[2])), **OFFLINE)\n"
        "for step in range(5): logger.log(step, row(step, 0))\n"
        "time.sleep(1.8); print('logged', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"logged\n"
        process.send_signal(signal.SIGKILL)
    assert len(read(job(tmp_path).folder).rows) == 5


@pytest.mark.slow
def test_without_a_key_a_terminal_is_not_asked_for_one(tmp_path):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from test_loggers import OFFLINE, job, open_wandb, row\n"
        "for seed in range(3): open_wandb(job(Path(sys.argv[2]), seed=seed), **OFFLINE | {'mode': 'online'})"
    )
    terminal, child = pty.openpty()
    command = [sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path)]
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


def test_training_outlives_wandb(caplog):
    def gone(*_, **__):
        raise ConnectionResetError("Connection lost")

    runs = [Wandb(SimpleNamespace(log=gone, finish=gone, summary={})) for _ in range(2)]
    for logger in runs:
        logger.log(1, {})
        logger.finish("completed", {})
    assert len(caplog.records) == 1


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


def test_the_knobs_are_the_schema():
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
