"""Bets on signs: exact laws over all sign patterns, and the plain loops that they stand for."""

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import yaml
from analysis_fixtures import write_sweep

from benchmarks import coverage
from rlexp.analysis.data.load import load
from rlexp.analysis.report.tables import answer_json, comparison_table
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.significance import (
    anytime_p,
    confidence_sequence,
    decide,
    fewest_seeds,
    log_evidence,
)

SIZES = np.abs(np.random.default_rng(3).normal(size=12)) + 0.01
PATTERNS = np.array([*product([1.0, -1.0], repeat=12)])


def by_loop(differences):
    """e after the last difference, one after another."""
    e, total, squares = 1.0, 0.0, 0.0
    for n, x in enumerate(differences, 1):
        squares += x * x
        second = squares / n
        mean = max(0.0, (0.5 * math.sqrt(second) + total) / n)
        bet = mean / max(second - mean * mean, 0.15 * second)
        e *= 2 / (1 + math.exp(-2 * bet * x))
        total += x
    return e


def test_the_evidence_is_that_of_a_plain_loop():
    differences = np.random.default_rng(0).normal(0.3, 1, 20)
    e = np.exp(log_evidence(differences))
    assert e == pytest.approx([by_loop(differences[:n]) for n in range(1, 21)], rel=1e-12)


def test_it_is_worth_one_on_average_over_all_signs():
    """Exactly, whatever the sizes: the law that makes it a martingale."""
    e = np.exp(log_evidence(PATTERNS * SIZES))
    assert e.mean(0) == pytest.approx(np.ones(12), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.5, 0.2, 0.05])
def test_it_seldom_ever_gets_large(alpha):
    """Ville's inequality, counted over all sign patterns; p is by the same law valid wherever one stops."""
    differences = PATTERNS * SIZES
    assert (log_evidence(differences).max(1) >= math.log(1 / alpha)).mean() <= alpha
    assert np.mean([anytime_p(row) <= alpha for row in differences]) <= alpha


def test_the_interval_holds_what_is_not_rejected():
    differences = np.random.default_rng(1).normal(0.5, 0.3, 10)
    low, high = confidence_sequence(differences)
    inside = np.linspace(low + 1e-4, high - 1e-4, 7)
    largest = [max(log_evidence(side * (differences - m)).max() for side in (1, -1)) for m in inside]
    assert min(largest) < math.log(40)  # the interval is the smallest that holds all; some within may be rejected
    for m in (low - 1e-4, low - 1, high + 1e-4, high + 1):
        assert max(log_evidence(side * (differences - m)).max() for side in (1, -1)) >= math.log(40)
    turned = confidence_sequence(-2 * differences + 1)
    assert (turned.low, turned.high) == pytest.approx((1 - 2 * high, 1 - 2 * low), abs=1e-5)


def test_it_narrows_and_needs_six_seeds():
    differences = np.random.default_rng(2).normal(0.1, 0.05, 30)
    assert np.isnan(confidence_sequence(differences[:5]).low) and fewest_seeds() == 6 and fewest_seeds(0.05 / 8) == 9
    widths = [np.subtract(*confidence_sequence(differences[:n])[::-1]) for n in (6, 10, 20, 30)]
    assert sorted(widths, reverse=True) == widths and widths[-1] < 0.08


@pytest.mark.parametrize(
    ("differences", "margin", "decided"),
    [
        (np.full(8, 0.1), 0.05, "higher"),
        (np.full(8, -0.1), 0.05, "lower"),
        (np.full(8, 0.1), 0.2, "equal"),
        (np.zeros(8), 0.01, "equal"),
        (np.zeros(5), 0.01, "open"),
        (np.zeros(0), 0.01, "open"),
        (np.tile([0.1, -0.1], 5), 0.05, "open"),
    ],
)
def test_what_is_decided(differences, margin, decided):
    assert decide(confidence_sequence(differences), margin) == decided


