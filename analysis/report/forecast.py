"""Forecasts scored on what a target shows, and both as text and as JSON."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.read import write_text, writing_to
from rlexp.analysis.data.variants import is_variant, resolve_variant
from rlexp.analysis.report.tables import TextTable, csv_text, plain, print_table
from rlexp.analysis.stats.ablation import Ablation
from rlexp.analysis.stats.answer import Answer
from rlexp.analysis.stats.decision import Pairs, all_pairs
from rlexp.analysis.stats.forecast import COPY, FORECAST, NOTHING, Prediction, Score, no_effect, score
from rlexp.analysis.stats.formatting import decimal_places, format_fraction, format_interval, format_number
from rlexp.analysis.stats.rates import RateGrid
from rlexp.analysis.stats.significance import ALPHA
from rlexp.analysis.stats.sweep_arms import SweepArms, arms_of


class ScoredForecast(NamedTuple):
    """A forecast beside what the target shows."""

    scores: list[Score]
    effects: pd.DataFrame
    """A row per arm: what was forecast, with its interval, and what was shown, with its error."""
    decided: int
    """Pairs that the target tells apart, of so many ``pairs``."""
    pairs: int
    notes: list[str]


def score_forecast(content: Mapping[str, Any], source: Answer | Ablation) -> ScoredForecast:
    """Score a forecast, and both naive ones, on the target.

    Raises:
        AnalysisError: the target has none of the arms, no means, or another scale.
    """
    found = {each.stratum: each for each in arms_of(source, 0.0, content["question"]["baseline"])}
    numbers: dict[str, list[list[float]]] = {FORECAST: [], COPY: []}
    shown, rows, notes = [], [], []
    for stratum in content["strata"]:
        part = found.get(stratum["stratum"])
        grids = known_arms(part, stratum["arms"], content["scale"]) if part else {}
        if left_out := [arm for arm in stratum["arms"] if arm not in grids]:
            where = f" ({stratum['stratum']})" if stratum["stratum"] else ""
            notes.append(f"Not scored, as the target has no number of it{where}: {', '.join(left_out)}.")
        kept = [each for each in stratum["pairs"] if each["first"] in grids and each["second"] in grids]
        if not kept:
            continue
        pairs = all_pairs([[*grids.values()]])
        shown.append(pairs)
        for each, difference, error in zip(kept, pairs.difference, pairs.error, strict=True):
            for name, row in {FORECAST: each, COPY: each["copy"]}.items():
                numbers[name].append([row["difference"], row["spread"], row["degrees_of_freedom"]])
            effect = each["first"] == stratum["baseline"]  # an arm less the baseline has the other sign
            row = {"stratum": stratum["stratum"], "arm": each["second"], "forecast": -each["difference"]}
            row |= {"low": -each["high"], "high": -each["low"], "copy": -each["copy"]["difference"]}
            rows.append(row | {"shown": -difference, "error": error, "is_effect": effect})
    if not rows:
        raise AnalysisError("the target has no two of the arms that were forecast")
    target = Pairs(*(np.concatenate(each, axis=-1) for each in zip(*shown, strict=True)))
    table = pd.DataFrame(rows)
    effects = table.pop("is_effect").to_numpy()
    scores = []
    for name, each in numbers.items():
        differences, spreads, degrees = np.array(each, dtype=float).T
        prediction = Prediction(differences, spreads, degrees[0], np.nan)
        scores.append(score(name, prediction, target, effects))
    scores.append(score(NOTHING, no_effect(len(rows)), target, effects))
    if len(content["read"]) == 1:
        notes.append("The forecast was made from one sweep, so it is the copy of it.")
    decided = int(target.decided(target.difference).sum())
    return ScoredForecast(scores, table[effects].reset_index(drop=True), decided, len(rows), notes)


def known_arms(part: SweepArms, names: Sequence[str], scale: str) -> dict[str, RateGrid]:
    """Return the arms of a target by the names that a forecast has, over the units where all have a number."""
    if not part.grids:
        raise AnalysisError("the target's numbers may be infinite, so its arms have no means")
    if part.scale.name != scale:
        raise AnalysisError(f"the target is on another scale ({part.scale.name}) than the forecast ({scale})")
    found = {name: part.grids[resolve_variant(name, part.labels)] for name in names if is_variant(name, part.labels)}
    found = {name: grid for name, grid in found.items() if not np.isnan(grid.values).all()}
    if not found:
        return {}
    there = ~np.any([np.isnan(grid.values).all(0) for grid in found.values()], axis=0)
    if not there.any():
        raise AnalysisError("the target has no unit with a number of all arms that were forecast")
    return {name: grid._replace(values=grid.values[:, there]) for name, grid in found.items()}


def print_forecast(content: Mapping[str, Any], console: Console) -> None:
    """Print the forecast effects with their prediction intervals, and the order of the arms."""
    target = content["target"] or "a larger sweep"
    console.print(Text(f"{content['metric']} of {target}, forecast on the scale ({content['scale']})\n"))
    for stratum in content["strata"]:
        effects = [each for each in stratum["pairs"] if each["first"] == stratum["baseline"]]
        digits = min(decimal_places([each["difference"] for each in effects]), 3)
        rows = [
            [each["second"], _interval(-each["difference"], each["high"], each["low"], digits)]
            + [format_number(1 - each["probability"], 2)]
            for each in effects
        ]
        headers = [f"difference to {stratum['baseline']}", "forecast [95 %]", "P(better)"]
        print_table(TextTable(headers, rows), console, stratum["stratum"] or None)
        console.print(Text(f"order: {' > '.join(stratum['order'])}\n"))
    sd = content["between_sizes"]["sd"]
    if sd is not None:
        console.print(Text(f"SD of an arm's deviation at a size: {sd:.3g}"))
    for note in filter(None, [content["note"]]):
        console.print(Text(note))


def _interval(middle: float, low: float | None, high: float | None, digits: int) -> str:
    ends = (np.nan, np.nan) if low is None or high is None else (-low, -high)
    return format_interval(middle, *ends, digits, signed=True)


def score_table(found: ScoredForecast, last: str) -> TextTable:
    """Return a row per forecast; ``last`` is the largest smaller sweep."""
    rows = [
        [f"copy of {last}" if each.forecast == COPY else each.forecast]
        + [format_number(number, 2) for number in (each.accuracy, each.decided_accuracy)]
        + [format_number(each.brier, 3), format_fraction(each.covered, each.intervals), format_number(each.error, 3)]
        for each in found.scores
    ]
    headers = ["", "accuracy", "of decided", "Brier", "in interval", "mean |error|"]
    return TextTable(headers, rows)


def print_score(content: Mapping[str, Any], found: ScoredForecast, name: str, console: Console) -> None:
    """Print what was forecast beside what was shown, and the scores."""
    scale = content["scale"]
    console.print(Text(f"{content['metric']} of {name}, as forecast on {content['created'][:10]} ({scale})\n"))
    digits = min(decimal_places([*found.effects["forecast"], *found.effects["shown"]]), 3)
    for stratum, effects in found.effects.groupby("stratum", sort=False):
        rows = [
            [row["arm"], format_interval(row["forecast"], row["low"], row["high"], digits, signed=True)]
            + [format_number(row["shown"], digits, signed=True)]
            for _, row in effects.iterrows()
        ]
        print_table(TextTable(["difference", "forecast [95 %]", "shown"], rows), console, str(stratum) or None)
        console.print()
    print_table(score_table(found, content["read"][-1]["sweep"]), console)
    console.print(Text(f"{found.pairs} pairs, {found.decided} of them told apart by {name} (p < {ALPHA:g})"))
    for note in filter(None, [content["note"], *found.notes]):
        console.print(Text(f"- {note}", style="dim"))


def score_json(content: Mapping[str, Any], found: ScoredForecast, name: str) -> str:
    """Return all of it; numbers that are missing are null."""
    value = {
        "target": name,
        "forecast": {key: content[key] for key in ("created", "hash", "target", "metric", "scale")},
        "pairs": found.pairs,
        "decided": found.decided,
        "scores": [each._asdict() for each in found.scores],
        "effects": found.effects.to_dict("records"),
        "notes": found.notes,
    }
    return json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False)


def write_score(content: Mapping[str, Any], found: ScoredForecast, name: str, out: Path) -> list[Path]:
    """Write the scores as CSV and as JSON; return the paths written."""
    with writing_to(out):
        table = write_text(out / "score.csv", csv_text(pd.DataFrame(found.scores), index=False))
        return [table, write_text(out / "score.json", score_json(content, found, name) + "\n")]
