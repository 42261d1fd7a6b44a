"""Compare the results of two sweeps: signs of differences and orders of arms, side by side.

A difference says, by the one rule of evidence of the tables,

equal           it is smaller than the margin, either way (`verdicts.difference_verdict`)
higher, lower   p (Holm) < 0.05
unclear         these seeds allow both

and of the same difference in two sweeps it is said that they `agree` (both higher, both lower or both equal), that one
is the `opposite` of the other, that it is `only in` the one that has it, the other being equal, or that it is `open`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.metric_spec import direction_sign
from rlexp.analysis.data.variants import is_variant, resolve_variant
from rlexp.analysis.stats.answer import Answer
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.significance import ALPHA
from rlexp.analysis.stats.verdicts import difference_verdict

RESAMPLES = 2000


class Effect(NamedTuple):
    """A difference in one sweep: mean over paired seeds with its 95 % paired t interval, and what it says."""

    difference: float
    low: float
    high: float
    p_holm: float
    n: int
    says: str


class EffectPair(NamedTuple):
    """The difference of an arm to the baseline in two sweeps."""

    stratum: str
    arm: str
    label: str
    found: tuple[Effect, Effect]
    agreement: str


class Order(NamedTuple):
    """The arms of a stratum by their means in two sweeps, the best first.

    ``same`` is the probability that both orders are the same when the seeds of each sweep are drawn anew, with
    replacement; of two orders by chance it is ``chance``.
    """

    stratum: str
    orders: tuple[list[str], list[str]]
    same: float
    chance: float


class Transfer(NamedTuple):
    """The same differences in two sweeps."""

    names: tuple[str, str]
    metrics: tuple[str, str]
    axis: str
    """The axis on which the arms differ."""
    baseline: str
    margin: float
    differences: list[EffectPair]
    orders: list[Order]

    def counts(self) -> Counter[str]:
        """Count the differences by agreement."""
        return Counter(each.agreement for each in self.differences)


def transfer(answers: tuple[Answer, Answer], names: tuple[str, str], margin: float | None = None) -> Transfer:
    """Set two answers side by side, stratum by stratum and arm by arm.

    margin: differences that are smaller count as none; that of the first sweep's study, or of the second's, unless
    given. Nothing in common, or another baseline: AnalysisError.
    """
    margins = [answer.study.get("minimum_effect") for answer in answers]
    margin = next((float(each) for each in (margin, *margins) if each is not None), 0.0)
    in_second = {comparison.stratum: comparison for comparison in answers[1].comparisons}
    pairs = [(each, in_second[each.stratum]) for each in answers[0].comparisons if each.stratum in in_second]
    if not pairs:
        listed = [", ".join(each.stratum or "(none)" for each in answer.comparisons) for answer in answers]
        raise AnalysisError(f"no stratum is in both sweeps: {listed[0]}; {listed[1]}")
    baseline = _what_varies(pairs[0][0], pairs[0][0].baseline)
    rows, orders = [], []
    for first, second in pairs:
        arms = _common_arms(first, second)
        for arm, other in list(arms.items())[1:]:
            found = _found(first, arm, margin), _found(second, other, margin)
            rows.append(EffectPair(first.stratum, arm, first.labels[arm], found, agreement(found, names)))
        orders.append(_order(first, second, arms))
    metrics = pairs[0][0].metric, pairs[0][1].metric
    return Transfer(names, metrics, pairs[0][0].axis, baseline, margin, rows, orders)


def agreement(found: Sequence[Effect], names: Sequence[str]) -> str:
    """Compare two findings of the same difference."""
    said = [each.says for each in found]
    if "unclear" in said:
        return "open"
    if said[0] == said[1]:
        return "agree"
    if "equal" in said:
        return f"only in {names[1 - said.index('equal')]}"
    return "opposite"


def _common_arms(first: Comparison, second: Comparison) -> dict[str, str]:
    """The arms of the first that the second has too, by their names there; the baseline first.

    They are the same if they agree on what varies in the first: the rest is where the sweeps differ.
    """
    names = {arm: _what_varies(first, arm) for arm in (first.baseline, *first.others)}
    common = {
        arm: resolve_variant(name, second.labels) for arm, name in names.items() if is_variant(name, second.labels)
    }
    if common.get(first.baseline) != second.baseline:
        other = _what_varies(second, second.baseline)
        raise AnalysisError(f"the baselines differ, {names[first.baseline]} and {other}; name one with --baseline")
    if len(common) < 2:
        raise AnalysisError(f"no other arm than {names[first.baseline]} is in both sweeps")
    return common


def _what_varies(comparison: Comparison, arm: str) -> str:
    label = comparison.labels[arm]
    return label if "=" in label or comparison.axis == "variant" else f"{comparison.axis}={label}"


def _found(comparison: Comparison, arm: str, margin: float) -> Effect:
    row, differences = comparison.table.loc[arm], comparison.differences(arm)
    numbers = row["difference"], row["difference_low"], row["difference_high"], row["p_holm"]
    equal = margin > 0 and difference_verdict(
        "equal", differences, margin, row["p_holm"], comparison.family, comparison.paired_test
    )
    if equal == "reproduced":
        says = "equal"
    elif row["p_holm"] < ALPHA:
        says = "higher" if row["difference"] > 0 else "lower"
    else:
        says = "unclear"
    return Effect(*map(float, numbers), int(row["n_pairs"]), says)


def _order(first: Comparison, second: Comparison, arms: dict[str, str]) -> Order:
    labels = [first.labels[arm] for arm in arms]
    best, drawn = [], []
    for comparison, columns in ((first, list(arms)), (second, list(arms.values()))):
        scores = direction_sign(comparison.better) * comparison.scores[columns].dropna()
        best.append(np.argsort(-scores.mean().to_numpy(), kind="stable"))
        orders = np.zeros((0, len(arms)), dtype=int)  # in resampled seeds
        if n := len(scores):
            places = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
            orders = np.argsort(-scores.to_numpy(dtype=float)[places].mean(1), axis=1, kind="stable")
        drawn.append(Counter(map(tuple, orders.tolist())))
    same = float(sum(drawn[0][order] * drawn[1][order] for order in drawn[0])) / RESAMPLES**2
    chance = 1 / float(np.prod(range(1, len(arms) + 1)))
    return Order(first.stratum, tuple([labels[place] for place in order] for order in best), same, chance)


def transfer_frame(found: Transfer) -> pd.DataFrame:
    """A row per difference: its numbers in both sweeps, and what is said of them."""
    rows = []
    for each in found.differences:
        row = {"stratum": each.stratum, "arm": each.arm}
        for name, one, sweep in zip(("first", "second"), each.found, found.names, strict=True):
            row |= {f"{name}_{key}": value for key, value in one._asdict().items()} | {f"{name}_sweep": sweep}
        rows.append(row | {"agreement": each.agreement})
    return pd.DataFrame(rows)
