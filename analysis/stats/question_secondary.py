"""What a question asks beside its assertions: further metrics and collapse, with false discoveries controlled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.arms import scaled_runs
from rlexp.analysis.stats.condition_runs import ArmKey, ConditionRuns, arm_keys, read_number, within
from rlexp.analysis.stats.endpoints import Endpoint
from rlexp.analysis.stats.pooling import pool
from rlexp.analysis.stats.rates import BestContrast, best_contrasts, best_value
from rlexp.analysis.stats.scales import Scale
from rlexp.analysis.stats.significance import false_discovery_q
from rlexp.analysis.stats.validity import PAIR

COLUMNS = ("arm", "versus", "metric", "k", "effect", "low", "high", "shown", "p")


def secondary(conditions: Sequence[ConditionRuns], declared: Mapping[str, Any], notes: list[str]) -> pd.DataFrame:
    """Return the effects that are no assertion: further metrics and collapse, pooled; q by Benjamini and Hochberg."""
    pairs = dict.fromkeys(arm_keys(each) for each in declared["assertions"])
    rows = [collapse_row(conditions, pair) for pair in pairs if conditions]
    for metric, pair in product(declared["secondary"], pairs):
        read = []
        for condition in conditions:
            try:
                runs = scaled_runs(condition.data, Endpoint(), metric)
                read.append((runs.scale, read_number(condition, pair, runs, notes)))
            except AnalysisError as error:
                notes.append(within(f"{str(error).partition('; ')[0]}.", condition))  # without what there is
        if read:
            found = [best_contrasts(grids, PAIR)[0] for _, grids in read]
            level = float(np.mean([best_value(versus).value for _, (_, versus) in read]))
            rows.append(pooled_row(pair, metric, found, read[0][0], level))
    table = pd.DataFrame(rows, columns=[*COLUMNS])
    return table.assign(q=false_discovery_q(table["p"]))


def pooled_row(pair: Sequence[ArmKey], metric: str, found: Sequence[BestContrast], scale: Scale, level: float) -> dict:
    """Return the pooled effect of a further metric; level: of what is compared with, on the scale."""
    effects, errors = (np.array([getattr(each, name) for each in found]) for name in ("value", "error"))
    row = {"arm": pair[0][0], "versus": pair[1][0], "metric": metric, "k": len(found)}
    if not np.median(errors) > 0:  # the same in most conditions
        return row | {"effect": float(effects.mean()), "low": np.nan, "high": np.nan, "shown": "the same", "p": np.nan}
    pooled = pool(effects, errors, np.array([each.n - 1.0 for each in found]))
    low, high = (float(each) for each in pooled.interval())
    shown = scale.show(float(pooled.estimate), low, high, float(scale.inverse(level)))
    return row | {"effect": float(pooled.estimate), "low": low, "high": high, "shown": shown, "p": float(pooled.p())}


def collapse_row(conditions: Sequence[ConditionRuns], pair: Sequence[ArmKey]) -> dict[str, Any]:
    """Return how many runs collapsed or diverged in all conditions; p is McNemar's exact one, of seeds that differ."""
    counts, differ, runs = np.zeros(2, int), np.zeros(2, int), 0
    for condition in conditions:
        fallen = set(
            condition.data.runs.loc[
                condition.data.runs["collapsed"].eq(True) | condition.data.runs["status"].eq("diverged"), "name"
            ]
        )
        own, other = (np.array([name in fallen for name in condition.best_names(arm)]) for arm in pair)
        counts += own.sum(), other.sum()
        differ += (own & ~other).sum(), (other & ~own).sum()
        runs += len(own)
    p = float(binomtest(int(differ[0]), int(differ.sum())).pvalue) if differ.sum() else np.nan
    shown = f"{counts[0]} against {counts[1]} of {runs} runs"
    effect = (counts[0] - counts[1]) / runs
    row = {"arm": pair[0][0], "versus": pair[1][0], "metric": "collapsed", "k": len(conditions), "effect": effect}
    return row | {"low": np.nan, "high": np.nan, "shown": shown, "p": p}
