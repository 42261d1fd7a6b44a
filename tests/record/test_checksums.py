"""Every flipped bit and every cut of a file shows; what older versions wrote is read, later formats are refused."""

import io
import json
import os
import zipfile

import pytest
import torch

from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.record.disk import (
    Rows,
    dump_json,
    matches,
    read_state,
    remove_drafts,
    replace,
    saved_config,
    serialize,
    write_draft,
)
from rlexp.record.provenance import config_hash, foreign, identity
from rlexp.runfolder.files import (
    Damaged,
    OtherFormat,
    Unreadable,
    content,
    json_with_checksum,
    read_json,
    read_yaml,
    to_yaml,
    yaml_with_checksum,
)

STATE = {"step": 3, "networks": {"policy": {"weight": torch.arange(6.0)}}, "identity": {"seed": 1}}
SUMMARY = json_with_checksum(dump_json({"status": "completed", "score": 0.5, "format": 2}, indent=2) + "\n")
CONFIG = yaml_with_checksum(to_yaml({"format": 2, "lr": 1e-3, "steps": 10, "baseline": None}))


@pytest.mark.parametrize(
    ("read", "whole"),
    [(read_state, serialize(STATE)), (read_json, SUMMARY), (read_yaml, CONFIG)],
    ids=["pt", "json", "yaml"],
)
def test_every_flipped_bit_and_every_cut_shows(tmp_path, read, whole):
    path = tmp_path / "file"
    path.write_bytes(whole)
    assert read(path)
    flips = range(0, 8 * len(whole), 1 if len(whole) < 500 else 31)
    for place in flips:
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(Damaged, match="is damaged"):
            read(path)
    for end in range(0, len(whole), 1 if len(whole) < 500 else 13):
        path.write_bytes(whole[:end])
        with pytest.raises(Damaged):
            read(path)
    path.unlink()
    assert read(path) is None


def test_others_read_a_file_with_a_checksum_as_one_without(tmp_path):
    (tmp_path / "state.pt").write_bytes(serialize(STATE))
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)
    assert loaded["networks"]["policy"]["weight"].equal(STATE["networks"]["policy"]["weight"])
    assert zipfile.ZipFile(tmp_path / "state.pt").testzip() is None
    assert json.loads(SUMMARY)["score"] == 0.5


def test_older_files_are_read_and_their_damage_shows_where_zip_knows_it(tmp_path):
    buffer, path = io.BytesIO(), tmp_path / "checkpoint.pt"
    torch.save(STATE, buffer)
    path.write_bytes(buffer.getvalue())
    assert read_state(path)["step"] == 3
    raw = bytearray(buffer.getvalue())
    raw[raw.index(torch.arange(6.0).numpy().tobytes()) + 9] ^= 4  # torch itself reads this without a word
    path.write_bytes(raw)
    torch.load(path, weights_only=True)
    with pytest.raises(Damaged):
        read_state(path)
    (tmp_path / "summary.json").write_text('{"status": "completed"}')
    (tmp_path / "config.yaml").write_text("lr: 0.1\n")
    assert read_json(tmp_path / "summary.json") == {"status": "completed"}
    assert read_yaml(tmp_path / "config.yaml") == {"lr": 0.1}


@pytest.mark.parametrize("found", [3, "two", None])
def test_a_later_format_names_who_reads_it(tmp_path, found):
    facts = {"status": "completed", "format": found, "versions": {"rlexp": "9.1"}}
    (tmp_path / "summary.json").write_bytes(json_with_checksum(dump_json(facts, indent=2) + "\n"))
    with pytest.raises(OtherFormat, match=r"has format .*reads 1 and 2: rlexp 9.1 reads it"):
        read_json(tmp_path / "summary.json")
    (tmp_path / "config.yaml").write_bytes(yaml_with_checksum(to_yaml({"format": found})))
    with pytest.raises(ConfigError, match="has format"):
        saved_config(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    "text", ["a: &x [1]\nb: *x\n", "- 1\n", "{", "a: !!python/name:os.system\n", "x" * 2**21, "a: \x00"]
)
def test_yaml_that_is_no_plain_mapping_is_refused(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(Damaged):
        read_yaml(tmp_path / "config.yaml")


def test_unreadable_is_not_damaged(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):  # and nothing waits for the other end
        with pytest.raises(Unreadable, match=f"{name} (is no file|cannot be read)"):
            content(tmp_path / name)

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "checkpoint.pt").write_bytes(serialize(STATE))
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(Unreadable, match="checkpoint.pt cannot be read: Permission denied"):
        read_state(tmp_path / "checkpoint.pt")


def test_drafts_have_names_of_their_own_and_follow_no_link(tmp_path):
    path, target = tmp_path / "summary.json", tmp_path / "elsewhere"
    assert write_draft(path, "a") != write_draft(path, "b")
    target.write_text("mine")
    (tmp_path / "summary.json.tmp").symlink_to(target)
    replace(path, "new")
    assert (path.read_text(), target.read_text()) == ("new", "mine")
    remove_drafts(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["elsewhere", "summary.json"]


def test_rows_know_what_they_wrote(tmp_path):
    rows = Rows(tmp_path / "metrics.jsonl")
    rows.append("a\n")
    before = rows.extent
    rows.append("b\n")
    assert (
        matches(rows.path, before)
        and not matches(rows.path, before, whole=True)
        and matches(rows.path, rows.extent, whole=True)
    )
    rows.path.write_text("x\nb\n")
    assert not matches(rows.path, before)
    rows.path.write_text("a\nb\nc\n")
    with pytest.raises(RunFailed, match="metrics.jsonl was changed by another process"):
        rows.append("d\n")
    rows.path.unlink()
    with pytest.raises(RunFailed, match="metrics.jsonl is gone"):
        rows.append("d\n")
    assert not rows.path.exists()


def test_a_line_that_the_disk_has_no_room_for_is_taken_back(tmp_path, monkeypatch):
    rows, write = Rows(tmp_path / "metrics.jsonl"), os.write
    rows.append("a\n")

    def full(descriptor, added):
        if len(added) > 3:
            return write(descriptor, added[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        rows.append("whole\n")
    assert rows.path.read_text() == "a\n" and matches(rows.path, rows.extent, whole=True)


def test_the_identity_is_of_what_results_depend_on():
    config = {"seed": 3, "lr": 1e-3, "grad_clip": None, "logger": {"name": "wandb"}, "clip": {"high": 0.2}}
    same = {"format": 2, **config, "logger": {"name": "none"}, "threads": 4}
    assert config_hash(config) == config_hash(same) == config_hash({k: v for k, v in same.items() if k != "grad_clip"})
    assert foreign(identity(config), same) is None and foreign(None, config) is None
    assert "another config (its seed is 3)" in foreign(identity(config), config | {"seed": 4})
    assert "rlexp 0.1.0 wrote it" in foreign(identity(config) | {"format": 7}, config)
