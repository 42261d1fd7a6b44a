"""The calibration runs, and the numbers on file are what the rows on file say, by formulas of their own."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

ROOT = Path(__file__).parents[2]
FOUND = json.loads((ROOT / "docs" / "statistics" / "calibration.json").read_text(encoding="utf-8"))
ROWS = FOUND["conditions"]


def wilson(count, n, z=1.959963984540054):
    middle, half = count / n + z * z / 2 / n, z * math.sqrt(count / n * (1 - count / n) / n + z * z / 4 / n / n)
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def table(of, words):
    return next(row for row in FOUND["false"] if (row["of"], row["words"]) == (of, words))


def test_as_many_nulls_as_effects_were_asked_on_seeds_of_their_own():
    counts = [len({row["case"] for row in ROWS if (row["sort"] == "planted") == planted}) for planted in (True, False)]
    assert counts[0] == counts[1] == 20 and len(ROWS) == 3 * 3 * sum(counts), "three times, in three conditions"
    assert len({row["seed"] // FOUND["seeds"] for row in ROWS}) == len(ROWS)
    scatter = [row for row in ROWS if row["sort"] == "scatter"]
    assert len(scatter) >= 20 and len({row["effect"] for row in scatter}) == len(scatter)
    assert all(row["effect"] == row["error"] == 0 for row in ROWS if row["sort"] == "identical")


def test_false_words_are_compatible_with_five_in_a_hundred():
    for of in ("scatter", "all nulls", "planted"):
        for words in ("each condition", "all conditions"):
            assert table(of, words)["low"] <= 0.05


def test_words_and_shares_are_those_of_the_effects():
    for row in ROWS:
        half, smallest = t.ppf(0.975, row["n"] - 1) * row["error"], row["smallest"]
        low, high = (row["effect"] - half) / smallest, (row["effect"] + half) / smallest
        if -0.1 < low and high < 0.1 or (low <= 0 <= high and -1 < low and high < 1):
            assert row["word"] == "no material effect"
        elif low <= 0 <= high:
            assert row["word"] == "open"
        else:
            said = "helps" if low > 0 else "hurts"
            assert row["word"] == said + (" a little" if max(abs(low), abs(high)) < 1 else "")
    nulls = [row for row in ROWS if row["sort"] != "planted"]
    false = sum(row["word"].split()[0] in ("helps", "hurts") for row in nulls)
    found = table("all nulls", "each condition")
    assert (found["false"], found["of_words"]) == (false, len(nulls))
    assert (found["low"], found["high"]) == pytest.approx(wilson(false, len(nulls)), abs=1e-9)


def test_planted_effects_are_estimated_without_bias():
    planted = [row for row in ROWS if row["sort"] == "planted"]
    off = np.array([(row["effect"] - row["size"] * row["smallest"]) / row["error"] for row in planted])
    assert abs(off.mean()) < 3 * off.std(ddof=1) / np.sqrt(len(off))
    assert np.mean(np.abs(off) < t.ppf(0.975, FOUND["seeds"] - 1)) > 0.85


@pytest.mark.slow
@pytest.mark.rare
def test_the_command_runs(tmp_path):
    """In a process of its own, as it registers choices."""
    command = [sys.executable, "-m", "benchmarks.calibration", "--quick", "--workers", "1", "--out"]
    ran = subprocess.run([*command, str(tmp_path / "x.json")], cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads((tmp_path / "x.json").read_text())
    assert found.keys() == FOUND.keys() and found["conditions"][0].keys() == ROWS[0].keys()
    words = {row["case"]: (row["superior"], row["equivalent"]) for row in found["cases"]}
    assert words["a part under another name"] == ("no material effect", "supported")
    assert words["alternate completions, +2 δ"] == ("supported", "contradicted")
    assert "false words" in ran.stdout
