"""A kept answer as a card needs it: words, effects in natural units, arms over their grids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.parts.common import ROOT
from benchmarks.stored.folders import answer_folders
from benchmarks.stored.world import ANY_KEY, of
from rlexp.analysis.report.kept_files import CURVE_COLUMNS
from rlexp.analysis.stats.endpoints import parse_endpoint
from rlexp.analysis.stats.rates import RateGrid, edge, rate_grid
from rlexp.analysis.stats.scales import Scale
from rlexp.analysis.stats.words import CANNOT, EQUIVALENT, NOT_INFERIOR, OPEN
from rlexp.question.declare import first_runs

STAYS = 0.8
"""A word that fewer redraws repeat is said to lean."""
DOCS = ROOT / "docs"
LANGUAGE_MODEL = "language model"
SAME_BATCH = 0.5
"""Seconds by which the times of runs that were trained as one batch differ at most."""


class Asked:
    """A question with its kept answer."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
        self.package = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
        question = json.loads((folder / "question.json").read_text(encoding="utf-8"))
        self.declared: Mapping[str, Any] = question["declared"]
        self.hash = question["hash"]
        self.declared_at = datetime.fromisoformat(question["declared_at"])
        began = self.package["question"].get("first_run")
        self.began = datetime.fromisoformat(began) if began else self.declared_at
        """When the first run began; where that is not kept, what no run is older than."""

    @cached_property
    def runs(self) -> pd.DataFrame:
        return pd.read_parquet(self.folder / "runs.parquet")

    @cached_property
    def curves(self) -> pd.DataFrame:
        return pd.read_parquet(self.folder / "curves.parquet")

    @property
    def assertions(self) -> list[dict[str, Any]]:
        return self.answer["assertions"]

    @property
    def tuned(self) -> str | None:
        return (self.declared["tune"] or {}).get("key")

    @property
    def metrics(self) -> list[str]:
        """The metrics that have curves."""
        return [name for name in self.curves if name not in CURVE_COLUMNS]

    @property
    def conditions(self) -> list[str]:
        """The names of conditions in which arms are judged."""
        judged = {*self.runs.loc[self.runs["best"], "condition"]}
        return [name for name in self.package["scales"] if name in judged]

    @property
    def arms(self) -> list[str]:
        """The arms of all assertions; first what the first one compares with."""
        return list(dict.fromkeys(arm for each in self.assertions for arm in sides(each)[::-1]))

    def scale(self, condition: str, place: int) -> tuple[Scale, int]:
        """Return a scale with its sign: of the question's number (0), or of an assertion's (from 1)."""
        found = self.package["scales"][condition][place]
        return Scale(found["name"], found["count"], found["attainable"]), found["sign"]

    def smallest(self, condition: str) -> float:
        """Return the smallest effect that counts of the question's number."""
        return self.declared["smallest"] or self.scale(condition, 0)[0].smallest

    def grid(self, condition: str, arm: str) -> RateGrid:
        """Return an arm over its grid by the question's number; without a tuned key it has one value."""
        rows = self.runs[(self.runs["condition"] == condition) & (self.runs["arm"] == arm)]
        rows = rows.assign(point=rows[self.tuned] if self.tuned else 1.0)
        table = rows.pivot(index="point", columns="seed", values="on_scale")
        return rate_grid(table.index.to_numpy(float), table.to_numpy(float))

    def ends(self, condition: str) -> list[str]:
        """Return the arms of assertions that are best at an end of their grid where the curve still rises."""
        grids = {arm: self.grid(condition, arm) for arm in self.arms}
        return [arm for arm, grid in grids.items() if len(grid.rates) > 1 and edge(grid, self.smallest(condition)).side]

    def show(self, place: int, numbers: Mapping[str, float], condition: str | None = None) -> str:
        """Return `effect, low, high` of an assertion (from 0) at `level` in natural units."""
        scale, _ = self.scale(condition or self.conditions[0], place + 1)
        return scale.show(*(numbers[key] for key in ("effect", "low", "high", "level")))

    def number(self, place: int) -> str:
        """Return what an assertion is about: `eval/greedy_accuracy`, `updates to eval/exact/accuracy ≥ 0.5`."""
        return parse_endpoint(self.assertions[place]["endpoint"]).label(self.package["assertions"][place]["metric"])

    @property
    def tier(self) -> str:
        """`world`, `small` or `language model`, by the backend and the model that its runs have."""
        return tier(self.declared["with"], [each["levels"] for each in self.declared["conditions"]])

    @cached_property
    def core_seconds(self) -> float:
        """What training took, over the steps of the runs trained to begin with.

        Runs that were trained as one batch took the same time together. Runs of grids that grew are in the time alone.
        """
        times = np.sort(self.runs.drop_duplicates("folder")["wall_time_s"].dropna().to_numpy(float))
        ends = np.append(np.diff(times) > SAME_BATCH, True) if self.tier != LANGUAGE_MODEL else slice(None)
        return float(times[ends].sum() / (first_runs(self.declared) * steps_of(self.declared)))


