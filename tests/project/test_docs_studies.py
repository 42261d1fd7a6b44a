"""docs/studies.md and the tour show what was measured, and their commands are taken."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from command import command  # noqa: F401 (a fixture)

from benchmarks.claims.texts import read_claims
from benchmarks.parts.transfer_table import transfer_table
from benchmarks.readme import STUDIED, STUDIES, TRANSFERRED, TRANSFERS
from rlexp.config.choices import text_of
from rlexp.launch import hooks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "studies.md"
TOUR = sorted((ROOT / "docs" / "tour").glob("*.md"))
RESULTS = json.loads((STUDIED / "results.json").read_text(encoding="utf-8"))
TESTS = "\n".join(file.read_text("utf-8") for file in ROOT.glob("tests/**/test_*.py"))


def typed(page: Path) -> list[str]:
    """Return the training commands of a page that are written out."""
    written = r"^python -m rlexp\.train [^`\n#]*|`python -m rlexp\.train [^`…]*`"
    lines = (line.strip("` ") for line in re.findall(written, page.read_text(encoding="utf-8"), re.M))
    return [line for line in lines if "study=" not in line]  # tests/launch/test_launcher.py plans every study


@pytest.mark.holds("S2.14", "S4.6")
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_has_its_table_and_figure(name):
    table = (STUDIED / f"{name}.txt").read_text(encoding="utf-8")
    study = yaml.safe_load(text_of("study", name))["study"]
    assert RESULTS[name]["command"] == f"python -m rlexp.train study={name}" and RESULTS[name]["scores"]
    assert " ".join(study["question"].split()) in " ".join(table.split())
    text = PAGE.read_text(encoding="utf-8")
    assert f"## `study={name}`" in text and f"studies/{name}.svg" in text and (STUDIED / f"{name}.svg").is_file()


@pytest.mark.parametrize("name", STUDIES)
def test_what_the_page_quotes_was_printed(name):
    table = (STUDIED / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    section = PAGE.read_text(encoding="utf-8").partition(f"## `study={name}`")[2].partition("\n## ")[0]
    quoted = section.split("```")[1].strip("\n").splitlines()
    assert quoted and [line for line in quoted if line not in table] == []


@pytest.mark.parametrize("name", STUDIES)
def test_a_summary_does_not_deny_what_its_verdicts_say(name):
    summary = (STUDIED / f"{name}.txt").read_text(encoding="utf-8").partition(f"\n\n{name}: ")[0]
    decided = re.search(r"expectations: .*\b(reproduced|reversed|practically equal)", summary)
    assert not (decided and "Nothing was learned" in summary)


@pytest.mark.parametrize("page", [PAGE, *TOUR], ids=lambda page: page.stem)
def test_a_page_links_the_claims_that_supersede_its_studies(page):
    text = page.read_text(encoding="utf-8")
    earlier = {(name, claim.label) for claim in read_claims() for name in claim.studies if name[:3] != claim.number}
    named = {(name, label) for name, label in earlier if re.search(rf"study={name}\b", text)}
    assert [(name, label) for name, label in named if f"claims_explored.md#{label.lower()})" not in text] == []


def test_the_tour_quotes_what_claim_c17_found():
    records = [json.loads(file.read_text("utf-8")) for file in (ROOT / "docs/claims/results").glob("c17_*.json")]
    reasons = [verdict["reason"] for record in records for verdict in record["verdicts"]]
    found = {f"{float(match[1]):.3f}" for reason in reasons if (match := re.match(r"\+([\d.]+) ", reason))}
    page = (ROOT / "docs/tour/grpo_tcr.md").read_text(encoding="utf-8")
    said = re.findall(r"\b0\.\d{3}\b", page.partition("[Claim C17]")[2].partition("\n\n")[0])
    assert len(said) == 4 and {*said} <= found


@pytest.mark.parametrize("page", [PAGE, ROOT / "docs" / "transfer.md", *TOUR], ids=lambda page: page.stem)
def test_a_page_names_tests_and_files_that_exist(page):
    text = page.read_text(encoding="utf-8")
    assert [name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in TESTS] == []
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.rare  # whole sweeps are composed
@pytest.mark.parametrize("line", sorted({line for page in [PAGE, *TOUR] for line in typed(page)}))
def test_what_a_page_trains_passes_all_checks(command, monkeypatch, line):  # noqa: F811
    checked = hooks.check_or_exit

    def check_and_end(check, config):
        checked(check, config)
        sys.exit(0)

    monkeypatch.setattr(hooks, "check_or_exit", check_and_end)
    result = command(*line.replace("'", "").split()[3:])
    assert result.code == 0, result.err


def test_the_page_of_transfer_has_the_table_of_what_was_found():
    stored = [file for name in TRANSFERS if (file := TRANSFERRED / f"{name}_both.json").is_file()]
    table = transfer_table(stored)
    page = (ROOT / "docs" / "transfer.md").read_text(encoding="utf-8")
    assert stored and table == (TRANSFERRED / "table.md").read_text(encoding="utf-8") and table in page
    results = json.loads((TRANSFERRED / "results.json").read_text(encoding="utf-8"))
    for file in stored:
        name = file.stem.removesuffix("_both")
        assert f"transfer/{name}_both.svg" in page and f"transfer/{name}_both.txt" in page
        for each in (name, f"{name}_llama"):
            assert results[each]["command"] == f"python -m rlexp.train study={each}" and results[each]["scores"]
