"""docs/reliability.md says what the scripts under tests/faults found, and how to repeat each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
PATHS = sorted((ROOT / "docs" / "reliability").rglob("*.json"))  # those in `added` are of kinds that were added since
FOUND = {path: json.loads(path.read_text("utf-8")) for path in PATHS}
ROW = re.compile(r"^\| `(python -m tests\.faults\.[^`]*)` \|(.*)\| (\d+) \|$", re.MULTILINE)
ROWS = {command: (text, int(findings)) for command, text, findings in ROW.findall(PAGE)}


def short(path: Path) -> str:
    """`kills`, `added/kills`."""
    return str(path.relative_to(ROOT / "docs" / "reliability").with_suffix(""))


def test_every_result_has_a_row_and_every_row_a_result():
    assert sorted(ROWS) == sorted(found["command"] for found in FOUND.values())


@pytest.mark.parametrize("path", PATHS, ids=short)
def test_a_row_is_what_the_script_found(path):
    said = FOUND[path]["findings"]
    assert ROWS[FOUND[path]["command"]][1] == (len(said) if isinstance(said, list) else said)


@pytest.mark.parametrize("path", PATHS, ids=short)
def test_a_script_is_there(path):
    assert (ROOT / "tests" / "faults" / f"{path.stem}.py").is_file()


COUNTED = {
    "kills": lambda found: found["kills"],
    "races": lambda found: found["races"],
    "damage": lambda found: found["number"],
    "fuzz": lambda found: sum(found["counts"].get(kind, 0) for kind in ("valid", "refused", "shown")),
    "numbers": lambda found: found["checked"],
}


@pytest.mark.parametrize("path", [path for path in PATHS if path.stem in COUNTED], ids=short)
def test_a_row_has_the_number_of_trials(path):
    assert f"{COUNTED[path.stem](FOUND[path]):,} " in ROWS[FOUND[path]["command"]][0]