def tier(shared: Sequence[str], levels: Iterable[Mapping[str, str]]) -> str:
    """Return the tier of runs, by what they share and by the levels of their conditions."""
    settings = composed_of(shared, "backend", "model")
    chosen = {key: settings[key]["name"] for key in ("backend", "model")}
    for condition in levels:
        chosen |= {key: value for key, value in condition.items() if key in chosen}
    return LANGUAGE_MODEL if chosen["backend"] == "trl" else "world" if chosen["model"] == "tabular" else "small"


def composed_of(overrides: Iterable[str], *roots: str) -> dict[str, Any]:
    """Return the settings below some roots; few overrides say anything about them, so few are composed."""
    said = (each for each in overrides if each.partition("=")[0].partition(".")[0] in {*roots, *ANY_KEY})
    return of(tuple(said)).settings


def steps_of(declared: Mapping[str, Any]) -> float:
    """Return how many steps a run of a declared question has, on average over conditions; arms may change it again."""
    unit, _, amount = (declared["budget"] or "").partition("=")
    if unit == "steps":
        return float(amount)
    each = [
        composed_of((*declared["with"], *condition["overrides"]), "steps", "group_size")
        for condition in declared["conditions"]
    ]
    if unit == "completions":
        groups = [one["group_size"] for one in each]
        return float(np.mean([int(amount) / (group["completions"] * group["prompts"]) for group in groups]))
    return float(np.mean([one["steps"] for one in each]))


def asked(docs: Path = DOCS) -> dict[str, Asked]:
    """Return all answers that are kept with their scales and curves, by the names of the questions."""
    return {
        name: Asked(name, folder)
        for name, folder in answer_folders(docs).items()
        if (folder / "datapackage.json").is_file()
    }


def labelled(overrides: list[str], budget: str | None) -> str:
    """Return an arm as tables name it."""
    return ("+".join(overrides) or "default") + (f" at {budget}" if budget else "")


def sides(assertion: Mapping[str, Any]) -> tuple[str, str]:
    """Return the arm of an assertion, and what it is compared with."""
    arm, versus = (labelled(assertion[side], assertion["budget"]) for side in ("arm", "versus"))
    return arm, versus


def stays(assertion: Mapping[str, Any]) -> float:
    """Return the share of redraws that say the word again; NaN where nothing was pooled."""
    return assertion["stability"].get(assertion["word"], 0.0) if assertion["stability"] else np.nan


def headline(assertion: Mapping[str, Any]) -> str:
    """Return the word, or to which one it leans where fewer than STAYS of the redraws repeat it."""
    word, leaning = assertion["word"], assertion["leaning"]
    if not leaning and not stays(assertion) < STAYS:
        return word
    if word == OPEN:
        leaning = leaning or next(other for other in assertion["stability"] if other != OPEN)
        return f"open, leaning {leaning}"
    return f"leaning {word}"


def depends(assertion: Mapping[str, Any]) -> str:
    """Return `depends on` and the moderators with which the effect is shown to change; nothing where none is."""
    found = [f"`{moderator['name']}`" for moderator in assertion["moderators"] if moderator["depends"]]
    return f"depends on {' and '.join(found)}" if found else ""


def sign(assertion: Mapping[str, Any]) -> str:
    """Return what is claimed between two arms: `>`, `<`, `≈` (the same), `≥` (not worse)."""
    same = {EQUIVALENT: "≈", NOT_INFERIOR: "≥"}.get(assertion["kind"])
    return same or {"higher": ">", "lower": "<"}[assertion["direction"]]


def effect(one: Asked, place: int) -> str:
    """Return the pooled effect of an assertion: `×0.9 [0.8, 1.1] at 80`."""
    assertion = one.assertions[place]
    if assertion["word"] == CANNOT:
        return f"{len(assertion['dropped'])} of {len(assertion['conditions'])} settings are not valid"
    return one.show(place, assertion)


def settings(one: Asked, place: int) -> str:
    """Return `6 × 8 seeds`, or `5 of 6 × 8 to 20 starts`."""
    conditions = one.assertions[place]["conditions"]
    valid = [each for each in conditions if not each["fails"]]
    counts = sorted({each["n"] for each in valid or conditions})
    of = f" of {len(conditions)}" if len(valid) < len(conditions) else ""
    unit = "starts" if one.declared.get("starts") else "seeds"
    return f"{len(valid)}{of} × {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} {unit}"
