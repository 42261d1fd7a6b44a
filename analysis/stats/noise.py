"""How much of a difference is luck of the seeds: what two runs, or two means, must differ by.

A sweep of K arms on the same n seeds is a two-way table without repetition. Arms have one variance over seeds σ² and
one correlation ρ of each two of them (compound symmetry). From the mean squares of the seeds MSR and of the rest MSE:

    σ̂² = (MSR + (K − 1)·MSE) / K           of a run over seeds; degrees of freedom by Satterthwaite (1946), interval by
                                           Graybill & Wang (1980)
    ρ̂  = (MSR − MSE) / (MSR + (K − 1)·MSE)  with the exact F interval: ICC(3,1) of Shrout & Fleiss (1979)
    σ̂_d² = 2·MSE                           of a paired difference, with (n − 1)(K − 1) degrees of freedom

Arms that rise and fall together over seeds know less about σ than K independent samples, which Satterthwaite's rule
sees and pooling with K·(n − 1) degrees of freedom does not. Seeds that lack an arm are left out; where fewer than two
are complete, σ is pooled over the arms as if they were independent and nothing is known of ρ.

Where arms scatter unequally σ is their root mean square: too much for one arm and too little for another.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, fdtri, stdtrit

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.estimates import Interval
from rlexp.analysis.stats.formatting import decimal_places, format_interval, format_number
from rlexp.analysis.stats.significance import ALPHA

Array = np.ndarray
UNKNOWN = Interval(np.nan, np.nan)


class Noise(NamedTuple):
    """Scatter over seeds of one sweep; intervals are of 95 %."""

    arms: int
    seeds: int
    """That all arms have; of arms that share fewer than two, the most that one has."""
    sd: float
    """Of a run over seeds, pooled over arms."""
    sd_interval: Interval
    df: float
    """Degrees of freedom of `sd`."""
    correlation: float = np.nan
    """Of each two arms over seeds; NaN of one arm, or of arms without common seeds."""
    correlation_interval: Interval = UNKNOWN
    paired_sd: float = np.nan
    """Of the difference of two arms on one seed."""
    paired_sd_interval: Interval = UNKNOWN
    paired_df: float = np.nan
    """Degrees of freedom of `paired_sd`."""

    def must_differ(self, n: int = 1, paired: bool = False) -> float:
        """What the means of n seeds an arm must differ by (95 %): equal arms differ by as much once in twenty.

        t(df)·σ̂·√(2/n) of other seeds, t(df)·σ̂_d/√n of the same seeds, by the SD and the degrees of freedom of this
        sweep. A comparison that estimates its SD anew from a few seeds, as a paired t interval, asks for more.
        """
        if n < 1:
            raise AnalysisError(f"means are of one seed or more, and not of {n}")
        if paired:
            return float(_t(self.paired_df) * self.paired_sd / np.sqrt(n))
        return float(_t(self.df) * self.sd * np.sqrt(2 / n))

    @property
    def two_runs_interval(self) -> Interval:
        """Of what two single runs would have to differ by if σ were known: 1.96·√2·σ, by the interval of σ."""
        return Interval(*(float(_t(np.inf) * np.sqrt(2) * end) for end in self.sd_interval))

    @property
    def paired_worth(self) -> float:
        """Unpaired seeds with the standard error of one paired seed: 1/(1 − ρ)."""
        return _worth(self.correlation)

    @property
    def paired_worth_interval(self) -> Interval:
        """By the interval of ρ."""
        return Interval(*map(_worth, self.correlation_interval))

    def paired_worth_at(self, n: int) -> float:
        """The same of n paired seeds, each comparison with an SD of its own: m/n, with m unpaired seeds an arm.

        The expected half-widths are the same: t(2m − 2)·σ̂·√(2/m) = t(n − 1)·σ̂_d/√n. It is less than 1/(1 − ρ), as n
        pairs have n − 1 degrees of freedom. m is no whole number. NaN for n < 2 or an unknown ρ.
        """
        from scipy.optimize import brentq  # slow to import, and pages that show one sentence do not need it

        if n < 2 or np.isnan(self.correlation):
            return np.nan
        if not self.paired_sd > 0:
            return np.inf
        wanted = _t(n - 1) * self.paired_sd / np.sqrt(n)

        def excess(log_m: float) -> float:
            m = np.exp(log_m)
            return float(np.log(_t(2 * m - 2) * self.sd * np.sqrt(2 / m) / wanted))

        return float(np.exp(brentq(excess, np.log(1.01), np.log(1e12))) / n)


def _t(df: float) -> float:
    """The 97.5 % point of Student's t."""
    return float(stdtrit(df, 1 - ALPHA / 2)) if np.isfinite(df) else 1.959963984540054 if df == np.inf else np.nan


