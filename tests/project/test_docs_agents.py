"""AGENTS.md, the skill and docs/agents.md: numbers are those of the file, and every command that they name exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from rlexp.__main__ import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = ("AGENTS.md", "skills/rlexp/SKILL.md", "docs/agents.md")


def test_the_table_of_campaigns_is_that_of_the_file():
    page = (ROOT / "docs/agents.md").read_text("utf-8")
    found = json.loads((ROOT / "docs/statistics/campaigns.json").read_text("utf-8"))
    for row in found["rows"]:
        power = "" if row["power"] is None else f"{100 * row['power']:.0f} %"
        effects = row["effects"].replace(" of ", " of size ")
        assert f"| {effects} | {row['order']} | {row['rule']} | {100 * row['false']:.1f} % | {power} |" in page
    alone = next(row for row in found["rows"] if row["effects"] == "none" and row["rule"] == "each at 0.05")
    assert f"by luck, in {100 * alone['false']:.0f} of 100 campaigns" in page.replace("\n", " ")


def test_what_the_page_shows_is_what_the_commands_print():
    shown = (ROOT / "docs/agents.md").read_text("utf-8").split("```\n")[1].splitlines()
    recorded = (ROOT / "tests/commands/analysis.txt").read_text("utf-8").splitlines()
    assert shown and all(line in recorded if line.startswith("$ ") else f"| {line}" in recorded for line in shown)


def test_at_most_a_twentieth_of_campaigns_without_an_effect_has_a_finding():
    """The bound holds exactly; two standard errors are left for the draw."""
    found = json.loads((ROOT / "docs/statistics/campaigns.json").read_text("utf-8"))
    (row,) = [row for row in found["rows"] if row["effects"] == "none" and row["rule"] == "ledger"]
    assert row["false"] <= 0.05 + 2 * (0.05 * 0.95 / (10 * found["campaigns"])) ** 0.5


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_is_named_exists(page):
    text = (ROOT / page).read_text("utf-8")
    named = set(re.findall(r"`?rlexp ([a-z]+)\b", text)) - {"answers"}
    assert named and named <= {*COMMANDS}, named - {*COMMANDS}


def test_the_skill_says_when_to_use_it():
    head = (ROOT / "skills/rlexp/SKILL.md").read_text("utf-8").split("---\n")[1]
    facts = yaml.safe_load(head)
    assert facts["name"] == "rlexp" and 50 < len(facts["description"]) <= 1024
