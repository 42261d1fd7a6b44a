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
OF_SIZES, _, OF_LANGUAGE = PAGE.partition("## And for a language model?")
LANGUAGE = LADDERS["language"].results


def row(name: str, part: str = OF_SIZES) -> list[str]:
    """The cells of a row behind its name, in a part of the page."""
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|")
    (found,) = [cells[1:] for cells in rows if cells[0].startswith(name)]
    return found


def scored(each: dict) -> list[str]:
    inside = f"{each['covered']} of {each['intervals']}" if each["intervals"] else "–"
    return [f"{each['accuracy']:.2f}", f"{each['brier']:.3f}", inside, f"{each['error']:.3f}"]


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
        assert row(name) == scored(each)


def test_the_score_of_the_language_model():
    forecast, _, none = json.loads((LANGUAGE / "score.json").read_text("utf-8"))["scores"]
    assert row("copy of", OF_LANGUAGE) == scored(forecast) and row("no effect", OF_LANGUAGE) == scored(none)


@pytest.mark.parametrize("part", LADDERS["language"].parts)
def test_what_the_language_model_was_forecast_and_has_shown(part):
    """Differences as `rlexp transfer` and `rlexp transfer --score` print them."""
    lines = {name: (LANGUAGE / f"{name}.txt").read_text("utf-8").splitlines() for name in ("score", "transfer")}
    shown, differences = (next(line for line in lines[name] if line.startswith(part)) for name in lines)
    forecast, actual = shown.removeprefix(part).strip().rsplit(maxsplit=1)
    here, _, there = differences.removeprefix(part).split()[:3]
    cells = row(f"`{part.replace('+', ' ')}`", OF_LANGUAGE.partition("## Five claims")[0])
    assert [cells[0], cells[1], cells[2].partition(",")[0], cells[3]] == [here, forecast.strip(), there, actual]


@pytest.mark.parametrize("size", SIZES)
def test_each_size_has_the_number_of_each_start_at_each_rate(size):
    runs = pd.read_parquet(FOLDER / size / "runs.parquet")
    assert len(runs) == (len(PARTS) + 1) * 3 * runs["lr"].nunique() and runs["lr"].nunique() >= 3