def _worth(correlation: float) -> float:
    return float(1 / (1 - correlation)) if correlation < 1 else np.inf if correlation == 1 else np.nan


def seed_noise(scores: Array) -> Noise:
    """Scatter over seeds of the scores of arms.

    Args:
        scores: One number a run `[seeds, arms]`, seeds paired over arms; NaN where there is none.

    Returns:
        `Noise`; the formulas stand at the top of this file.

    Raises:
        AnalysisError: no arm has two seeds, a number is infinite, or no two seeds of any arm differ.
    """
    scores = np.asarray(scores, dtype=float)
    scores = scores[:, np.isfinite(scores).any(0) | np.isinf(scores).any(0)]
    if np.isinf(scores).any():
        raise AnalysisError("some numbers are infinite (a target that is never reached), and so have no SD")
    counts = (~np.isnan(scores)).sum(0)
    if not scores.size or counts.max() < 2:
        runs = f"{int(counts.sum())} completed run{'s' * (int(counts.sum()) != 1)}"
        raise AnalysisError(f"no arm has two seeds ({runs}), so nothing is known of the noise; train two seeds or more")
    complete = scores[~np.isnan(scores).any(1)]
    n, arms = complete.shape
    if n < 2 or arms < 2:
        return _unpaired(scores, counts)
    centered = complete - complete.mean()
    by_seed = arms * float((centered.mean(1) ** 2).sum()) / (n - 1)
    rest = centered - centered.mean(1, keepdims=True) - centered.mean(0)
    error_df = (n - 1) * (arms - 1)
    error = float((rest**2).sum()) / error_df
    error = 0.0 if error <= 1e-24 * max(by_seed, float((complete**2).max())) else error  # rounding
    variance = (by_seed + (arms - 1) * error) / arms
    _check_scatter(variance, complete)
    df = (by_seed + (arms - 1) * error) ** 2 / (by_seed**2 / (n - 1) + ((arms - 1) * error) ** 2 / error_df)
    correlation, interval = intraclass_correlation(by_seed, error, n, arms)
    return Noise(
        arms,
        n,
        float(np.sqrt(variance)),
        _sd_interval([by_seed / arms, error * (arms - 1) / arms], [n - 1, error_df]),
        float(df),
        correlation,
        interval,
        float(np.sqrt(2 * error)),
        _sd_interval([2 * error], [error_df]),
        float(error_df),
    )


def _unpaired(scores: Array, counts: Array) -> Noise:
    """Noise of arms that share no seeds, or of one."""
    used = counts > 1
    df = float((counts[used] - 1).sum())
    variances = np.nanvar(scores[:, used], axis=0, ddof=1)
    variance = float(((counts[used] - 1) * variances).sum() / df)
    _check_scatter(variance, scores[:, used])
    return Noise(scores.shape[1], int(counts.max()), float(np.sqrt(variance)), _sd_interval([variance], [df]), df)


def _check_scatter(variance: float, scores: Array) -> None:
    if np.sqrt(variance) <= 1e-12 * np.nanmax(np.abs(scores)):
        raise AnalysisError("no two seeds of any arm differ, so nothing scatters")


