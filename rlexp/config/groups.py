"""The config groups: the axes, and what is chosen beside them; light, so that help and hints come at once.

Also the nodes of a config that choose a function of an axis, and what stands beside these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from rlexp.axes import AXES, Axis
from rlexp.core.facts import Facts, facts_of
from rlexp.core.numbers import FiniteNonNegative, PositiveInt


class Group(NamedTuple):
    """A folder of ``conf/``: what it is about, in a line, and the tables (``module:name``) of what its files name."""

    text: str
    tables: tuple[str, ...] = ()


GROUPS = {
    "task": Group("what is to be learned: prompts and a verifier", ("rlexp.tasks:TASKS", "rlexp.language:TEXT_TASKS")),
    "model": Group("the policy", ("rlexp.models:MODELS", "rlexp.language:LANGUAGE_MODELS")),
    "backend": Group(
        "who trains: this loop, many small policies at once, or TRL, one language model a run",
        ("rlexp.language:BACKENDS",),
    ),
    "group_size": Group("completions a prompt, and prompts a step"),
    "start": Group("the weights before the first step", ("rlexp.loop.start:STARTS",)),
    "data": Group("whose completions: the policy's as it is, or older ones", ("rlexp.loop.data:DATA",)),
    "critic": Group(
        "a network that learns what is still to come, for norms that ask for its values", ("rlexp.loop.critic:CRITICS",)
    ),
    "logger": Group("where metrics are mirrored", ("rlexp.record.loggers:LOGGERS",)),
    "filter": Group("which completions and tokens count, and which groups are sampled anew"),
    "preset": Group("a recipe: its choices replace those above, the command line replaces its"),
    "study": Group("a named sweep with a question and what is expected of it"),
}
RECIPES = ("preset", "study")  # groups whose choices are differences on other groups
GROUPS |= {key: Group(axis.text) for key, axis in AXES.items() if not axis.place}

# Settings that every choice of an axis has beside its hyperparameters: type, and value for a registered function.
SETTINGS = {
    "filter.refill": {"rounds": (PositiveInt, 10)},
    "teacher": {"run": (str | None, None)},
    "kl": {"coef": (FiniteNonNegative, 0.04), "place": (Literal["loss", "reward"], "loss")},
    "reference": {"begin": (Literal["start", "random", "halfway", "run"], "start"), "run": (str | None, None)},
    "reward": {"model": (dict | None, None)},
}


def table_at(place: str) -> dict[str, Callable]:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def functions_of(group: str) -> dict[str, dict[str, Callable]]:
    """Return what the files of a group name, by the place below it; to import it takes seconds."""
    parts = {axis.place: axis.functions for axis in AXES.values() if axis.group == group}
    if not parts and group in GROUPS and GROUPS[group].tables:
        parts[""] = {name: each for table in GROUPS[group].tables for name, each in table_at(table).items()}
    return parts


def axis_nodes(config: Any) -> Iterator[tuple[str, Any, Axis]]:
    """Yield the nodes that choose a function of an axis, each with its key and its axis."""
    yield from ((key, attrgetter(key)(config), axis) for key, axis in AXES.items())


def chosen_function(config: Any, key: str) -> Callable:
    """Return the function, without its hyperparameters, that the node at a key as ``filter.loss`` chooses."""
    return AXES[key].functions[attrgetter(key)(config).name]


def chosen_facts(config: Any, key: str) -> Facts:
    """Return the facts beside the function that the node at a key chooses."""
    return facts_of(chosen_function(config, key), AXES[key].facts)