def test_hedged_capital_is_that_of_a_plain_loop():
    """Source: Waudby-Smith & Ramdas, arXiv 2010.09686: a centre is kept while the mean of both capitals is below 20."""
    differences = np.random.default_rng(4).uniform(-0.2, 1, 25)
    low, high = coverage.hedged_capital(differences)
    x = (differences + 1) / 2

    def largest(m):
        up = down = top = 1.0
        mean, spread, total = 0.5, 0.25, 0.0
        for n, value in enumerate(x, 1):
            bet = math.sqrt(2 * math.log(40) / (spread * n * math.log(n + 1)))
            up *= 1 + min(bet, 0.5 / m) * (value - m)
            down *= 1 - min(bet, 0.5 / (1 - m)) * (value - m)
            top = max(top, (up + down) / 2)
            total += value
            mean = (0.5 + total) / (n + 1)
            spread = (spread * n + (value - mean) ** 2) / (n + 1)
        return top

    step = 1 / 4000  # of the grid of centres
    assert largest((low + 1) / 2 - step) >= 20 > largest((low + 1) / 2 + step)
    assert largest((high + 1) / 2 + step) >= 20 > largest((high + 1) / 2 - step)
    assert low < differences.mean() < high


def test_a_sweep_that_added_seeds_says_what_holds_at_every_look(tmp_path):
    shaken = 0.01 * np.sin(np.arange(9))
    scores = {"norm=a": [0.5] * 9, "norm=b": list(0.6 + shaken), "norm=c": list(0.5 + shaken)}
    folder = write_sweep(tmp_path / "sweep", scores, steps=4)
    for path in folder.glob("*/config.yaml"):
        config = yaml.safe_load(path.read_text()) | {"until_decided": 0.03}
        path.write_text(yaml.safe_dump(config))
    result = answer(load(folder), Question())
    (comparison,) = result.comparisons
    table = comparison.table
    for arm in ("norm=b", "norm=c"):
        differences = np.subtract(scores[arm], scores["norm=a"])
        assert table.loc[arm, "p"] == anytime_p(differences)
        ends = table.loc[arm, ["difference_low", "difference_high"]].tolist()
        assert ends == [float(end) for end in confidence_sequence(differences)]
    assert [comparison.decision(arm) for arm in comparison.others] == ["higher", "equal"]
    assert comparison_table(comparison).headers[-3] == "decided"
    printed = json.loads(answer_json(result, []))
    assert printed["until_decided"] == 0.03
    assert [arm["decided"] for arm in printed["comparisons"][0]["arms"]] == [None, "higher", "equal"]
    notes = " ".join(result.notes)
    assert "Seeds were added until every difference was decided" in notes and "holds at every look" in notes


def test_the_simulation_prints_and_writes(tmp_path, capsys):
    assert coverage.main(["--sweeps", "2", "--out", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())["outcomes"]
    assert {each["way"] for each in found} == set(
        coverage.WAYS
    ) and "looked at after 6, 8, 10" in capsys.readouterr().out
    assert all(sum(each["shares"].values()) == pytest.approx(1) for each in found)
    assert coverage.main(["--sweeps", "0"]) == 2


@pytest.mark.parametrize(
    ("decided", "mean", "wrong"),
    [
        ("higher", 0.0, True),
        ("higher", 0.01, False),
        ("lower", 0.01, True),
        ("equal", 0.0, False),
        ("equal", 0.03, True),
    ],
)
def test_which_decisions_are_wrong(decided, mean, wrong):
    assert coverage.is_wrong(decided, mean) is wrong


def test_what_the_page_quotes_is_what_the_simulation_stored():
    docs = Path(__file__).parents[3] / "docs"
    quoted = (docs / "statistics.md").read_text(encoding="utf-8").split("```")[3].splitlines()
    rows = [line for line in quoted if line.startswith(("signs", "bounded", "peeking"))]
    stored = (docs / "statistics" / "coverage.txt").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 12 and set(rows) <= set(stored)
    found = json.loads((docs / "statistics" / "coverage.json").read_text(encoding="utf-8"))
    assert all(each["wrong"] < 0.05 for each in found["outcomes"] if each["way"] == "signs")
    assert len(found["outcomes"]) == sum(line.startswith(("signs", "bounded", "peeking")) for line in stored)
