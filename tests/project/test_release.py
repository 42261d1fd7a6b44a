"""What a release shows: its version, its changes, its extras."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import rlexp

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_changelog_and_citation_are_of_this_version():
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## (\S+?),? ", changes, re.MULTILINE)[1] == rlexp.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == rlexp.__version__


def test_every_extra_is_documented():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/install.md").read_text("utf-8"), re.MULTILINE)
    assert {*rows} == {*PROJECT["optional-dependencies"]} and len(rows) == len({*rows})
