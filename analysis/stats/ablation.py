"""What each part of a recipe is worth: the runs of `rlexp ablate` as levels of the arms and effects of the parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.load import SweepData, load
from rlexp.analysis.data.metric_spec import direction_sign
from rlexp.analysis.data.run_values import RunValues, rate_values
from rlexp.analysis.data.starts import in_units
from rlexp.analysis.stats.arms import missing_note, scaled_runs
from rlexp.analysis.stats.comparison import level_columns
from rlexp.analysis.stats.designs import Arm, Contrast, contrasts_of, factorial_design
from rlexp.analysis.stats.endpoints import parse_endpoint
from rlexp.analysis.stats.rates import RateGrid, best_contrasts, best_value, edge, rate_grid
from rlexp.analysis.stats.scales import Scale
from rlexp.analysis.stats.significance import ALPHA, false_discovery_level, false_discovery_q, holm, sign_test_p
from rlexp.analysis.stats.speed_up import speed_ups
from rlexp.analysis.stats.words import NEGLIGIBLE, holm_levels
from rlexp.runfolder.files import read_json
from rlexp.runfolder.variants import unit_name, variant_name

Array = np.ndarray
ABLATION_FILE = "ablation.json"


class Ablation(NamedTuple):
    """The arms of an ablation and what its parts are worth."""

    folder: Path
    declared: Mapping[str, Any]
    """What was asked, as it was written down before the first run."""
    data: SweepData
    metric: RunValues
    scale: Scale
    """On which effects are taken; tables show them in the metric's own units."""
    smallest: float
    """The smallest effect that counts, on the scale."""
    parts: list[str]
    """The name of each part, as ``clip=higher``."""
    arms: dict[Arm, list[str]]
    """The variant of each point of an arm's grid; one where no key is tuned."""
    grids: dict[Arm, RateGrid]
    """The runs' numbers on the scale, larger is better."""
    levels: pd.DataFrame
    """A row an arm, with the columns of ``level_columns``; of a tuned key also its best ``value`` and its ``edge``;
    where some runs collapsed and others did not, the columns of ``collapses_of`` and ``collapse_q``."""
    effects: pd.DataFrame
    """A row a part, or two, and kind: ``kind, parts, difference, low, high`` in the metric's units (at the level of the
    arm without the part; of means over arms at the baseline's), there too ``margin_low, margin_high`` between which
    differences do not count, ``effect, error`` on the scale, ``p``, ``p_holm`` or
    ``q``, ``n, word``, ``speed_up`` and the ends of its interval."""
    notes: list[str]
    folders: dict[Arm, list[list[str]]]
    """The name of each run's folder, by point and seed."""

    def label(self, arm: Arm) -> str:
        """Name an arm: the parts that are on; ``baseline`` or ``recipe`` where none or all are."""
        k = len(self.parts)
        if not arm or len(arm) == k:
            return "recipe" if arm else "baseline"
        if len(arm) == k - 1 and k > 2:
            return f"recipe without {next(self.parts[part] for part in range(k) if part not in arm)}"
        return " + ".join(self.parts[part] for part in sorted(arm))

    @property
    def kinds(self) -> list[str]:
        """The ways in which parts were asked, those of single parts."""
        return [kind for kind in KINDS if kind in set(self.effects["kind"])]


KINDS = ("added first", "removed last", "step", "main effect", "Shapley value")
SECONDARY = ("interaction",)
"""Kinds whose p are corrected together with those of collapses, for false discoveries; the others by Holm."""