def _sd_interval(parts: Sequence[float], df: Sequence[float]) -> Interval:
    """The 95 % interval of the root of a sum of independent mean squares, with their degrees of freedom.

    Source: Graybill & Wang 1980; of one mean square it is the χ² interval. With Satterthwaite's degrees of freedom a χ²
    interval of two misses the truth up to 12 times in a hundred (four seeds of ten arms), this one at most 6.
    """
    parts, df = np.asarray(parts, dtype=float), np.asarray(df, dtype=float)
    total = parts.sum()
    up = np.sqrt((((df / chdtri(df, 1 - ALPHA / 2) - 1) * parts) ** 2).sum())
    down = np.sqrt((((1 - df / chdtri(df, ALPHA / 2)) * parts) ** 2).sum())
    return Interval(float(np.sqrt(max(total - down, 0.0))), float(np.sqrt(total + up)))


def intraclass_correlation(by_seed: float, error: float, n: int, arms: int) -> tuple[float, Interval]:
    """ICC(3,1) and its exact 95 % interval from the mean squares of n seeds and of the rest.

    Source: Shrout & Fleiss 1979, table 3 and page 424. Without an error it is 1, and so are both ends.
    """
    if error == 0:
        return 1.0, Interval(1.0, 1.0)
    ratio, between, within = by_seed / error, n - 1, (n - 1) * (arms - 1)
    low = ratio / fdtri(between, within, 1 - ALPHA / 2)
    high = ratio * fdtri(within, between, 1 - ALPHA / 2)
    value, *ends = ((each - 1) / (each + arms - 1) for each in (ratio, low, high))
    return float(value), Interval(*map(float, ends))


def noise_of(comparison: Comparison) -> Noise:
    """Noise of the scores of a comparison; AnalysisError where nothing is known of it."""
    return seed_noise(comparison.scores.to_numpy(dtype=float))


def noise_statement(*comparisons: Comparison) -> str:
    """What a reader has to know before any number of a comparison, in one sentence; empty where nothing is known.

    Of several comparisons (strata) it is one sentence still, from the smallest to the largest of their numbers.
    """
    tables = [comparison.scores.to_numpy(dtype=float) for comparison in comparisons]
    return scores_statement(tables, comparisons[0].metric) if comparisons else ""


def scores_statement(tables: Sequence[Array], metric: str) -> str:
    """The same of tables of scores `[seeds, arms]`; those of which nothing is known are left out."""
    noises = []
    for scores in tables:
        with suppress(AnalysisError):
            noises.append(seed_noise(scores))
    return statement(noises, metric) if noises else ""


def statement(noises: Sequence[Noise], metric: str) -> str:
    """`Two single runs must differ by 0.12 in eval/greedy_accuracy to be told apart from luck of the seed …`."""
    bounds = [noise.must_differ() for noise in noises]
    digits = decimal_places(bounds)
    paired = not any(np.isnan(noise.correlation) for noise in noises)
    means = [noise.must_differ(noise.seeds, paired) for noise in noises]
    same = "the same " * paired
    text = (
        f"Two single runs must differ by {_range(bounds, digits)} in {metric} to be told apart from luck of the seed "
        f"(95 %), means of {same}{_range([noise.seeds for noise in noises], 0)} seeds by {_range(means, digits)}"
    )
    worths = [noise.paired_worth for noise in noises]
    if not (paired and np.isfinite(worths).all()):
        return f"{text}."
    worth = _range(worths, 1)
    if len(noises) == 1:
        worth = format_interval(worths[0], *noises[0].paired_worth_interval, 1)
    return f"{text}; one paired seed is worth {worth} unpaired ones."


def _range(values: Sequence[float], digits: int) -> str:
    """`0.05 to 0.12`, or `0.05`."""
    ends = [format_number(end, digits) for end in (min(values), max(values))]
    return " to ".join(dict.fromkeys(ends))
