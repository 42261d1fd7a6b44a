"""The law of accuracy and entropy is fitted as SciPy fits a line; the stored numbers are of the stored curves."""

import json

import numpy as np
import pytest
from scipy.stats import linregress

from benchmarks.cards.texts import read_cards
from benchmarks.entropy_law import OUT, as_json, explained, forecast_error, law, predict, stored_rows


def curve(noise):
    rng = np.random.default_rng(3)
    entropy = np.linspace(1.2, 0.1, 12) + 0.05 * rng.normal(size=12)
    return entropy, 0.9 - 0.2 * np.exp(entropy) + noise * rng.normal(size=12)


def test_the_law_is_found_where_it_holds():
    entropy, accuracy = curve(0.0)
    assert law(entropy, accuracy) == pytest.approx((0.2, 0.9), abs=1e-12)  # rounding of float64
    assert explained(entropy, accuracy) == pytest.approx(1, abs=1e-12)
    assert forecast_error(entropy, accuracy) < 1e-12


def test_the_fit_is_that_of_a_line_in_exp_of_entropy():
    entropy, accuracy = curve(0.05)
    line = linregress(np.exp(entropy), accuracy)
    assert law(entropy, accuracy) == pytest.approx((-line.slope, line.intercept), abs=1e-12)
    assert explained(entropy, accuracy) == pytest.approx(line.rvalue**2, abs=1e-12)
    first = law(entropy[:6], accuracy[:6])
    by_law = sum((accuracy[i] - predict(entropy[i], *first)) ** 2 for i in range(6, 12))
    by_last = sum((accuracy[i] - accuracy[5]) ** 2 for i in range(6, 12))
    assert forecast_error(entropy, accuracy) == pytest.approx((by_law / by_last) ** 0.5, abs=1e-12)


def test_the_stored_numbers_are_those_of_the_stored_curves():
    assert json.loads(OUT.read_text(encoding="utf-8")) == as_json(stored_rows())


def test_the_card_says_what_is_stored():
    rows = json.loads(OUT.read_text(encoding="utf-8"))
    card = " ".join(next(each for each in read_cards() if each.number == "c15").known.split())
    percent = {key: [round(100 * row[key][1]) for row in rows] for key in ("run", "line")}
    for key in ("setting", "rate"):
        percent[key] = [round(100 * min(row[key][0] for row in rows)), round(100 * max(row[key][1] for row in rows))]
    falling = round(sum(row["falling"] * row["runs"] for row in rows))
    runs, flat = (sum(row[key] for row in rows) for key in ("runs", "flat"))
    said = [
        f"in {falling} of {runs} runs whose accuracy varies ({flat} more",
        "explains {}, {} and {} % of how".format(*percent["run"]),
        "explains {}, {} and {} %, so".format(*percent["line"]),
    ]
    said += ["explains {} to {} %, and".format(*percent["setting"]), "one rate {} to {} %.".format(*percent["rate"])]
    said += ["errs {:.2f}, {:.2f} and {:.2f} times".format(*(row["forecast"][1] for row in rows))]
    assert all(each in card for each in said)
