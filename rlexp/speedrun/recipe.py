"""The worlds, and recipes for them: the overrides of a submission, and what of the world's configuration they change.

A world never changes once it has a record: where a default changes, its old value is to be written here. The changes
are a recipe's meaning, however and in whatever order it is written; what changes nothing is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from rlexp.api import mistakes_as_config_errors
from rlexp.config import parse
from rlexp.config.choices import axis_nodes, chosen_function
from rlexp.config.compose import compose
from rlexp.config.schema import Config
from rlexp.core.errors import ConfigError
from rlexp.core.registry import required_inputs
from rlexp.record.provenance import with_effect
from rlexp.runfolder.variants import WITHOUT_EFFECT, flatten, key_of

# What is learned and how that is judged; who judges; what would bring knowledge that no completion has paid for.
FIXED = ("task", "model", "backend", "start", "reward", "teacher", "eval", "score", "seed", "steps", "log_every")
FIXED += (
    "imitation",
    "device",
    "matmul_precision",
    "compile",
    "study",
    "data.oracle",
    "reference.begin",
    "reference.run",
)

Flat = dict[str, Any]
"""A configuration by dotted keys."""


class World(NamedTuple):
    """What is to be learned: until ``metric``, a key of metrics.jsonl, is at least ``target``."""

    name: str
    overrides: tuple[str, ...]  # they fix it, with the defaults; a recipe comes after them
    metric: str
    target: float
    what: str  # a line for readers
    fixed: tuple[str, ...] = FIXED  # keys that a recipe may not change, with all that is below them


class Recipe(NamedTuple):
    """A recipe for a world."""

    world: World
    overrides: tuple[str, ...]
    changes: Flat  # keys of the world's configuration that have another value, and that value; None where one is gone
    config: Flat  # all that results depend on but the seed
    uncounted: int  # completions a step that are sampled for training beside those of progress/completions


def evaluated(every: int, steps: int) -> tuple[str, ...]:
    """Return the overrides of a run of so many steps that is evaluated every so many, and logged whenever it is."""
    return (f"steps={steps}", f"eval.every={every}", f"log_every={every}", "eval.samples=1", "eval.ks=[1]")


SORT = World(
    "sort",
    ("task=sort", "task.longest=3", "model=transformer", *evaluated(every=5, steps=200)),
    "eval/greedy_accuracy",
    0.95,
    "sort two or three of eight symbols; a small transformer that starts from random weights",
)
BANDIT = World(
    "bandit",
    ("task=bandit", "model=tabular", *evaluated(every=1, steps=200)),
    "eval/exact/accuracy",
    0.7125,
    "a table of logits for 32 questions, 8 of which have no right answer; 0.7125 is .95 of the 0.75 there is",
    (*FIXED, "temperature"),
)
PREFERENCE = World(
    "preference",
    ("task=token_preference", "model=transformer", *evaluated(every=1, steps=25)),
    "eval/sampled_accuracy",
    0.95,
    "write fifteen of a hundred tokens, few of them low; a small transformer that starts from random weights",
    (*FIXED, "temperature"),
)
WORLDS = {world.name: world for world in (SORT, BANDIT, PREFERENCE)}


def text_of(overrides: Sequence[str]) -> str:
    """Return a recipe as a reader sees it: its overrides, or that there are none."""
    return " ".join(overrides) or "the default recipe"


def find_world(name: str) -> World:
    """Return the world of a name; ConfigError for another one."""
    if name not in WORLDS:
        close = get_close_matches(name, WORLDS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(WORLDS)}"
        raise ConfigError([f"{name}: no such world; {hint}"])
    return WORLDS[name]


def read_recipe(world: World, overrides: Sequence[str]) -> Recipe:
    """Check the overrides of a recipe; ConfigError if one cannot be read, changes nothing, or what the world fixes."""
    if problem := next(typed_problems(world, overrides), None):
        raise ConfigError([problem])
    config = composed(world, overrides)
    before, after = complete(composed(world, [])), complete(config)
    unlike = (key for key in sorted(before.keys() | after.keys()) if before.get(key, ...) != after.get(key, ...))
    changes = {key: after.get(key) for key in unlike}
    for key, value in changes.items():
        if is_fixed(world, key):
            raise ConfigError([f"{' '.join(overrides)}: makes {key} {value!r}, which the world {world.name} fixes"])
    for place, override in enumerate(overrides):
        try:
            rest = complete(composed(world, [*overrides[:place], *overrides[place + 1 :]]))
        except ConfigError:  # the rest makes no sense alone
            continue
        if rest == after:
            raise ConfigError([f"{override}: changes nothing of this recipe; leave it out"])
    functions = [chosen_function(config, key) for key, _, _ in axis_nodes(config)]
    asked = {name for function in functions for name in required_inputs(function)}
    of_prompt = {"greedy_rewards": 1, "reference_rewards": config.group_size.completions}  # as norm=remax, norm=a2po
    uncounted = config.group_size.prompts * sum(number for name, number in of_prompt.items() if name in asked)
    return Recipe(world, tuple(overrides), changes, after, uncounted)


def composed(world: World, overrides: Sequence[str]) -> Config:
    """Return the configuration of a recipe; ConfigError for what is no configuration."""
    with mistakes_as_config_errors(overrides):
        parse.check(overrides)
        return compose(*world.overrides, *overrides)


def typed_problems(world: World, overrides: Sequence[str]) -> Iterator[str]:
    """Say which words are no part of a recipe, whatever they would change."""
    for override in overrides:
        key = key_of(override)
        group = re.split("[./]", key)[0]
        if override.startswith("-") or not key or "=" not in override or "@" in key:
            yield f"{override}: a recipe is of overrides, as lr=3e-3"
        elif group == "hydra" or group in WITHOUT_EFFECT:
            yield f"{override}: changes no result, so it is no part of a recipe"
        elif is_fixed(world, key):
            may = f"a recipe may change all but {', '.join(world.fixed)}"
            yield f"{override}: the world {world.name} fixes {key}; {may}"
        elif "${" in override:
            yield f"{override}: a recipe has plain values, the same on every machine and for every seed"


def is_fixed(world: World, key: str) -> bool:
    """Whether a world fixes a dotted key."""
    return any(f"{key}.".startswith(f"{fixed}.") for fixed in world.fixed)


def complete(config: Config) -> Flat:
    """Return all that the results of a configuration depend on, by dotted keys, but the seed."""
    values = dict(flatten(with_effect(config.model_dump(mode="json"))))
    return {key: value for key, value in values.items() if key != "seed"}
