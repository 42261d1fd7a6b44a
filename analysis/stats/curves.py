"""Curves as numbers: per variant the pointwise IQM of a metric over its runs, with a bootstrap band.

A run that has not ended counts as far as it got; one that failed or diverged does not.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.kept import Records
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.runs import UNFINISHED
from rlexp.analysis.stats.comparison import MIN_SEEDS, Comparison
from rlexp.analysis.stats.estimates import iqm, iqm_interval

RESAMPLES = 500
POINTS = 80  # of a curve at most: what a figure can show


class Curve(NamedTuple):
    """One variant's metric over steps; each field `[steps]`. The band is NaN where fewer than MIN_SEEDS runs count."""

    steps: np.ndarray
    iqm: np.ndarray
    low: np.ndarray
    high: np.ndarray


Curves = dict[str, Curve]


def learning_curves(data: SweepData, comparison: Comparison, metric: str | None = None) -> Curves:
    """A curve for each variant that has any value of the metric (the comparison's), in the table's order."""
    metric = metric or comparison.metric
    if metric not in data.metrics:
        return {}
    drawn = data.runs.loc[data.runs["status"].isin(("completed", *UNFINISHED)), "name"]
    rows = data.metrics[["name", "variant", "step", metric]].dropna()
    return curves_by_variant(rows[rows["name"].isin(drawn)], comparison, metric)


def curves_by_variant(rows: pd.DataFrame, comparison: Comparison, metric: str) -> Curves:
    """A curve for each variant in the rows, whose columns are name, variant, step and the metric, all known."""
    groups, curves = dict(list(rows.groupby("variant"))), {}
    for variant in comparison.table.index:
        if variant not in groups:
            continue
        runs = groups[variant].pivot(index="step", columns="name", values=metric).sort_index()
        places = np.linspace(0, len(runs) - 1, min(len(runs), POINTS)).round().astype(int)  # evenly, with both ends
        runs = runs.iloc[np.unique(places)]
        values = runs.to_numpy()
        low, high = iqm_interval(values, resamples=RESAMPLES)
        few = (~np.isnan(values)).sum(-1) < MIN_SEEDS
        low, high = np.where(few, np.nan, low), np.where(few, np.nan, high)
        curves[variant] = Curve(runs.index.to_numpy(), iqm(values), low, high)
    return curves


VOTE_ACCURACY = "accuracy of the vote"


def vote_accuracy(answers: Sequence[str], correct: Sequence[bool], votes: int) -> float:
    """P(the most common of `votes` answers is correct), over all choices of them; ties are broken fairly."""
    shares = []
    for chosen in combinations(zip(answers, correct, strict=True), votes):
        counts = Counter(answer for answer, _ in chosen)
        most = max(counts.values())
        shares.append(np.mean([right for answer, right in chosen if counts[answer] == most]))
    return float(np.mean(shares))


def voting_curves(data: SweepData, comparison: Comparison, samples: Mapping[str, Records]) -> Curves:
    """Per variant, the accuracy by number of votes, of the completions that its runs kept at the end of training."""
    completed = data.runs[data.runs["status"] == "completed"]
    rows = []
    for name, variant in zip(completed["name"], completed["variant"], strict=True):
        kept = samples.get(name, [])
        prompts: dict[str, list[tuple[str, bool]]] = {}  # of the last step
        for row in kept:
            if row.get("step") == kept[-1].get("step"):
                answer = str(row.get("completion")), bool(row.get("correct"))
                prompts.setdefault(str(row.get("prompt")), []).append(answer)
        fewest = min(map(len, prompts.values()), default=0)  # as many votes as every prompt has completions
        for votes in range(1, fewest + 1):
            mean = np.mean([vote_accuracy(*zip(*answers, strict=True), votes) for answers in prompts.values()])
            rows.append({"name": name, "variant": variant, "step": votes, VOTE_ACCURACY: float(mean)})
    return curves_by_variant(pd.DataFrame(rows), comparison, VOTE_ACCURACY) if rows else {}
