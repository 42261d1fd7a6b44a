"""docs/reliability.md says what the scripts under tests/faults found, and how to repeat each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
FOUND = {path.stem: json.loads(path.read_text("utf-8")) for path in (ROOT / "docs" / "reliability").glob("*.json")}
ROW = re.compile(r"^\| `(python -m tests\.faults\.(\w+)[^`]*)` \|(.*)\| (\d+) \|$", re.MULTILINE)
ROWS = {name: (command, text, int(findings)) for command, name, text, findings in ROW.findall(PAGE)}


def test_every_result_has_a_row_and_every_row_a_result():
    assert ROWS.keys() == FOUND.keys()


@pytest.mark.parametrize("name", sorted(FOUND))
def test_a_row_is_what_the_script_found(name):
    command, _, findings = ROWS[name]
    said = FOUND[name]["findings"]
    assert command == FOUND[name]["command"]
    assert findings == (len(said) if isinstance(said, list) else said)


@pytest.mark.parametrize("name", sorted(FOUND))
def test_a_script_is_there(name):
    assert (ROOT / "tests" / "faults" / f"{name}.py").is_file()


COUNTED = {
    "kills": lambda found: found["kills"],
    "races": lambda found: found["races"],
    "damage": lambda found: found["number"],
    "fuzz": lambda found: sum(found["counts"].get(kind, 0) for kind in ("valid", "refused", "shown")),
    "numbers": lambda found: found["checked"],
}


@pytest.mark.parametrize("name", sorted(FOUND.keys() & COUNTED.keys()))
def test_a_row_has_the_number_of_trials(name):
    assert f"{COUNTED[name](FOUND[name]):,} " in ROWS[name][1]
