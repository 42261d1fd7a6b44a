"""Effective speed-up: how many times less of the budget an arm takes to get to where the baseline ends."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtrit

from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.metric_spec import better_direction, direction_sign
from rlexp.analysis.data.run_values import cumulative_cost, resolve_metric
from rlexp.analysis.stats.curve_numbers import SHARE, Array, crossings, known
from rlexp.analysis.stats.endpoints import UNITS
from rlexp.runfolder.rows import late_count

RESAMPLES = 2_000


class SpeedUp(NamedTuple):
    """How many times less of the budget an arm takes to get to where the baseline ends."""

    ratio: float
    """Cost of the baseline divided by that of the arm; where the arm never gets there the largest it can be."""
    low: float
    high: float
    target: float
    """Final value of the baseline, the mean over seeds."""
    cost: float
    """Of the arm; inf where its mean curve never gets there."""
    baseline_cost: float
    reached: float
    """Share of the bootstrap draws in which the arm gets there."""

    @property
    def bound(self) -> bool:
        """Whether the ratio is only an upper bound."""
        return bool(np.isinf(self.cost))


def speed_up(
    x: Array, curves: Array, baseline: Array, sign: int = 1, share: float = SHARE, resamples: int = RESAMPLES
) -> SpeedUp:
    """Effective speed-up of an arm: cost of the baseline's final value, of the baseline divided by of the arm.

    Both costs are crossings of mean curves by the same rule, so that an arm that is the baseline has 1. (The whole
    budget divided by the arm's cost would give any arm, the baseline itself too, more than 1 where it has a plateau.)
    Seeds are resampled in pairs, the target anew in each draw. The interval is the percentile bootstrap, expanded for
    few seeds: tails of Φ(−t(n−1)·√(n/(n−1))) in place of 2.5 % (Hesterberg 2015, section 5.3). A draw in which the arm
    does not get there counts as 0 at the low end, and as its upper bound at the high one.

    Args:
        x: Cumulative cost at each evaluation `[n]`, the same of all runs.
        curves: Of the arm `[seeds, n]`.
        baseline: Of the baseline, on the same seeds `[seeds, n]`.
        sign: −1 where lower is better.
        share: Of the evaluations that make the final value.
        resamples: Bootstrap draws, of a fixed random stream; the order of the seeds does not matter.

    Returns:
        NaN ratio where the baseline does not rise; NaN ends for fewer than two seeds.
    """
    x, curves, baseline = (np.asarray(each, dtype=float) for each in (x, curves, baseline))
    if curves.shape != baseline.shape or curves.ndim != 2 or curves.shape[-1] != x.size or not x.size:
        raise AnalysisError(f"curves {curves.shape} and {baseline.shape} are not [seeds, {x.size}] and of one shape")
    curves, baseline = sign * curves, sign * baseline
    order = np.lexsort(np.concatenate([curves, baseline], -1).T)
    curves, baseline = curves[order], baseline[order]
    n = len(curves)
    cost, own, target = _costs(x, curves.mean(0)[None], baseline.mean(0)[None], share)
    ratio = float(_ratios(cost, own, x[-1])[0])
    low = high = reached = np.nan
    if n > 1:
        draws = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), resamples) / n
        costs, owns, _ = _costs(x, draws @ curves, draws @ baseline, share)
        upper = _ratios(costs, owns, x[-1])
        lower = np.where(np.isinf(costs), 0.0, upper)
        tail = float(ndtr(-stdtrit(n - 1, 0.975) * np.sqrt(n / (n - 1))))
        known_draws = ~np.isnan(upper)
        if known_draws.mean() > 0.5:
            low = float(np.quantile(lower[known_draws], tail, method="lower"))
            high = float(np.quantile(upper[known_draws], 1 - tail, method="higher"))
        reached = float(np.isfinite(costs).mean())
    return SpeedUp(ratio, low, high, float(sign * target[0]), float(cost[0]), float(own[0]), reached)


def _costs(x: Array, curves: Array, baseline: Array, share: float) -> tuple[Array, Array, Array]:
    """Costs of the baseline's final value, of mean curves `[m, n]`: of the arm, of the baseline; and that value."""
    target = baseline[:, -late_count(x.size, share) :].mean(-1)
    cost, own = crossings(x, curves, target)[0], crossings(x, baseline, target)[0]
    return np.where(np.isneginf(cost), x[0], cost), np.minimum(own, x[-1]), target


def _ratios(cost: Array, own: Array, budget: float) -> Array:
    """Costs of the baseline divided by those of the arm, of which none is beyond the budget; NaN without a rise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isneginf(own) | (own <= 0), np.nan, own / np.minimum(cost, budget))


def speed_ups(data: SweepData, baseline: str, unit: str = "steps", metric: str | None = None) -> dict[str, SpeedUp]:
    """The speed-up of each other arm, over the seeds that it shares with the baseline.

    Args:
        data: Of a sweep.
        baseline: One of its variants.
        unit: One of `UNITS`.
        metric: Whose curve it is; that of the score unless named.

    Returns:
        By variant; an arm that shares no seed with the baseline is absent. Curves are interpolated to as many points,
        evenly spaced over what all runs span, as the run with the fewest evaluations has.
    """
    name = resolve_metric(data, metric or data.score_metric or "score")
    sign = direction_sign(better_direction(name, data.score_metric))
    if unit not in UNITS:
        raise AnalysisError(f"'{unit}' is no unit of a budget; choose one of: {'  '.join(UNITS)}")
    if baseline not in data.variants:
        raise AnalysisError(f"'{baseline}' is not a variant; choose one of: {'  '.join(data.variants)}")
    amounts = cumulative_cost(data, UNITS[unit])
    runs = data.runs[(data.runs["status"] == "completed") & data.runs["seed"].notna()]
    runs = runs.drop_duplicates(["variant", "seed"]).set_index(["variant", "seed"])["name"]
    rows = pd.DataFrame({"x": amounts, "y": data.metrics[name], "name": data.metrics["name"]})
    grouped = {run: known(group["x"], group["y"]) for run, group in rows.groupby("name", sort=False)}
    curves = {key: grouped[run] for key, run in runs.items() if run in grouped and grouped[run][0].size > 1}
    if not curves:
        raise NothingLeft(f"no completed run has logged {name} and its {unit}")
    low, high = max(x[0] for x, _ in curves.values()), min(x[-1] for x, _ in curves.values())
    if not low < high:
        raise NothingLeft(f"the curves of {name} have no range of {unit} in common")
    grid = np.linspace(low, high, min(x.size for x, _ in curves.values()))
    found = {}
    for arm in data.variants:
        seeds = sorted(seed for variant, seed in curves if variant == arm and (baseline, seed) in curves)
        if arm == baseline or not seeds:
            continue
        pairs = [[np.interp(grid, *curves[each, seed]) for seed in seeds] for each in (arm, baseline)]
        found[arm] = speed_up(grid, *map(np.array, pairs), sign, data.score_share)
    return found
