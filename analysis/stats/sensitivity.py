"""How much an arm depends on tuning, over several tasks: sensitivity Φ and effective dimensionality.

Source: Adkins, Bowling and White 2024 (arXiv 2412.07165). Higher scores are better.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.rates import CONFIDENCE, bootstrap_weights, sorted_seeds

Array = np.ndarray


def normalize_scores(scores: Array) -> Array:
    """Put scores `[arms, tasks, settings, seeds]` of all tasks on one scale: the 5th percentile is 0, the 95th is 1.

    Percentiles are over all arms, settings and seeds of the task; NaN are left out. Source: Adkins, Bowling and White
    2024 (arXiv 2412.07165). A score may leave [0, 1].

    Raises:
        AnalysisError: not four axes, or both percentiles of a task are the same.
    """
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 4 or not scores.size:
        raise AnalysisError(f"scores {scores.shape}: must be [arms, tasks, settings, seeds]")
    low, high = np.nanpercentile(scores, [5, 95], axis=(0, 2, 3), keepdims=True)
    if not (high > low).all():
        task = int(np.flatnonzero(~(high > low).ravel())[0])
        raise AnalysisError(f"task {task}: the 5th and 95th percentile of its scores are the same, so it has no scale")
    return (scores - low) / (high - low)


class Sensitivity(NamedTuple):
    """Performance and sensitivity of an arm over several tasks, with 95 % intervals over seeds."""

    performance: float
    """Mean over tasks of the score at the task's own best setting."""
    performance_low: float
    performance_high: float
    sensitivity: float
    """Φ: performance less that of the one setting that is best over all tasks; at least 0."""
    low: float
    high: float
    setting: int
    """The one setting that is best over all tasks."""
    task_settings: tuple[int, ...]
    """The best setting of each task."""


def sensitivity(scores: Array) -> Sensitivity:
    """Performance tuned per task, and what tuning once for all tasks costs: Φ of an arm.

    Φ = mean over tasks of max over settings − max over settings of mean over tasks. Source: Adkins, Bowling and White
    2024 (arXiv 2412.07165), which takes means over seeds as the truth. Both maxima are chosen, and the first by more
    luck than the second, so a plain Φ is above 0 where no setting matters: here the optimism of both is taken off, and
    intervals are as in `best_value`, with draws of the seeds that are made anew for each task. Tasks are those that one
    asks about, not a sample of tasks.

    Args:
        scores: normalized, `[tasks, settings, seeds]`. A setting without a score on all seeds of a task is not chosen
            there, and cannot be the one for all tasks.

    Raises:
        AnalysisError: not three axes, fewer than two tasks, a task without any setting, or no setting for all tasks.
    """
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 3 or len(scores) < 2 or not scores.size:
        raise AnalysisError(f"scores {scores.shape}: must be [tasks, settings, seeds] of two tasks or more")
    tasks, _, n = scores.shape
    complete = ~np.isnan(scores).any(-1)
    if not complete.any(-1).all() or not complete.all(0).any():
        raise AnalysisError("a setting needs a score on all seeds in each task, and a task a setting: none is left")
    scores = np.stack([sorted_seeds(task)[0] for task in scores])
    known = np.where(complete[..., None], scores, 0.0)
    mean = np.where(complete, known.mean(-1), -np.inf)
    draws = np.stack([bootstrap_weights(n, stream) @ known[stream].T for stream in range(tasks)], 1)
    draws = np.where(complete, draws, -np.inf)  # [RESAMPLES, tasks, settings]
    own, drawn_own = mean.argmax(-1), draws.argmax(-1)
    one, drawn_one = int(mean.mean(0).argmax()), draws.mean(1).argmax(-1)
    place = np.arange(tasks)
    # Each with its optimism: the score of what a draw chooses, in the draw, less that by all seeds.
    tuned_draws, one_draws = draws.max(-1).mean(-1), draws.mean(1).max(-1)
    tuned_luck = (tuned_draws - mean[place, drawn_own].mean(-1)).mean()
    one_luck = (one_draws - mean[:, drawn_one].mean(0)).mean()
    performance = mean[place, own].mean() - tuned_luck
    phi = mean[place, own].mean() - mean[:, one].mean() - tuned_luck + one_luck
    low, high = _task_interval(performance, known[place, own], tuned_draws)
    phi_low, phi_high = _task_interval(phi, known[place, own] - known[:, one], tuned_draws - one_draws)
    ends = [max(float(each), 0.0) if not np.isnan(each) else np.nan for each in (phi, phi_low, phi_high)]
    return Sensitivity(float(performance), low, high, *ends, one, tuple(own.tolist()))


def _task_interval(estimate: float, by_seed: Array, draws: Array) -> tuple[float, float]:
    """The t interval of a mean over tasks of `by_seed [tasks, seeds]`, by the larger of two errors; one seed: NaN."""
    tasks, n = by_seed.shape
    if n < 2:
        return np.nan, np.nan
    plain = np.sqrt((by_seed.var(-1, ddof=1) / n).sum()) / tasks
    half = stdtrit(n - 1, (1 + CONFIDENCE) / 2) * max(plain, draws.std() * np.sqrt(n / (n - 1)))
    return float(estimate - half), float(estimate + half)


class Dimensionality(NamedTuple):
    """How many hyperparameters must be tuned per task."""

    needed: int
    """Fewest whose tuning per task reaches the share of the score with all of them tuned."""
    scores: Array
    """The score with the best choice of 0, 1, … hyperparameters tuned per task, `[hyperparameters + 1]`."""
    tuned: tuple[tuple[int, ...], ...]
    """Which those are, by axis; of equal choices the first."""


def effective_dimensionality(scores: Array, share: float = 0.95) -> Dimensionality:
    """The fewest hyperparameters that must be tuned per task for 95 % of the score of tuning all of them per task.

    The others are at the one setting that is best over all tasks. Source: Adkins, Bowling and White 2024
    (arXiv 2412.07165), whose figure puts d between two whole numbers by interpolation; here it is the whole number.
    Means over seeds count as the truth: the best of many settings is too good by luck.

    Args:
        scores: normalized means over seeds, `[tasks, first, second, …]`, an axis for each hyperparameter. A setting
            with NaN on a task is not chosen there, and cannot be the one for all tasks.
        share: of the score with all tuned.

    Raises:
        AnalysisError: no hyperparameter, no setting with all tasks, or a tuned score that is not above 0.
    """
    scores = np.asarray(scores, dtype=float)
    count = scores.ndim - 1
    if count < 1 or not scores.size:
        raise AnalysisError(f"scores {scores.shape}: must be [tasks, first, second, …], an axis per hyperparameter")
    if np.isnan(scores).any(0).all():
        raise AnalysisError("no setting has a score on all tasks")
    scores = np.where(np.isnan(scores), -np.inf, scores)
    default = np.unravel_index(int(scores.mean(0).argmax()), scores.shape[1:])
    best, which = [], []
    for k in range(count + 1):
        found = {}
        for tuned in combinations(range(count), k):
            part = scores[(slice(None), *(slice(None) if axis in tuned else default[axis] for axis in range(count)))]
            found[tuned] = float(part.reshape(len(scores), -1).max(-1).mean())
        which.append(max(found, key=found.__getitem__))
        best.append(found[which[-1]])
    if not best[-1] > 0:
        raise AnalysisError(f"the tuned score is {best[-1]:.3g}: a share of it takes one above 0")
    needed = int(np.argmax(np.array(best) >= share * best[-1]))
    return Dimensionality(needed, np.array(best), tuple(which))
