"""What somebody else has left in the folder of a run is read as data: tensors, numbers, texts."""

from __future__ import annotations

import json
import os
import pickle
from io import BytesIO

import pytest
import torch
from small_runs import SHORT, SMALL, rows

from rlexp import api
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.record import checkpoint
from rlexp.record.disk import matches, read_state, serialize
from rlexp.record.policies import load_policy
from rlexp.record.resume import inspect
from rlexp.runfolder.files import Damaged, archive_with_checksum, json_with_checksum

TINY = [*SHORT, *SMALL, "model=gru", "model.hidden=6", "norm=center"]


class Evil:
    def __reduce__(self):
        return os.mkdir, ("owned",)


def saved(value, **options) -> bytes:
    buffer = BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


HOSTILE = {
    "checksum": archive_with_checksum(saved({"networks": Evil(), "step": 1})),
    "no checksum": saved({"networks": Evil(), "step": 1}),
    "older": saved({"networks": Evil()}, _use_new_zipfile_serialization=False),
    "pickle": pickle.dumps(Evil()),
    "key": archive_with_checksum(saved({Evil(): 1})),
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return api.train(*TINY, folder=tmp_path / "theirs")


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_pickle_in_a_checkpoint_is_not_run(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / checkpoint.LATEST).write_bytes(content)
    with pytest.raises(Damaged, match="checkpoint.pt is damaged"):
        read_state(tmp_path / checkpoint.LATEST)
    assert not (tmp_path / "owned").exists()


@pytest.mark.slow
def test_neither_who_resumes_nor_who_loads_a_policy_runs_it(run, tmp_path):
    whole = rows(run)
    for name in (checkpoint.LATEST, checkpoint.PREVIOUS):
        (run / name).write_bytes(HOSTILE["checksum"])
    with pytest.raises(ConfigError, match="has no checkpoint.pt that can be read|is damaged"):
        load_policy(run)
    with pytest.raises(ConfigError, match="teacher.run=.*checkpoint.pt is damaged"):
        api.train(*TINY, "teacher=added", f"teacher.run='{run}'", folder=tmp_path / "taught")
    (run / "summary.json").unlink()
    api.train(*TINY, folder=run)
    assert rows(run) == whole and not (tmp_path / "owned").exists()


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "metrics.jsonl\x1b[2J", "\0", "nothing"])
@pytest.mark.parametrize("extent", [None, 5, {}, {"bytes": "x"}, {"bytes": -1}, {"bytes": 0, "digest": []}])
def test_a_summary_that_names_other_files_is_damaged(tmp_path, name, extent):
    text = '{"status": "completed", "score": 1.0, "format": 2, "files": {%s: %s}\n}\n'
    (tmp_path / "summary.json").write_bytes(json_with_checksum(text % (json.dumps(name), json.dumps(extent))))
    (tmp_path / "config.yaml").write_text("steps: 1\n")
    status = inspect(tmp_path, {"steps": 1, "resume": "auto"})
    (found,) = status.damaged
    assert status.kind == "resumable" and isinstance(found, Damaged) and "\x1b" not in str(found)
    assert not matches(tmp_path / name, extent)


def test_a_state_is_of_tensors_and_plain_values(tmp_path):
    (tmp_path / "x.pt").write_bytes(serialize({"a": torch.ones(2), "b": [1, "x", None]}))
    assert read_state(tmp_path / "x.pt")["b"] == [1, "x", None]
    with pytest.raises(RunFailed):
        (tmp_path / "x.pt").write_bytes(serialize({"a": Evil}))
        read_state(tmp_path / "x.pt")