def units_of(declared: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the starts of an ablation, or without any of its seeds: what an arm has one number for."""
    return declared.get("starts") or declared["seeds"]


def analyze(folder: str | Path, **instead: Any) -> Ablation:
    """Read the runs of an ablation and estimate what its parts are worth.

    Args:
        folder: of the ablation.
        instead: of what was declared, as ``endpoint="auc:completions"``: another number of the same runs.

    Effects are taken seed by seed on the metric's scale (log-odds of shares); where a key is tuned, each arm is at its
    best value with the choice inside the interval. Holm corrects within a kind, Benjamini and Hochberg over all that is
    ``SECONDARY``; the interval that a word rests on has the level that they leave it.
    An arm whose best value is at an end that could not be left may be better than shown: no word is said that this
    would undo.

    Raises:
        AnalysisError: the folder holds no ablation, or an arm has no number on all seeds.
    """
    folder = Path(folder)
    written = read_json(folder / ABLATION_FILE)
    if written is None:
        raise AnalysisError(f"{folder}: is no ablation ({ABLATION_FILE} is missing); rlexp ablate makes one")
    declared, data = written["declared"] | instead, load(folder)
    runs = scaled_runs(data, parse_endpoint(declared["endpoint"]), declared["metric"])
    metric, scale, present = runs.metric, runs.scale, set(data.runs["name"])
    units, starts = units_of(declared), bool(declared.get("starts"))
    arms, grids, levels = {}, {}, {}
    smallest = declared["smallest"] or scale.smallest
    if not np.isfinite(smallest):
        raise AnalysisError(f"{metric.metric} has no smallest effect that counts by its name: declare one (--smallest)")
    parts = ["+".join(part) for part in declared["parts"]]
    empty = pd.DataFrame()
    result = Ablation(folder, declared, data, metric, scale, smallest, parts, arms, grids, empty, empty, [], {})
    notes = list(metric.remarks)
    for each in written["arms"]:
        arm = frozenset(each["parts"])
        names = [[unit_name(point, unit, starts) for unit in units] for point in each["overrides"]]
        if not present & {name for row in names for name in row}:
            raise AnalysisError(f"{folder}: no run of {result.label(arm)} is there, as {names[0][0]}")
        raw = runs.of(names)
        if missing := missing_note(result.label(arm), names, runs):
            notes.append(missing)
        result.folders[arm] = names
        arms[arm] = [variant_name(point) for point in each["overrides"]]
        grid = grids[arm] = rate_grid(written["values"] or [1.0], runs.sign * scale.forward(raw), runs.floor)
        best = best_value(grid)
        shown = raw[grid.best]
        row = level_columns(shown[~np.isnan(shown)])
        if written["values"]:
            end = edge(grid, smallest).side if len(grid.rates) > 1 else ""
            row |= {"value": best.rate, "edge": end}
        levels[result.label(arm)] = row
    table = pd.DataFrame.from_dict(levels, orient="index").rename_axis("arm")
    result = result._replace(levels=table.join(collapses_of(result)))
    effects = effects_of(result)
    if "collapse_p" in result.levels:
        p = [*effects.loc[effects["kind"].isin(SECONDARY), "p"], *result.levels["collapse_p"]]
        result.levels["collapse_q"] = false_discovery_q(p)[-len(result.levels) :]
    result = result._replace(effects=effects)
    notes = [*data.unit_remarks, *(in_units(note, data.unit) for note in [*notes, *notes_of(result)])]
    return result._replace(notes=notes)


def collapses_of(ablation: Ablation) -> pd.DataFrame:
    """Return how many runs of each arm, at its best value, collapsed (or diverged); no columns if none or all did.

    By the arm's name: ``collapsed``, ``collapsed_of`` those that say, and ``collapse_p`` of the exact sign test
    (McNemar) against the ``reference`` over the same seeds; NaN for that arm itself.
    """
    try:
        fallen = rate_values(ablation.data, "collapsed").values
    except NothingLeft:
        return pd.DataFrame()
    runs = {arm: fallen.reindex(ablation.folders[arm][grid.best]).to_numpy() for arm, grid in ablation.grids.items()}
    known = np.concatenate([*runs.values()])
    if np.unique(known[~np.isnan(known)]).size < 2:
        return pd.DataFrame()
    versus = reference(ablation)
    rows = {}
    for arm, each in runs.items():
        differences = each - runs[versus]
        p = np.nan if arm == versus else sign_test_p(differences[~np.isnan(differences)])
        counts = {"collapsed": int(np.nansum(each)), "collapsed_of": int((~np.isnan(each)).sum())}
        rows[ablation.label(arm)] = counts | {"collapse_p": p}
    return pd.DataFrame.from_dict(rows, orient="index")


def reference(ablation: Ablation) -> Arm:
    """The arm that others are compared with: the baseline, without one the recipe, without both the first."""
    none, every = frozenset(), frozenset(range(len(ablation.parts)))
    return next(arm for arm in (none, every, *ablation.grids) if arm in ablation.grids)


def effects_of(ablation: Ablation) -> pd.DataFrame:
    """Return a row for what each design says of each part; p is corrected within a kind, or over all ``SECONDARY``."""
    arms, declared, k = [*ablation.grids], ablation.declared, len(ablation.parts)
    none, every = frozenset(), frozenset(range(k))
    contrasts = []
    if every in arms and none in arms:
        weights = np.array([float(arm == every) - float(arm == none) for arm in arms])
        contrasts.append(Contrast("whole recipe", (), weights))
    for design in declared["designs"]:
        contrasts += contrasts_of(design, arms, k, declared["order"])
    rows, weights = [], np.array([contrast.weights for contrast in contrasts])
    found_all = best_contrasts([*ablation.grids.values()], weights)
    edges = ablation.levels.get("edge", pd.Series("", ablation.levels.index))
    at_end = np.array([edges[ablation.label(arm)] != "" for arm in arms])
    for contrast, found in zip(contrasts, found_all, strict=True):
        named = [ablation.parts[part] for part in contrast.parts] or ["all parts"]
        rows.append(
            {"kind": contrast.kind, "parts": " × ".join(named), "effect": found.value, "error": found.error}
            | {"level": level_of(ablation, contrast, arms)}
            | {"p": found.p, "n": found.n, "found": found}
            | dict(
                zip(
                    ("speed_up", "speed_low", "speed_high", "speed_bound"),
                    speed_of(ablation, contrast, arms),
                    strict=True,
                )
            )
        )
    table = pd.DataFrame(rows)
    secondary = table["kind"].isin(SECONDARY)
    together = np.array([*table.loc[secondary, "p"], *ablation.levels.get("collapse_p", [])], dtype=float)
    table["p_holm"] = table["q"] = np.nan
    table.loc[secondary, "q"] = false_discovery_q(together)[: int(secondary.sum())]
    for kind, family in table.groupby("kind", sort=False):
        p = family["p"].to_numpy()
        if kind in SECONDARY:
            levels = np.full(p.size, false_discovery_level(together))
        else:
            table.loc[family.index, "p_holm"], levels = holm(p), holm_levels(p)
        words = [
            word_of(*judged_interval(found.interval(1 - alpha), weights[place][at_end]), ablation.smallest)
            for place, found, alpha in zip(family.index, family["found"], levels, strict=True)
        ]
        if kind == "interaction":
            words = [word.replace("helps", "more together").replace("hurts", "less together") for word in words]
        table.loc[family.index, "word"] = words
    sign = direction_sign(ablation.metric.better)
    for name, numbers in {
        "difference": table["effect"],
        "low": [found.interval()[0] for found in table["found"]],
        "high": [found.interval()[1] for found in table["found"]],
        "margin_low": [-ablation.smallest] * len(table),
        "margin_high": [ablation.smallest] * len(table),
    }.items():
        pairs = zip(numbers, table["level"], strict=True)
        table[name] = [float(ablation.scale.change(sign * number, level)) for number, level in pairs]
    if sign < 0:
        for low, high in (("low", "high"), ("margin_low", "margin_high")):
            table[[low, high]] = table[[high, low]].to_numpy()
    return table.drop(columns=["found", "level"])


def judged_interval(interval: tuple[float, float], stuck: Array) -> tuple[float, float]:
    """Open the interval of a sum of arms where some may be better than shown: their best is at an end of the grid.

    Args:
        interval: as estimated.
        stuck: the weights of these arms.
    """
    low, high = interval
    return -np.inf if (stuck < 0).any() else low, np.inf if (stuck > 0).any() else high


def level_of(ablation: Ablation, contrast: Contrast, arms: Sequence[Arm]) -> float:
    """Return where the effect is read in the metric's units: at the arm that another one is compared with.

    That of the baseline (without one of the first arm) where the contrast is not of two arms.
    """
    used = np.flatnonzero(contrast.weights)
    arm = arms[used[contrast.weights[used].argmin()]] if len(used) == 2 else frozenset()
    value = best_value(ablation.grids.get(arm, next(iter(ablation.grids.values())))).value
    return float(ablation.scale.inverse(direction_sign(ablation.metric.better) * value))


def speed_of(ablation: Ablation, contrast: Contrast, arms: Sequence[Arm]) -> tuple[float, float, float, bool]:
    """Return how many times less of the completions an arm takes to get to where the other one ends.

    NaN where a contrast is not of two arms. The last value: whether the ratio is only an upper bound.
    """
    used = np.flatnonzero(contrast.weights)
    if len(used) != 2:
        return np.nan, np.nan, np.nan, False
    more, less = (arms[place] for place in sorted(used, key=lambda place: -contrast.weights[place]))
    variants = [ablation.arms[arm][ablation.grids[arm].best] for arm in (more, less)]
    try:
        data = ablation.data
        kept = data._replace(
            runs=data.runs[data.runs["variant"].isin(variants)],
            metrics=data.metrics[data.metrics["variant"].isin(variants)],
            variants=variants,
        )
        found = speed_ups(kept, variants[1], "completions", ablation.declared["metric"])[variants[0]]
    except (AnalysisError, KeyError):
        return np.nan, np.nan, np.nan, False
    return found.ratio, found.low, found.high, found.bound


def word_of(low: float, high: float, smallest: float) -> str:
    """Say what an interval of an effect says of a part, with + as better.

    An interval within a tenth of the smallest effect says that there is nothing, on whatever side of 0 it lies.
    """
    if np.isnan(low):
        return "open"
    if max(-low, high) < NEGLIGIBLE * smallest:
        return "no material effect"
    if low > 0:
        return "helps" if high >= smallest else "helps a little"
    if high < 0:
        return "hurts" if low <= -smallest else "hurts a little"
    return "no material effect" if -smallest < low and high < smallest else "open"


def notes_of(ablation: Ablation) -> list[str]:
    """Return what one must know beside the tables."""
    notes, levels, effects = [], ablation.levels, ablation.effects
    p = [*effects.loc[effects["kind"].isin(SECONDARY), "p"], *levels.get("collapse_p", [])]
    if counted := int(np.isfinite(p).sum()):
        notes.append(
            "q (BH) is the p of what is secondary here, interactions and collapses, corrected for false discoveries "
            f"over all {counted} (Benjamini and Hochberg)."
        )
    if "collapse_q" in levels:
        versus = ablation.label(reference(ablation))
        texts = [
            f"{arm} (q (BH) = {row['collapse_q']:.2g})" for arm, row in levels.iterrows() if row["collapse_q"] < ALPHA
        ]
        said = f"not as often as those of {versus}: {', '.join(texts)}" if texts else "no arm shown to differ"
        notes.append(f"Runs that collapsed, tested over the same seeds (McNemar's exact test): {said}.")
    if ablation.declared["tune"]:
        ends = ablation.levels.index[ablation.levels["edge"] != ""]
        if len(ends):
            key, named = ablation.declared["tune"]["key"], ", ".join(ends)
            notes.append(
                f"At the end of its grid of {key}, so perhaps better elsewhere, and not called worse: {named}."
            )
    else:
        notes.append("No key was tuned: each part is judged at the learning rate of the baseline (--tune lr).")
    design = factorial_design(len(ablation.parts)) if "factorial" in ablation.declared["designs"] else None
    if design and design.words:
        mixed = [
            " = ".join(" × ".join(ablation.parts[part] for part in sorted(each)) for each in ({part}, *others))
            for part in range(len(ablation.parts))
            if (others := design.aliases([part]))
        ]
        words = ", ".join("·".join(ablation.parts[part] for part in sorted(word)) for word in design.words)
        notes.append(
            f"The factorial is a fraction: {len(design.arms)} of {2 ** len(ablation.parts)} arms, resolution "
            f"{design.resolution}, defining words {words}. "
            + (
                f"Not told apart: {'; '.join(mixed)}."
                if mixed
                else "No main effect is mixed with a two-way interaction."
            )
        )
    return notes
