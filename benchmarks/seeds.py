"""How often do few seeds put two arms in the wrong order, and which effect can they show?

``python -m benchmarks.seeds`` reads the answered questions about small models in docs/asked: each setting of an
assertion that is judged in log-odds has an error of its paired difference, and so a scatter between seeds. It writes
docs/statistics/seeds.csv, a row a number of seeds, with quartiles over settings of two probabilities:

- ``wrong``: that the mean difference of so many paired seeds has the wrong sign, Φ(−δ √n / s). The true difference δ is
  the smallest that counts (``at=counts``) or the pooled effect that was found (``at=found``); s is the scatter.
- ``shown``: that a paired t-test at 5 % shows δ (its power, by the noncentral t); nothing with one seed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.cards.asked import DOCS, asked

SEEDS = (1, 3, 5, 8, 10, 20, 40)
LEAST = 6
"""Seeds of a setting whose scatter is used."""
FILE = DOCS / "statistics" / "seeds.csv"


class Setting(NamedTuple):
    """A setting of an assertion, in log-odds."""

    scatter: float
    counts: float
    found: float


def settings() -> list[Setting]:
    """Return the settings that count of all small models' assertions in log-odds."""
    return [
        Setting(found["error"] * found["n"] ** 0.5, each["smallest"], abs(each["effect"]))
        for one in asked().values()
        if one.tier == "small"
        for each in one.assertions
        if each["scale"] == "log-odds" and each["effect"] is not None
        for found in each["conditions"]
        if not found["fails"] and found["n"] >= LEAST and found["error"]
    ]


def wrong(effect: np.ndarray, scatter: np.ndarray, seeds: int) -> np.ndarray:
    """Return how probably the mean of so many paired differences has the wrong sign."""
    return stats.norm.cdf(-effect * seeds**0.5 / scatter)


def power(effect: np.ndarray, scatter: np.ndarray, seeds: int) -> np.ndarray:
    """Return the power of a two-sided paired t-test at 5 %."""
    if seeds == 1:
        return np.zeros_like(effect)
    far, free, away = effect * seeds**0.5 / scatter, seeds - 1, stats.t.ppf(0.975, seeds - 1)
    return stats.nct.sf(away, free, far) + stats.nct.sf(away, free, -far)


def table() -> pd.DataFrame:
    """Return quartiles over settings: a row for each number of seeds, true effect and probability."""
    scatter, counts, found = (np.array(column) for column in zip(*settings(), strict=True))
    rows = []
    for at, effect in (("counts", counts), ("found", found)):
        for number, probability in (("wrong", wrong), ("shown", power)):
            for seeds in SEEDS:
                low, median, high = np.quantile(probability(effect, scatter, seeds), (0.25, 0.5, 0.75)).round(3)
                rows.append((at, number, seeds, len(scatter), low, median, high))
    return pd.DataFrame(rows, columns=["at", "number", "seeds", "settings", "low", "median", "high"])


if __name__ == "__main__":
    made = table()
    made.to_csv(FILE, index=False)
    print(made.to_string(index=False))
