"""The arms of a sweep as they are compared with those of other sweeps: their numbers on a scale, and their effects.

An arm of a sweep of `rlexp -m` has one number a unit, an arm of `rlexp ablate` one at each value of a tuned key: it is
judged at its best value, with the choice inside the uncertainty. An effect is the difference of an arm to the baseline.
By the rule of its own tables it is

equal           smaller than the margin, either way (`verdicts.difference_verdict`); `no material effect` of an ablation
higher, lower   p (Holm) < 0.05; of an ablation, the interval at the level that Holm leaves it does not hold 0
unclear         these units allow both
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import SweepData, load
from rlexp.analysis.data.metric_spec import direction_sign
from rlexp.analysis.data.variants import resolve_variant
from rlexp.analysis.stats.ablation import ABLATION_FILE, Ablation, analyze, judged_interval, reference, word_of
from rlexp.analysis.stats.answer import Answer, Question, answer
from rlexp.analysis.stats.arms import scale_for
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.endpoints import Endpoint
from rlexp.analysis.stats.rates import RateGrid, best_contrasts, best_value
from rlexp.analysis.stats.scales import Scale
from rlexp.analysis.stats.significance import ALPHA, holm
from rlexp.analysis.stats.verdicts import difference_verdict
from rlexp.analysis.stats.words import holm_levels

SAYS = {"helps": "higher", "helps a little": "higher", "hurts": "lower", "hurts a little": "lower"}
SAYS |= {"no material effect": "equal", "open": "unclear"}


class Effect(NamedTuple):
    """A difference in one sweep, in the metric's units: mean with its 95 % paired t interval, and what it says."""

    difference: float
    low: float
    high: float
    p_holm: float
    n: int
    says: str


class SweepArms(NamedTuple):
    """The arms of a sweep in one stratum."""

    stratum: str
    metric: str
    axis: str
    """On which the arms differ."""
    baseline: str
    labels: Mapping[str, str]
    """Short name of each arm."""
    scale: Scale
    grids: Mapping[str, RateGrid]
    """The numbers of each arm on the scale, larger is better, NaN where a run has none; no arms where numbers may be
    infinite."""
    effects: Mapping[str, Effect]
    """Of each arm but the baseline."""

    def what_varies(self, arm: str) -> str:
        """Name an arm by what tells it from the others, with the key."""
        label = self.labels[arm]
        return label if "=" in label or self.axis == "variant" else f"{self.axis}={label}"


def read_sweep(folder: str | Path, question: Question) -> Answer | Ablation:
    """Read a folder as what it is: an ablation, which has its own question, or a sweep that is asked this one.

    Raises:
        AnalysisError: the folder cannot answer it; an ablation is asked for another metric, or for a grid.
    """
    if not (Path(folder) / ABLATION_FILE).exists():
        return answer(load(folder), question)
    if question.metric or question.best_of:
        option = "--metric" if question.metric else "--best-of"
        raise AnalysisError(f"{folder}: is an ablation, which has declared its metric and its grid; leave out {option}")
    return analyze(folder)


def arms_of(source: Answer | Ablation, margin: float, baseline: str | None = None) -> list[SweepArms]:
    """Return the arms of a sweep, stratum by stratum.

    Args:
        source: what was read.
        margin: differences that are smaller count as none, in the metric's units; an ablation has its own.
        baseline: of an ablation; that of an answer is its own.
    """
    if isinstance(source, Ablation):
        return [ablation_arms(source, baseline)]
    parts = zip(source.comparisons, source.parts, strict=True)
    return [answer_arms(comparison, part, margin) for comparison, part in parts]


def answer_arms(comparison: Comparison, data: SweepData, margin: float) -> SweepArms:
    """Return the arms of a comparison: one number each, that of its table."""
    scale, grids = scale_for(comparison.metric, Endpoint(), data), {}
    if not comparison.ranked:
        scores = direction_sign(comparison.better) * scale.forward(comparison.scores.to_numpy(dtype=float))
        columns = zip(comparison.scores, scores.T, strict=True)
        grids = {arm: RateGrid(np.ones(1), values[None]) for arm, values in columns}
    return SweepArms(
        stratum=comparison.stratum,
        metric=comparison.metric,
        axis=comparison.axis,
        baseline=comparison.baseline,
        labels=comparison.labels,
        scale=scale,
        grids=grids,
        effects={arm: answer_effect(comparison, arm, margin) for arm in comparison.others},
    )


def answer_effect(comparison: Comparison, arm: str, margin: float) -> Effect:
    """Return an effect as the table of a comparison has it."""
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


def ablation_arms(ablation: Ablation, baseline: str | None = None) -> SweepArms:
    """Return the arms of an ablation; they are named by the parts that are on."""
    names = {arm: " + ".join(sorted(ablation.parts[part] for part in arm)) or "baseline" for arm in ablation.grids}
    labels = {name: ablation.label(arm) for arm, name in names.items()}
    grids = {name: ablation.grids[arm] for arm, name in names.items()}
    first = resolve_variant(baseline, labels) if baseline else names[reference(ablation)]
    return SweepArms(
        stratum="",
        metric=ablation.metric.metric,
        axis="variant",
        baseline=first,
        labels=labels,
        scale=ablation.scale,
        grids=grids,
        effects=dict(ablation_effects(ablation, grids, labels, first)),
    )


def ablation_effects(
    ablation: Ablation, grids: Mapping[str, RateGrid], labels: Mapping[str, str], baseline: str
) -> Iterator[tuple[str, Effect]]:
    """Yield the effect of each arm, judged as those of parts: Holm over all arms, and no word that an edge may undo."""
    arms, sign = [*grids], direction_sign(ablation.metric.better)
    others = [arm for arm in arms if arm != baseline]
    weights = np.array([[float(each == arm) - float(each == baseline) for each in arms] for arm in others])
    edges = ablation.levels.get("edge")
    stuck = np.array([edges is not None and edges[labels[arm]] != "" for arm in arms])
    found = best_contrasts([*grids.values()], weights)
    p = np.array([each.p for each in found])
    level = float(ablation.scale.inverse(sign * best_value(grids[baseline]).value))
    for arm, each, row, corrected, alpha in zip(others, found, weights, holm(p), holm_levels(p), strict=True):
        word = word_of(*judged_interval(each.interval(1 - alpha), row[stuck]), ablation.smallest)
        ends = [float(ablation.scale.change(sign * end, level)) for end in (each.value, *each.interval())]
        yield arm, Effect(ends[0], *sorted(ends[1:]), float(corrected), each.n, SAYS[word])
