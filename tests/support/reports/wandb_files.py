"""Weights & Biases without an account: the environment of a test, and what an offline run has on disk."""

import json
import struct
import time
import zlib
from types import SimpleNamespace

import pytest

BLOCK = 32768


@pytest.fixture(autouse=True)
def no_account(monkeypatch, tmp_path):
    """No key, no server, nothing outside the test's own folder."""
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
