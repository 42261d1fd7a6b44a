"""Forecasts of larger sweeps as files: written before these are trained, and scored on them afterwards.

A file says what it was made from, by hashes, and has a hash of itself. Its numbers are on the scale of effects, larger
is better, and a difference is of what the target will show with so many units.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.read import read_object, write_text, writing_to
from rlexp.analysis.data.sweep_files import content_hash, first_start
from rlexp.analysis.data.variants import is_variant, resolve_variant
from rlexp.analysis.report.tables import TextTable, csv_text, plain, print_table
from rlexp.analysis.stats.ablation import Ablation
from rlexp.analysis.stats.answer import Answer, Question
from rlexp.analysis.stats.decision import Pairs, all_pairs, arm_ranks
from rlexp.analysis.stats.forecast import COPY, FORECAST, NOTHING, Prediction, Score, no_effect, predict, score
from rlexp.analysis.stats.formatting import decimal_places, format_fraction, format_interval, format_number
from rlexp.analysis.stats.rates import RateGrid
from rlexp.analysis.stats.sweep_arms import SweepArms, arms_of
from rlexp.analysis.stats.transfer import Ladder, ladder

FORMAT = 1
NUMBERS = ("difference", "low", "high", "spread", "probability")
CHANGED = "was changed after it was written: its hash is another"


def make_forecast(
    folders: Sequence[str],
    sources: Sequence[Answer | Ablation],
    names: Sequence[str],
    question: Question,
    command: str,
    target: str | None = None,
    units: int | None = None,
) -> dict[str, Any]:
    """Forecast what a larger sweep with the same arms will show.

    Args:
        folders: the smaller sweeps in order of size.
        sources: what was read of them.
        names: what they are called.
        question: what they were asked.
        command: that made the forecast.
        target: what the larger sweep is called.
        units: how many seeds (or starts) it will have; as many as the last sweep unless given.

    Raises:
        AnalysisError: nothing in common, numbers without means, or different scales.
    """
    found = ladder(sources, names, baseline=question.baseline)
    scales = list(dict.fromkeys(each.scale.name for strata in found.sweeps for each in strata))
    if found.ranked:
        raise AnalysisError("some numbers may be infinite, so arms have no means that could be forecast")
    if len(scales) > 1:
        raise AnalysisError(f"effects are on different scales ({', '.join(scales)}): must be on one")
    pairs = [found.pairs(place) for place in range(len(names))]
    made, copied = predict(pairs, found.arms, units), predict(pairs[-1:], found.arms, units)
    content = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(),
        "command": command,
        "target": target,
        "metric": found.sweeps[-1][0].metric,
        "question": {"metric": question.metric, "baseline": question.baseline, "best_of": list(question.best_of)},
        "scale": scales[0],
        "units": int(units or pairs[-1].n.min()),
        "read": [
            {"sweep": name, "units": counted, "hash": content_hash(Path(folder))}
            for name, counted, folder in zip(names, found.units, folders, strict=True)
        ],
        "between_sizes": {"sd": made.between, "degrees_of_freedom": made.degrees},
        "note": ""
        if len(names) > 1
        else "Of one smaller sweep: intervals are of sampling error alone, and hold nothing of how sizes differ.",
        "strata": strata_of(found, made, copied),
    }
    content = plain(content)
    return content | {"hash": hash_of(content)}


def strata_of(found: Ladder, made: Prediction, copied: Prediction) -> list[dict[str, Any]]:
    """Return the arms, their predicted order, and all their pairs, stratum by stratum."""
    numbers = {FORECAST: _rows(made), COPY: _rows(copied)}
    strata, start = [], 0
    for part in found.sweeps[0]:
        arms = [*part.labels]
        named = [part.what_varies(arm) for arm in arms]
        stop = start + len(arms) * (len(arms) - 1) // 2
        ranks = arm_ranks(made.difference[start:stop], len(arms))
        pairs = [
            {"first": first, "second": second, **numbers[FORECAST][place], "copy": numbers[COPY][place]}
            for place, (first, second) in enumerate(combinations(named, 2), start)
        ]
        order = [named[place] for place in np.argsort(-ranks, kind="stable")]
        strata.append({"stratum": part.stratum, "baseline": named[0], "arms": named, "order": order, "pairs": pairs})
        start = stop
    return strata


def _rows(prediction: Prediction) -> list[dict[str, float]]:
    columns = (prediction.difference, *prediction.interval(), prediction.spread, prediction.probability())
    degrees = {"degrees_of_freedom": prediction.degrees}
    return [dict(zip(NUMBERS, map(float, row), strict=True)) | degrees for row in zip(*columns, strict=True)]


def hash_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a forecast without its own hash."""
    rest = {key: value for key, value in content.items() if key != "hash"}
    return sha256(json.dumps(rest, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()).hexdigest()


def write_forecast(content: Mapping[str, Any], file: Path) -> None:
    """Write a forecast; AnalysisError where there is a file already."""
    if file.exists():
        raise AnalysisError(f"{file}: is there already; a forecast is not written over, name another file")
    with writing_to(file):
        write_text(file, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_forecast(file: Path) -> dict[str, Any]:
    """Read a forecast; AnalysisError for another file, or one that was changed."""
    content, wrong = read_object(file)
    if wrong:
        raise AnalysisError(f"{file}: {wrong}")
    if "hash" not in content or "strata" not in content:
        raise AnalysisError(f"{file}: is no forecast; rlexp transfer --forecast makes one")
    if content["hash"] != hash_of(content):
        raise AnalysisError(f"{file}: {CHANGED}")
    if content["format"] != FORMAT:
        raise AnalysisError(f"{file}: has format {content['format']}; this rlexp reads {FORMAT}")
    return content


def check_time(content: Mapping[str, Any], file: Path, target: Path) -> None:
    """Raise AnalysisError unless the forecast was made before the first run of the target began."""
    start, created = first_start(target), datetime.fromisoformat(content["created"])
    if start is None:
        raise AnalysisError(f"{target}: no run says when it began, so {file} may be younger")
    if created >= start:
        times = f"{created:%Y-%m-%d %H:%M:%S} UTC, and the first run of {target} began at {start:%Y-%m-%d %H:%M:%S}"
        raise AnalysisError(f"{file}: is no forecast: it was made at {times}")


def check_read(content: Mapping[str, Any], file: Path, folders: Sequence[str]) -> None:
    """Raise AnalysisError for a folder that is not what the forecast was made from."""
    known = {each["hash"] for each in content["read"]}
    for folder in folders:
        if content_hash(Path(folder)) not in known:
            raise AnalysisError(f"{folder}: is not what {file} was made from; its files are others")


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
    console.print(Text(f"{found.pairs} pairs, {found.decided} of them told apart by {name} (p < 0.05)"))
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
