"""W&B runs on this disk: the file `run-….wandb` of a run's folder, offline or synced.

The file is a log of blocks of 32 KiB as LevelDB writes it, with W&B's header and zlib's CRC32. Its records are
protocol buffers that `wandb` parses. What a killed process left at the end is skipped, and said.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp.analysis.data.errors import AnalysisError, printable
from rlexp.analysis.data.readers.logs import STEP, Columns, LoggedRun, Logs, flat_config
from rlexp.analysis.data.readers.rows import number_table
from rlexp.analysis.data.runs import Problem

if TYPE_CHECKING:
    from wandb.proto.wandb_internal_pb2 import HistoryRecord, Record

IDENT, MAGIC = b":W&B", 0xBEE1
BLOCK, HEADER, RECORD = 32_768, struct.Struct("<4sHB"), struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
DAMAGED = "the end of its file is cut, or damaged: skipped"
OWN_KEYS = ("_wandb", "wandb_version")


def read(files: Sequence[Path], root: Path, columns: Columns) -> Logs:
    """Runs of `.wandb` files, one each.

    Raises:
        AnalysisError: A file is none, or has no history.
    """
    runs, problems = [], []
    for file in files:
        if file.parent.is_symlink():  # latest-run
            continue
        run, damage = read_run(file)
        problems += [Problem(run.name, damage)] if damage else []
        if run.rows.empty:
            problems.append(Problem(run.name, "has no history"))
        else:
            runs.append(run)
    if not runs:
        raise AnalysisError(f"'{root}' has no W&B run with a history")
    return Logs("W&B run", runs, problems)


def read_run(file: Path) -> tuple[LoggedRun, str]:
    """One run, and what is wrong with its file."""
    damage: list[str] = []
    facts: dict[str, Any] = {"name": file.stem.removeprefix("run-"), "config": {}, "exit": None}
    rows = number_table(_history(file, facts, damage))
    if "_step" in rows:
        rows[STEP] = rows["_step"]
    config = {key: value for key, value in facts["config"].items() if key not in OWN_KEYS}
    config |= {key: facts[key] for key in ("group", "job_type", "project") if facts.get(key)}
    status, reason = "completed", None
    if facts["exit"] is None:
        status, reason = "interrupted", "it did not end, or its file was cut"
    elif facts["exit"]:
        status, reason = "failed", f"exit code {facts['exit']}"
    rows = rows.drop(columns=[name for name in rows.columns if name.startswith("_")])
    run = LoggedRun(printable(facts["name"]), rows, flat_config(config), str(file.parent), status, reason)
    return run, "; ".join(damage)


def _history(file: Path, facts: dict[str, Any], damage: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of a run; what else it says of itself goes to `facts`."""
    from google.protobuf.message import DecodeError
    from wandb.proto.wandb_internal_pb2 import Record

    for data in records(file, damage):
        record = Record()
        try:
            record.ParseFromString(data)
        except DecodeError:
            damage.append("a record that is none: skipped")
            continue
        kind = record.WhichOneof("record_type")
        if kind == "history":
            yield _row(record.history)
        elif kind in ("run", "config", "exit"):
            _take(record, kind, facts)


def _row(history: HistoryRecord) -> dict[str, Any]:
    row: dict[str, Any] = {"_step": history.step.num}
    for item in history.item:
        text = item.value_json
        key = ".".join(item.nested_key) or item.key
        try:
            row[key] = float(text)  # most are; json.loads takes three times as long
        except ValueError:
            row[key] = json.loads(text) if text.startswith("{") else None
    return row


def _take(record: Record, kind: str, facts: dict[str, Any]) -> None:
    if kind == "exit":
        facts["exit"] = record.exit.exit_code
        return
    if kind == "run":
        facts["name"] = record.run.display_name or facts["name"]
        facts |= {"group": record.run.run_group, "job_type": record.run.job_type, "project": record.run.project}
    for item in (record.run.config if kind == "run" else record.config).update:
        facts["config"][".".join(item.nested_key) or item.key] = _value(item.value_json)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def records(file: Path, damage: list[str]) -> Iterator[bytes]:
    """The records of a `.wandb` file.

    Args:
        file: of a run.
        damage: takes what is wrong with it, in words.

    Raises:
        AnalysisError: It does not begin as such a file does.
    """
    with file.open("rb") as log:
        head = log.read(HEADER.size)
        if len(head) < HEADER.size or HEADER.unpack(head)[:2] != (IDENT, MAGIC):
            raise AnalysisError(f"'{file}' is no .wandb file of a run")
        block, start, whole, parts = head + log.read(BLOCK - HEADER.size), HEADER.size, True, b""
        while block:
            while len(block) - start >= RECORD.size:
                crc, size, kind = RECORD.unpack_from(block, start)
                data = block[start + RECORD.size : start + RECORD.size + size]
                start += RECORD.size + size
                if (crc, size, kind) == (0, 0, 0):  # filled up to the end of the block
                    break
                if len(data) < size or zlib.crc32(data, zlib.crc32(bytes([kind]))) != crc:
                    damage.append(DAMAGED)
                    return
                parts = data if kind in (FULL, FIRST) else parts + data
                whole = kind in (FULL, LAST)
                if whole:
                    yield parts
            if len(block) < BLOCK and 0 < len(block) - start < RECORD.size:  # the file ends in the head of a record
                whole = False
            block, start = log.read(BLOCK), 0
        if not whole:
            damage.append(DAMAGED)
