"""What the configuration says of stored runs: task, start, weights, and what differs from the default run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

import yaml

from rlexp.config.compose import plain
from rlexp.config.schema import read
from rlexp.question.composition import composed_once
from rlexp.runfolder.variants import flatten, parse_override
from rlexp.sweep.build import policy_shape, weights_of

ANY_KEY = {"preset", "study"}  # groups whose choices may say anything
DECIDES = ANY_KEY | {"task", "model", "start", "backend"}  # roots of the keys that say task, model and start
LEFT_OUT = {"study", "seed", "logger", "threads", "resume"}  # roots of keys that say nothing of what is trained


class World(NamedTuple):
    """What runs are trained on."""

    task: str
    start: str
    """With its accuracy where it has one: `mixture 0.2`."""
    weights: int | None
    """None where the model is a folder of its own."""


class Composed(NamedTuple):
    """What Hydra makes of overrides: the settings, and what a study among them varies."""

    settings: dict[str, Any]
    swept: Mapping[str, str]


@cache
def of(overrides: tuple[str, ...]) -> Composed:
    """Return the settings of overrides, and the keys that a study among them varies with their values as written."""
    found = composed_once(overrides)
    parameters = found.hydra.sweeper.get("params") or {}
    return Composed(plain(found), {str(key): str(value) for key, value in parameters.items()})


def study_of(overrides: tuple[str, ...]) -> Mapping[str, Any]:
    """Return what a study among the overrides declares: its question, what it tunes, what it compares apart."""
    return of(overrides).settings["study"]


def score_metric(overrides: tuple[str, ...]) -> str:
    """Return the metric by which runs with these overrides are scored."""
    return of(overrides).settings["score"]["metric"]


def changed(overrides: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings in which runs differ from the default run, as `{"lr": 0.02}`."""
    default, own = (dict(flatten(of(each).settings)) for each in ((), overrides))
    return {
        key: value for key, value in own.items() if key.partition(".")[0] not in LEFT_OUT and default.get(key) != value
    }


def world(shared: tuple[str, ...], further: Iterable[str]) -> World:
    """Return the world of runs.

    Args:
        shared: what all runs of a study share.
        further: overrides of a condition and an arm.
    """
    pairs = {key: value for key, value in map(parse_override, further) if key.partition(".")[0] in DECIDES}
    values = {key: value for key, value in pairs.items() if "." in key and not value.startswith(("{", "["))}
    composed_anew = tuple(f"{key}={value}" for key, value in pairs.items() if key not in values)
    return _world(shared + composed_anew, tuple(values.items()))


@cache
def _world(overrides: tuple[str, ...], values: Sequence[tuple[str, str]]) -> World:
    settings = deepcopy(of(overrides).settings)
    for key, value in values:
        place = settings
        *path, last = key.split(".")
        for name in path:
            place = place[name]
        place[last] = yaml.safe_load(value)
    start, accuracy = settings["start"]["name"], settings["start"].get("accuracy")
    named = f"{start} {accuracy:g}" if isinstance(accuracy, int | float) else start
    weights = None if settings["model"].get("path") else _weights(json.dumps(settings))
    return World(settings["task"]["name"], named, weights)


@cache
def _weights(settings: str) -> int:
    own = {**json.loads(settings), "backend": of(()).settings["backend"]}  # another backend may need an extra
    return weights_of(policy_shape(read(own)))
