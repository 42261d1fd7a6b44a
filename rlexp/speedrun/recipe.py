"""A recipe: the overrides of a submission, and what of the world's configuration they change.

    read_recipe(WORLDS["sort"], ["lr=3e-3", "filter=dynamic"]).changes
    {"filter.refill.name": "zero_variance", "filter.refill.rounds": 10, "lr": 0.003}

The changes are the recipe's meaning, however and in whatever order it is written. What changes nothing is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rlexp.api import mistakes_as_config_errors
from rlexp.config import typed
from rlexp.config.compose import compose
from rlexp.config.nodes import axis_nodes, chosen_function
from rlexp.config.schema import Config
from rlexp.core.errors import ConfigError
from rlexp.core.registry import requested_names
from rlexp.record.disk.identity import leaves, with_effect
from rlexp.record.naming import WITHOUT_EFFECT, key_of
from rlexp.speedrun.worlds import World

# What is learned and how that is judged; who judges; what would bring knowledge that no completion has paid for.
FIXED = ("task", "model", "backend", "start", "reward", "teacher", "eval", "score", "seed", "steps", "log_every")
FIXED += ("device", "matmul_precision", "compile", "study", "data.oracle", "reference.begin", "reference.run")

Leaves = dict[str, Any]


class Recipe(NamedTuple):
    """A recipe for a world."""

    world: World
    overrides: tuple[str, ...]
    """As they were written."""
    changes: Leaves
    """The keys of the world's configuration that have another value, and that value; None where one is gone."""
    config: Leaves
    """All that results depend on but the seed, by dotted keys."""
    uncounted: int
    """Completions a step that are sampled for training beside those of ``progress/completions``."""

    @property
    def text(self) -> str:
        """What a reader sees: the overrides, or that there are none."""
        return " ".join(self.overrides) or "the default recipe"


def read_recipe(world: World, overrides: Sequence[str]) -> Recipe:
    """Check the overrides of a recipe; ConfigError if one cannot be read, changes nothing, or what the world fixes."""
    if problems := list(typed_problems(world, overrides)):
        raise ConfigError(problems[:1])
    with mistakes_as_config_errors(overrides):
        typed.check(overrides)
        plain = compose(*world.overrides)
        config = compose(*world.overrides, *overrides)
    before, after = complete(plain), complete(config)
    changes = changed(before, after)
    for key in changes:
        if is_fixed(world, key):
            value = changes[key]
            raise ConfigError([f"{' '.join(overrides)}: makes {key} {value!r}, which the world {world.name} fixes"])
    for place, override in enumerate(overrides):
        if is_idle(world, [*overrides[:place], *overrides[place + 1 :]], after):
            raise ConfigError([f"{override}: changes nothing of this recipe; leave it out"])
    return Recipe(world, tuple(overrides), changes, after, uncounted(config))


def is_idle(world: World, rest: Sequence[str], after: Leaves) -> bool:
    """Whether the rest of a recipe gives the same configuration."""
    try:
        with mistakes_as_config_errors(rest):
            return complete(compose(*world.overrides, *rest)) == after
    except ConfigError:  # the rest makes no sense alone
        return False


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
            may = f"a recipe may change all but {', '.join(all_fixed(world))}"
            yield f"{override}: the world {world.name} fixes {key}; {may}"
        elif "${" in override:
            yield f"{override}: a recipe has plain values, the same on every machine and for every seed"


def all_fixed(world: World) -> tuple[str, ...]:
    """Return the keys that a recipe for a world may not change; with each, all that is below it."""
    return FIXED + world.fixed


def is_fixed(world: World, key: str) -> bool:
    """Whether a world fixes a dotted key."""
    return any(key == fixed or key.startswith(f"{fixed}.") for fixed in all_fixed(world))


def complete(config: Config) -> Leaves:
    """Return all that the results of a configuration depend on, by dotted keys, but the seed."""
    values = dict(leaves(with_effect(config.model_dump(mode="json"))))
    values.pop("seed")
    return values


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Leaves:
    """Return the values that are others after than before, in the order of their keys; None for those that are gone."""
    keys = sorted(before.keys() | after.keys())
    return {key: after.get(key) for key in keys if (key in before, before.get(key)) != (key in after, after.get(key))}


def uncounted(config: Config) -> int:
    """Return how many completions a step a choice asks for that ``progress/completions`` does not count.

    These are the greedy completions of ``norm=remax``, one a prompt.
    """
    asking = (chosen_function(config, key) for key, _, _ in axis_nodes(config))
    return config.group_size.prompts * any("greedy_rewards" in requested_names(function) for function in asking)
