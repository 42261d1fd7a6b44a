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
from typing import Any

import numpy as np

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.read import read_object, write_text, writing_to
from rlexp.analysis.data.sweep_files import content_hash, first_start
from rlexp.analysis.report.tables import plain
from rlexp.analysis.stats.ablation import Ablation
from rlexp.analysis.stats.answer import Answer, Question
from rlexp.analysis.stats.decision import arm_ranks
from rlexp.analysis.stats.forecast import COPY, FORECAST, Prediction, predict
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
