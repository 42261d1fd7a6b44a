"""The rungs of successive halving: how long each is, which points go on, and what is written down of it.

Karnin, Koren and Somekh 2013; Jamieson and Talwalkar 2016 (arXiv 1502.07943). Rules and names are those of
scikit-learn's ``HalvingGridSearchCV``, but that the last rung has all of the resource.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rlexp.launch.search import NAME
from rlexp.runfolder.files import RUNGS_FILE, read_json
from rlexp.runfolder.variants import key_of, number, varying_keys

WORST = -math.inf  # the score of a point of which a run diverged


@dataclass(frozen=True)
class Grid:
    """The points that are halved, and the seeds that they are trained over."""

    points: list[list[str]]
    """Overrides of each point, without the seed."""
    seeds: list[str]
    tuned: tuple[str, ...] = ()
    """Keys that are halved within each arm, which the others make; none for all points together."""

    @cached_property
    def varying(self) -> list[str]:
        """The keys in which points differ."""
        return varying_keys({str(place): point for place, point in enumerate(self.points)})

    def own(self, place: int) -> list[str]:
        """Return the overrides that tell a point apart."""
        return [each for each in self.points[place] if key_of(each) in self.varying]

    def arm(self, place: int) -> str:
        """Return the name of the arm that a point is of; "" where nothing is tuned."""
        return ",".join(each for each in self.own(place) if key_of(each) not in self.tuned) if self.tuned else ""

    def by_arm(self, places: Sequence[int]) -> list[list[int]]:
        """Return the places of points, those of each arm together."""
        arms: dict[str, list[int]] = {}
        for place in places:
            arms.setdefault(self.arm(place), []).append(place)
        return [*arms.values()]


class Rung(NamedTuple):
    """One round of training."""

    share: float
    """Of the last rung's resource."""
    seeds: list[str]
    """That are trained in it."""


def shares(points: int, most: int, factor: int, least: int = 1) -> list[float]:
    """Return the resource of each rung, as a share of the last one's: 1/9, 1/3, 1.

    Args:
        points: that are halved together.
        most: of the resource, in the last rung.
        factor: one point in so many goes on, with so many times as much.
        least: of the resource, in the first rung.

    Returns:
        As many as leave fewer than ``factor`` points for the last rung, if the resource suffices.
    """
    rungs = 1
    while points >= factor**rungs and most >= least * factor**rungs:
        rungs += 1
    return [float(factor) ** -place for place in reversed(range(rungs))]


def rungs_of(share: Sequence[float], seeds: Sequence[str], resource: str) -> list[Rung]:
    """Return what each rung trains: where seeds are the resource, those that the rungs before it have not."""
    if resource != "seed":
        return [Rung(each, list(seeds)) for each in share]
    ends = [0, *(round(each * len(seeds)) for each in share)]
    return [Rung(each, list(seeds[start:end])) for each, (start, end) in zip(share, pairwise(ends), strict=True)]


def best_places(means: Sequence[float], factor: int) -> list[int]:
    """Return the places of the best 1/``factor`` of some means, in order; of equal ones the first, none that is WORST.

    The number is rounded up.
    """
    order = sorted(range(len(means)), key=lambda place: -means[place])
    return sorted(place for place in order[: math.ceil(len(means) / factor)] if means[place] > WORST)


def survivors(grid: Grid, means: Mapping[int, float], factor: int) -> list[int]:
    """Return the places of the points that go on: the best of each arm, by the mean of each point."""
    kept = [arm[best] for arm in grid.by_arm([*means]) for best in best_places([means[each] for each in arm], factor)]
    return sorted(kept)


def print_rungs(folder: Path) -> None:
    """Print what each rung of a halving kept, and what it cost."""
    from rlexp.analysis.report.tables import Terminal, TextTable, print_table  # takes longer than the rest of a start

    written = read_json(folder / RUNGS_FILE)
    rungs, resource, of = written["rungs"], written["declared"]["resource"], written["of"]
    rows = [row for place, rung in enumerate(rungs, 1) for row in rung_rows(place, rung, place == of)]
    headers = ["rung", "arm", "seeds" if resource == "seed" else resource, "points", "kept", "best", "mean"]
    shown = [place for place, header in enumerate(headers) if header != "arm" or written["declared"]["tune"]]
    print_table(
        TextTable([headers[each] for each in shown], [[row[each] for each in shown] for row in rows]), Terminal()
    )
    every = sum(len(rung["seeds"]) for rung in rungs)
    costs = [len(rung["seeds"]) / every if resource == "seed" else rung["share"] for rung in rungs]
    spent = sum(len(rung["points"]) * cost for rung, cost in zip(rungs, costs, strict=True))
    print(f"trained {spent / len(rungs[0]['points']):.0%} of what all points would have taken")


def rung_rows(number: int, rung: Mapping[str, Any], last: bool) -> Iterator[list[str]]:
    """Yield a row for each arm of a rung."""
    for arm in dict.fromkeys(point["arm"] for point in rung["points"]):
        points = [point for point in rung["points"] if point["arm"] == arm]
        best = max(points, key=lambda point: WORST if point["mean"] is None else point["mean"])
        own = ",".join(each for each in best["overrides"] if each not in arm.split(","))
        kept = "" if last else str(sum(point["kept"] for point in points))
        mean = "diverged" if best["mean"] is None else f"{best['mean']:.3f}"
        yield [str(number), arm, rung["amount"], str(len(points)), kept, own, mean]


def write_study(storage: Path, grid: Grid, content: Mapping[str, Any]) -> None:
    """Write a finished halving as Optuna's study: a trial a point, a step a rung; those that were left are pruned."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    storage.unlink(missing_ok=True)
    study = optuna.create_study(storage=f"sqlite:///{storage.absolute()}", study_name=NAME, direction="maximize")
    study.set_user_attr("search", content["declared"])
    distributions = {key: distribution([value_of(point, key) for point in grid.points]) for key in grid.varying}
    for place, point in enumerate(grid.points):
        own = grid.own(place)
        means = [each["mean"] for rung in content["rungs"] for each in rung["points"] if each["overrides"] == own]
        ended = len(means) == content["of"] and means[-1] is not None
        study.add_trial(
            optuna.trial.create_trial(
                params={key: value_of(point, key) for key in grid.varying},
                distributions=distributions,
                intermediate_values={rung: mean for rung, mean in enumerate(means, 1) if mean is not None},
                value=means[-1] if ended else None,
                state=optuna.trial.TrialState.COMPLETE if ended else optuna.trial.TrialState.PRUNED,
                user_attrs={"overrides": point},
            )
        )


def value_of(point: Sequence[str], key: str) -> float | str:
    """Return the value of a point's key, as a number if it is one."""
    value = next((each.partition("=")[2] for each in point if key_of(each) == key), "")
    return value if number(value) is None else number(value)


def distribution(values: Sequence[float | str]) -> Any:
    """Return Optuna's distribution that has these values: of numbers, or of choices."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if any(isinstance(value, str) for value in values):
        return CategoricalDistribution(list(dict.fromkeys(values)))
    return FloatDistribution(min(values), max(values), log=min(values) > 0)
