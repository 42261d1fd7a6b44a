"""The columns of a row of a comparison: levels of a variant, its differences to the baseline, counts of its runs."""

import numpy as np
import pandas as pd

from rlexp.analysis.data.direction import Direction, direction_sign
from rlexp.analysis.data.runs import UNFINISHED
from rlexp.analysis.stats.inference import estimates
from rlexp.analysis.stats.inference.paired import MEAN_TEST, PairedTest

MIN_SEEDS = 3  # fewer: no intervals


def level_columns(scores: np.ndarray, ranked: bool = False) -> dict[str, float]:
    """Columns of one variant's scores `[n]`: n, IQM and its interval, mean, sd; of ranked ones also how many of them
    are finite, and their median.
    """
    enough = scores.size >= MIN_SEEDS
    low, high = estimates.iqm_interval(scores) if enough else (np.nan, np.nan)
    finite = np.isfinite(scores)
    median = float(estimates.median_difference(scores).mean)
    columns = {
        "n": scores.size,
        "iqm": float(estimates.iqm(scores)),
        "iqm_low": float(low),
        "iqm_high": float(high),
        "mean": scores.mean() if scores.size else np.nan,
        "sd": scores.std(ddof=1) if scores.size > 1 and finite.all() else np.nan,
    }
    return columns | ({"arrived": int(finite.sum()), "median": median} if ranked else {})


def effect_columns(differences: np.ndarray, better: Direction = None, test: PairedTest = MEAN_TEST) -> dict[str, float]:
    """Columns of paired differences `[n]`; no intervals below MIN_SEEDS seeds, no wins unless one end is better.

    test: how they are summed up and tested.
    """
    finite = np.isfinite(differences).all()
    trimmed = estimates.trimmed_difference(differences if finite else np.zeros(0))
    found = test.estimate(differences)
    wins = estimates.win_rate(direction_sign(better) * differences if better else np.zeros(0))
    columns = {
        "n_pairs": differences.size,
        "difference": float(found.mean),
        "difference_low": float(found.low),
        "difference_high": float(found.high),
        "difference_sd": float(found.sd),
        "effect_size": float(found.effect_size),
        "trimmed": float(trimmed.mean),
        "trimmed_low": float(trimmed.low),
        "trimmed_high": float(trimmed.high),
        "wins": wins.wins if better else np.nan,
        "win_rate": wins.rate,
        "win_low": wins.low,
        "win_high": wins.high,
        "p": test.p(differences),
    }
    hidden = [] if differences.size >= MIN_SEEDS else [key for key in columns if key.endswith(("_low", "_high"))]
    return columns | dict.fromkeys(hidden, np.nan)


def baseline_columns() -> dict[str, float]:
    """The columns of the baseline itself: its difference is exactly 0, the rest does not apply."""
    empty = dict.fromkeys(effect_columns(np.zeros(0)), np.nan)
    return empty | {"n_pairs": 0, "difference": 0.0, "trimmed": 0.0}


def count_columns(runs: pd.DataFrame) -> dict[str, int]:
    """Columns of one variant's runs: how many there are, failed, have not ended, and collapsed (of those that say)."""
    ended = ~runs["status"].isin(UNFINISHED)
    return {
        "runs": len(runs),
        "failed": int((ended & (runs["status"] != "completed")).sum()),
        "unfinished": int((~ended).sum()),
        "collapsed": int(runs["collapsed"].sum()),
        "collapsed_of": int(runs["collapsed"].notna().sum()),
    }
