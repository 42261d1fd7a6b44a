"""What makes a condition of a question invalid, found before any effect is looked at: such a condition is dropped.

headroom       the arm that is compared with is within two smallest effects that count of the end towards which the
               claimed effect points (equivalent: of either end)
rate           an arm's best value of the tuned key is an end of its grid, and the curve still rises there
manipulation   the mean of a metric over a run, as the share of clipped tokens, is not above or below its bound
control        two arms that must not differ do (p < .01, and more than a tenth of the smallest effect that counts), or
               an arm that must end where it began does not
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtr

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.condition_runs import ArmKey, ConditionRuns, arm_key, arm_keys, within
from rlexp.analysis.stats.rates import BestContrast, best_contrasts, edge
from rlexp.analysis.stats.scales import Scale, headroom
from rlexp.analysis.stats.words import EQUIVALENT, NEGLIGIBLE, NOT_INFERIOR

CONTROL_P = 0.01
"""A control fails below it: with ten seeds |t| > 3.25."""
PAIR = np.array([[1.0, -1.0]])


def failure(
    condition: ConditionRuns,
    declared: Mapping[str, Any],
    assertion: Mapping[str, Any],
    scale: Scale,
    level: float,
    smallest: float,
) -> str:
    """Return the first check that a condition fails for an assertion, in a few words; empty if it is valid.

    Args:
        condition: its runs.
        declared: the question.
        assertion: of the question.
        scale: of the assertion's number.
        level: of the arm that is compared with, in the metric's units.
        smallest: the smallest effect that counts, on the scale.
    """
    return (
        no_headroom(scale, level, smallest, assertion)
        or at_an_end(condition, arm_keys(assertion), declared["tune"])
        or not_manipulated(condition, declared, assertion)
        or control_moved(condition, declared)
    )


def no_headroom(scale: Scale, level: float, smallest: float, assertion: Mapping[str, Any]) -> str:
    """Say where twice the smallest effect that counts cannot be seen: above, below, or (equivalent) on either side."""
    room = headroom(scale, level, smallest)
    rises = {EQUIVALENT: (True, True), NOT_INFERIOR: (False, True)}.get(assertion["kind"], (True, False))
    if assertion["direction"] == "lower":
        rises = rises[::-1]
    if (room.ceiling and rises[0]) or (room.floor and rises[1]):
        end = "ceiling" if room.ceiling and rises[0] else "floor"
        return f"no headroom: {level:.3g} is too near the {end} to see twice the smallest effect that counts"
    return ""


def at_an_end(condition: ConditionRuns, pair: Sequence[ArmKey], tune: Mapping[str, Any] | None) -> str:
    """Say which arm is best at an end of its grid where the curve still rises."""
    for arm in pair:
        if len(condition.values) > 1 and (side := edge(condition.grids[arm], condition.smallest).side):
            best = condition.grids[arm].rates[condition.grids[arm].best]
            return f"{arm[0]} is best at the {side} end of the grid, {tune['key']}={best:g}"
    return ""


def not_manipulated(condition: ConditionRuns, declared: Mapping[str, Any], assertion: Mapping[str, Any]) -> str:
    """Say which manipulation check fails; a metric's mean over all logged steps and seeds is looked at."""
    for check in declared["checks"]:
        arm = arm_keys(assertion)[0]
        if check["arm"] is not None:
            budgets = (assertion["budget"], declared["budget"], *(budget for _, budget in condition.names))
            keys = (arm_key(check["arm"], budget) for budget in budgets)
            arm = next(key for key in keys if key in condition.names)
        if check["metric"] not in condition.data.metrics:
            return f"no run logged {check['metric']}"
        rows = condition.data.metrics[condition.data.metrics["name"].isin(condition.best_names(arm))]
        mean = float(rows[check["metric"]].groupby(rows["name"]).mean().mean())
        low, high = check["above"], check["below"]
        if not (low is None or mean > low) or not (high is None or mean < high):
            bounds = " and ".join(
                f"{word} {bound:g}" for word, bound in (("above", low), ("below", high)) if bound is not None
            )
            return f"not manipulated: {check['metric']} of {arm[0]} is {mean:.3g}, must be {bounds}"
    return ""


def control_moved(condition: ConditionRuns, declared: Mapping[str, Any]) -> str:
    """Say which control is different, or has moved from where it began, by the question's number."""
    for control in declared["controls"]:
        arm = arm_key(control["arm"], declared["budget"])
        if control["versus"] is None:
            found, what = drift(condition, arm), f"{arm[0]} moved from where it began"
        else:
            versus = arm_key(control["versus"], declared["budget"])
            (found,) = best_contrasts([condition.grids[arm], condition.grids[versus]], PAIR)
            what = f"{arm[0]} differs from {versus[0]}"
        low, high = found.interval(1 - CONTROL_P)
        if (low > 0 or high < 0) and max(-low, high) >= NEGLIGIBLE * condition.smallest:
            return f"control: {what} (p = {found.p:.2g})"
    return ""


def drift(condition: ConditionRuns, arm: ArmKey) -> BestContrast:
    """By how much an arm ends from its first evaluation, on the scale.

    It is read at the value that is best for what others are compared with: its own best would be the luckiest drift.
    """
    first = next(iter(condition.grids))
    names = condition.names[arm][condition.grids[first].best]
    runs, metric = condition.score, condition.score.metric.metric
    rows = condition.data.metrics[condition.data.metrics["name"].isin(names)][["name", metric]].dropna()
    begun = rows.groupby("name")[metric].first().reindex(names).to_numpy(float)
    moved = runs.scale.forward(runs.of([names])[0]) - runs.scale.forward(begun)
    moved = moved[~np.isnan(moved)]
    n = len(moved)
    if n < 2:
        raise AnalysisError(within(f"{arm[0]}: {n} runs say how far they moved; must be at least 2", condition))
    error = float(moved.std(ddof=1) / np.sqrt(n))
    value = float(moved.mean())
    p = float(2 * stdtr(n - 1, -abs(value) / error)) if error > 0 else float(value == 0)
    return BestContrast(value, error, p, n)
