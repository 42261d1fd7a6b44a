"""What training and analysis share of a run's folder: light to import, and right about bytes, rows and names."""

import subprocess
import sys
from pathlib import Path

import pytest

from rlexp.runfolder import files, rows
from rlexp.runfolder.files import begins_with, digest, link_out
from rlexp.runfolder.variants import flatten, split_overrides

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "hydra", "omegaconf", "pandas", "numpy", "wandb", "pydantic")


def test_importing_it_imports_nothing_heavy():
    modules = [f"rlexp.runfolder.{path.stem}" for path in (ROOT / "rlexp/runfolder").glob("[a-z]*.py")]
    code = f"import sys, {', '.join(modules)}; print(*{{*{HEAVY}}} & {{*sys.modules}})"
    assert (
        subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).strip() == "" and len(modules) == 3
    )


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (files.json_with_checksum('{\n  "format": 2\n}\n'), files.JSON),
        (files.yaml_with_checksum("format: 2\n"), files.YAML),
        (files.line_with_checksum({"step": 3}, 7).rstrip("\n").encode(), files.LINE),
    ],
    ids=["json", "yaml", "line"],
)
def test_a_checksum_is_right_wrong_or_missing(raw, kind):
    assert files.is_intact(raw, kind) is True and files.is_whole(raw, kind, {"format": 2})
    changed = raw.replace(b"2", b"3", 1).replace(b'"step": 3', b'"step": 4')
    assert files.is_intact(changed, kind) is False and not files.is_whole(changed, kind, {"format": 1})
    assert files.is_intact(raw[:-9], kind) is None and not files.is_whole(raw[:-9], kind, {"format": 2})
    assert files.is_whole(raw[:-9], kind, {"of": "before there were checksums"})


def test_a_line_has_its_checksum_or_is_of_before_there_were_any():
    line = files.line_with_checksum({"name": "a"}, 2).encode().rstrip(b"\n")
    assert files.row_of(line)["of"] == 2 and files.row_of(b'{"name": "a"}') == {"name": "a"}
    for other in (line.replace(b"a", b"b", 1), b'{"of": 2}', b"[1]", b'{"na'):
        assert files.row_of(other) is None


def test_files_written_by_the_first_version_with_checksums_are_read():
    body = b'{\n  "a": 1'
    assert files.is_intact(body + b',\n  "checksum": "%s"\n}\n' % digest(body).encode(), files.JSON)
    body = b"a: 1\n# rlexp 0.0.9, checksum "
    assert files.is_intact(body + digest(body).encode() + b"\n", files.YAML)
    body = b'{"a": 1, "of": 1'
    assert files.is_intact(body + b', "check": "%s"}' % digest(body, 4).encode(), files.LINE)


def test_bytes_begin_with_what_was_written():
    extent = {"bytes": 2, "digest": digest(b"ab")}
    assert begins_with(b"ab", extent, whole=True) and begins_with(b"abc", extent) and not begins_with(b"b", extent)
    assert not begins_with(b"abc", extent, whole=True) and not begins_with(b"ax", extent)
    others = [{"bytes": size, "digest": digest(b"a")} for size in (True, "1", 1.0, -1)]
    for damaged in (None, [], {}, *others):
        assert not begins_with(b"a", damaged)


@pytest.mark.parametrize(("n", "share", "count"), [(0, 0.1, 1), (3, 0.1, 1), (11, 0.1, 2), (100, 0.07, 7), (5, 1.0, 5)])
def test_the_last_share_of_the_evaluations(n, share, count):
    assert rows.late_count(n, share) == count


def test_rows_by_the_config():
    config = {"steps": 7, "log_every": 3, "eval": {"every": 2}}
    assert rows.logged_steps(config, 7) == [0, 2, 3, 4, 6, 7] and rows.logged_steps(config, 3) == [0, 2, 3]
    lines = [b'{"step": 2}\n', b'{"step": 2}', b'{"step": 2.5}\n', b"[]\n", b'{"step": true}\n']
    assert [rows.step_in(line) for line in lines] == [2, None, None, None, None]
    assert rows.without_clock({"step": 1, "time/total": 2.0, "reward": 3.0}) == {"step": 1, "reward": 3.0}


def test_names_and_settings():
    assert split_overrides("a=1,task.sizes=[1,2],b={c:1,d:2}") == ["a=1", "task.sizes=[1,2]", "b={c:1,d:2}"]
    assert dict(flatten({"a": {"b": 1, "c": {"d": None}}, "e": [2]})) == {"a.b": 1, "a.c.d": None, "e": [2]}


def test_links_are_followed_only_within_a_folder(tmp_path):
    (tmp_path / "run" / "wandb").mkdir(parents=True)
    (tmp_path / "run" / "inner").symlink_to(tmp_path / "run" / "wandb")
    (tmp_path / "run" / "wandb" / "out").symlink_to(tmp_path)  # its library makes that folder anew
    assert link_out(tmp_path / "run") is None
    (tmp_path / "run" / "outer").symlink_to(tmp_path)
    assert link_out(tmp_path / "run") == tmp_path / "run" / "outer"
