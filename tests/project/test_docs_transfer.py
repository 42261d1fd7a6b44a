"""docs/transfer.md: the numbers of the ladder are those of the files that the command wrote."""

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.ladder import LADDERS

DOCS = Path(__file__).parents[2] / "docs"
SIZES, PARTS = LADDERS["sizes"].sizes, LADDERS["sizes"].parts
FOLDER = LADDERS["sizes"].results
PAGE = (DOCS / "transfer.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"]


def row(name: str) -> list[str]:
    """The cells of a row behind its name."""
    (found,) = [cells[1:] for cells in ROWS if cells[0].startswith(name)]
    return found


def interval(value: float, low: float, high: float) -> str:
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def test_decisions_and_effects():
    decisions = json.loads((FOLDER / "transfer.json").read_text("utf-8"))["decisions"]
    assert [each["sweep"] for each in decisions] == [*SIZES][:-1]
    accuracy = [interval(each["accuracy"], each["low"], each["high"]) for each in decisions]
    assert row("pairs in the order")[:-1] == accuracy
    right = [round(each["decided_accuracy"] * each["decided"]) for each in decisions]
    assert row("… of those")[:-1] == [f"{n} of {each['decided']}" for n, each in zip(right, decisions, strict=True)]
    for name, key in {"an effect of 1": "slope", "correlation": "pearson"}.items():
        assert row(name)[:-1] == [interval(*each["effects"][key].values()) for each in decisions]


@pytest.mark.parametrize("place", range(len(SIZES)))
def test_the_baseline_of_each_size(place):
    text = (FOLDER / [*SIZES][place] / "ablation.txt").read_text("utf-8")
    words = text.partition("\narms: ")[2].partition("\nbaseline ")[2].partition("\n")[0].split()
    assert [float(words[1]), float(words[-1])] == [float(row(name)[place]) for name in ("baseline after", "its best")]


def test_the_score():
    scores = json.loads((FOLDER / "score.json").read_text("utf-8"))["scores"]
    for name, each in zip(("mean of three", "copy of", "no effect"), scores, strict=True):
        inside = f"{each['covered']} of {each['intervals']}" if each["intervals"] else "–"
        assert row(name) == [f"{each['accuracy']:.2f}", f"{each['brier']:.3f}", inside, f"{each['error']:.3f}"]


@pytest.mark.parametrize("size", SIZES)
def test_each_size_has_the_number_of_each_start_at_each_rate(size):
    runs = pd.read_parquet(FOLDER / size / "runs.parquet")
    assert len(runs) == (len(PARTS) + 1) * 3 * runs["lr"].nunique() and runs["lr"].nunique() >= 3
