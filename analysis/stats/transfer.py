"""Compare the results of sweeps in order of size: signs of differences, orders of arms, decisions, sizes of effects.

Each smaller sweep is set against the largest, the last. Of the same difference in both it is said that they `agree`
(both higher, both lower or both equal), that one is the `opposite` of the other, that it is `only in` the one that has
it, the other being equal, or that it is `open`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.variants import is_variant, resolve_variant
from rlexp.analysis.stats.ablation import Ablation
from rlexp.analysis.stats.agreement import EffectAgreement, effect_agreement
from rlexp.analysis.stats.answer import Answer
from rlexp.analysis.stats.decision import DecisionAccuracy, Pairs, all_pairs, arm_ranks, decision_accuracy
from rlexp.analysis.stats.rates import RESAMPLES
from rlexp.analysis.stats.sweep_arms import Effect, SweepArms, arms_of

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
MANY = len(ORDINALS)  # sweeps


class EffectRow(NamedTuple):
    """The difference of an arm to the baseline in each sweep."""

    stratum: str
    arm: str
    label: str
    found: tuple[Effect, ...]
    agreements: tuple[str, ...]
    """Of each smaller sweep with the largest."""

    @property
    def agreement(self) -> str:
        """Of the largest of the smaller sweeps with the largest."""
        return self.agreements[-1]


class Order(NamedTuple):
    """The arms of a stratum by their values in each sweep, the best first.

    ``same`` is the probability that an order is that of the largest sweep when the units of both are drawn anew, for
    each smaller sweep, NaN of one unit; of two orders by chance it is ``chance``.
    """

    stratum: str
    orders: tuple[list[str], ...]
    same: tuple[float, ...]
    chance: float


class Ladder(NamedTuple):
    """The arms that several sweeps have in common, by the names that they have in the first, the baseline first."""

    names: tuple[str, ...]
    sweeps: list[list[SweepArms]]
    """The strata of each sweep that all have, with these arms only."""
    units: tuple[str, ...]
    """What each sweep counts, as `10 seeds`."""
    notes: list[str]

    @property
    def ranked(self) -> bool:
        """Whether some numbers may be infinite, so that arms have no means."""
        return any(not each.grids for strata in self.sweeps for each in strata)

    @property
    def arms(self) -> list[int]:
        """How many arms each stratum has."""
        return [len(each.labels) for each in self.sweeps[0]]

    def pairs(self, place: int) -> Pairs:
        """Return all pairs of arms of a sweep; draws have a stream for each."""
        return all_pairs([[*each.grids.values()] for each in self.sweeps[place]], place)


class Transfer(NamedTuple):
    """The same arms in sweeps of several sizes."""

    names: tuple[str, ...]
    metrics: tuple[str, ...]
    axis: str
    """The axis on which the arms differ."""
    baseline: str
    margin: float
    differences: list[EffectRow]
    orders: list[Order]
    scale: str
    """On which effects are compared."""
    decisions: list[DecisionAccuracy]
    """Of each smaller sweep; none where numbers may be infinite."""
    effects: list[EffectAgreement]
    """The same."""
    units: tuple[str, ...]
    weights: tuple[float | None, ...] = ()
    """How many each model has, where that is known."""
    notes: Sequence[str] = ()

    def counts(self, place: int = -1) -> Counter[str]:
        """Count the differences by agreement of a smaller sweep, by its place, with the largest."""
        return Counter(each.agreements[place] for each in self.differences)


def margin_of(sources: Sequence[Answer | Ablation], margin: float | None) -> float:
    """Return the margin that is given, else that of the first study that has one, else 0."""
    studies = [source.study for source in sources if isinstance(source, Answer)]
    margins = (margin, *(study.get("minimum_effect") for study in studies))
    return next((float(each) for each in margins if each is not None), 0.0)


def ladder(
    sources: Sequence[Answer | Ablation], names: Sequence[str], margin: float = 0.0, baseline: str | None = None
) -> Ladder:
    """Find the strata and arms that all sweeps have.

    Raises:
        AnalysisError: nothing in common, another baseline, sweeps beside ablations, or no unit with all arms.
    """
    kinds = [isinstance(source, Ablation) for source in sources]
    if len({*kinds}) > 1:
        one, other = names[kinds.index(True)], names[kinds.index(False)]
        raise AnalysisError(f"{one} is an ablation and {other} is not: must be the same kind")
    found = [{each.stratum: each for each in arms_of(source, margin, baseline)} for source in sources]
    strata = [stratum for stratum in found[0] if all(stratum in each for each in found)]
    if not strata:
        listed = "; ".join(", ".join(stratum or "(none)" for stratum in each) for each in found)
        raise AnalysisError(f"no stratum is in {_all(sources)}: {listed}")
    sweeps, left_out = [[] for _ in sources], {}
    for stratum in strata:
        parts = [each[stratum] for each in found]
        common = _common_arms(parts)
        lost = [parts[0].what_varies(arm) for arm in parts[0].labels if arm not in common[0]]
        left_out |= dict.fromkeys(lost)
        for sweep, part, own in zip(sweeps, parts, common, strict=True):
            sweep.append(_only(part, dict(zip(own, common[0], strict=True)), parts[0].labels))
    units = [next((grid.values.shape[-1] for grid in strata[0].grids.values()), 0) for strata in sweeps]
    if missing := [name for name, strata in zip(names, sweeps, strict=True) if _has_no_unit(strata)]:
        raise AnalysisError(f"{missing[0]}: no {sources[0].data.unit} has a number of all arms that are compared")
    notes = [f"Left out, as not every sweep has it: {', '.join(left_out)}."] if left_out else []
    counts = [f"{n} {source.data.unit}s" for n, source in zip(units, sources, strict=True)]
    return Ladder(tuple(names), sweeps, tuple(counts), notes)


def _has_no_unit(strata: Sequence[SweepArms]) -> bool:
    return any(grid.values.shape[-1] == 0 for each in strata for grid in each.grids.values())


def _all(sources: Sequence[object]) -> str:
    return "both sweeps" if len(sources) == 2 else "all sweeps"


def _common_arms(parts: Sequence[SweepArms]) -> list[list[str]]:
    """The arms that all sweeps have, in each by its own names, in one order, the baseline first.

    They are the same if they agree on what varies in the first: the rest is where the sweeps differ.
    """
    first = parts[0]
    names = {arm: first.what_varies(arm) for arm in (first.baseline, *first.effects)}
    for part in parts[1:]:
        name = names[first.baseline]
        if not is_variant(name, part.labels) or resolve_variant(name, part.labels) != part.baseline:
            other = part.what_varies(part.baseline)
            raise AnalysisError(f"the baselines differ, {name} and {other}; name one with --baseline")
    known = [part for part in parts if part.grids]
    kept = {
        arm: own
        for arm, name in names.items()
        if all(is_variant(name, part.labels) for part in parts)
        and all(_has_numbers(part, resolve_variant(name, part.labels)) for part in known)
        for own in [[resolve_variant(name, part.labels) for part in parts]]
    }
    if len(kept) < 2 or first.baseline not in kept:
        raise AnalysisError(f"no other arm than {names[first.baseline]} is in {_all(parts)}")
    return [[own[place] for own in kept.values()] for place in range(len(parts))]


def _has_numbers(part: SweepArms, arm: str) -> bool:
    return not np.isnan(part.grids[arm].values).all()


def _only(part: SweepArms, names: dict[str, str], labels: dict[str, str]) -> SweepArms:
    """The arms that are named, by their names in the first sweep, over the units where all of them have a number."""
    grids = {names[arm]: part.grids[arm] for arm in names if part.grids}
    if grids:
        there = ~np.any([np.isnan(grid.values).all(0) for grid in grids.values()], axis=0)
        grids = {arm: grid._replace(values=grid.values[:, there]) for arm, grid in grids.items()}
    return part._replace(
        baseline=names[part.baseline],
        labels={name: labels[name] for name in names.values()},
        grids=grids,
        effects={names[arm]: part.effects[arm] for arm in names if arm in part.effects},
    )


def transfer(
    sources: Sequence[Answer | Ablation],
    names: Sequence[str],
    margin: float | None = None,
    weights: Sequence[float | None] = (),
    baseline: str | None = None,
) -> Transfer:
    """Set each smaller sweep against the largest, the last one, stratum by stratum and arm by arm.

    Args:
        sources: what was read of each, in order of size.
        names: what they are called.
        margin: differences that are smaller count as none; see ``margin_of``.
        weights: of each model.
        baseline: of ablations.

    Raises:
        AnalysisError: as ``ladder``.
    """
    margin = margin_of(sources, margin)
    found = ladder(sources, names, margin, baseline)
    first, notes = found.sweeps[0], list(found.notes)
    rows = []
    for strata in zip(*found.sweeps, strict=True):
        for arm in strata[0].effects:
            effects = tuple(each.effects[arm] for each in strata)
            said = tuple(
                agreement((one, effects[-1]), (name, names[-1])) for one, name in zip(effects[:-1], names, strict=False)
            )
            rows.append(EffectRow(strata[0].stratum, arm, strata[0].labels[arm], effects, said))
    decisions, agreements, orders = [], [], []
    if found.ranked:
        notes.append("Some numbers may be infinite, so arms have no means: no decision accuracy, and no order.")
    else:
        pairs = [found.pairs(place) for place in range(len(names))]
        decisions = [decision_accuracy(each, pairs[-1]) for each in pairs[:-1]]
        agreements = [effect_agreement(each, pairs[-1], found.arms) for each in pairs[:-1]]
        orders = orders_of(found, pairs)
    scales = list(dict.fromkeys(each.scale.name for strata in found.sweeps for each in strata))
    if len(scales) > 1:
        notes.append(f"Effects are on different scales ({', '.join(scales)}), so their slope says nothing.")
    return Transfer(
        names=tuple(names),
        metrics=tuple(strata[0].metric for strata in found.sweeps),
        axis=first[0].axis,
        baseline=first[0].what_varies(first[0].baseline),
        margin=margin,
        differences=rows,
        orders=orders,
        scale=" and ".join(scales),
        decisions=decisions,
        effects=agreements,
        units=found.units,
        weights=tuple(weights) or (None,) * len(names),
        notes=notes,
    )


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


def orders_of(found: Ladder, pairs: Sequence[Pairs]) -> list[Order]:
    """Return the orders of each stratum; equal arms stand in the order of the first sweep."""
    orders, start = [], 0
    for place, arms in enumerate(found.arms):
        own = slice(start, start + arms * (arms - 1) // 2)
        start = own.stop
        labels = [*found.sweeps[0][place].labels.values()]
        best = [_best_first(each.difference[own], arms) for each in pairs]
        drawn = [Counter(map(tuple, _best_first(each.draws[:, own], arms).tolist())) for each in pairs]
        same = tuple(sum(each[order] * drawn[-1][order] for order in each) / RESAMPLES**2 for each in drawn[:-1])
        if any(np.isnan(each.draws[:, own]).any() for each in pairs):
            same = (np.nan,) * len(same)
        named = tuple([labels[arm] for arm in order] for order in best)
        chance = 1 / float(np.prod(range(1, arms + 1)))
        orders.append(Order(found.sweeps[0][place].stratum, named, same, chance))
    return orders


def _best_first(differences: np.ndarray, arms: int) -> np.ndarray:
    """Places of arms from the best to the worst by the differences of their pairs `[..., pairs]`, `[..., arms]`."""
    return np.argsort(-arm_ranks(np.nan_to_num(differences), arms), axis=-1, kind="stable")


def transfer_frame(found: Transfer) -> pd.DataFrame:
    """A row per difference: its numbers in each sweep, and what is said of them."""
    rows = []
    for each in found.differences:
        row = {"stratum": each.stratum, "arm": each.arm}
        for name, one, sweep in zip(ORDINALS, each.found, found.names, strict=False):
            row |= {f"{name}_{key}": value for key, value in one._asdict().items()} | {f"{name}_sweep": sweep}
        said = {f"{name}_agreement": text for name, text in zip(ORDINALS, each.agreements[:-1], strict=False)}
        rows.append(row | said | {"agreement": each.agreement})
    return pd.DataFrame(rows)


def decision_frame(found: Transfer) -> pd.DataFrame:
    """A row per smaller sweep: how it decides pairs, and how its effects go with those of the largest."""
    rows = []
    for place, (decision, effects) in enumerate(zip(found.decisions, found.effects, strict=True)):
        row = {"sweep": found.names[place], "weights": found.weights[place], "units": found.units[place]}
        numbers = decision._asdict()
        row |= {key: value for key, value in numbers.items() if key != "abstained"}
        row |= dict(zip(("abstained", "abstained_largest"), decision.abstained, strict=True))
        for name in ("slope", "pearson", "spearman", "disattenuated"):
            measured = getattr(effects, name)
            row |= {name: measured.value, f"{name}_low": measured.low, f"{name}_high": measured.high}
        row |= dict(zip(("reliability", "reliability_largest"), effects.reliability, strict=True))
        rows.append(row)
    return pd.DataFrame(rows)
