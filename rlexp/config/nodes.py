"""The nodes of a config that choose a function of an axis, and what stands beside these functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from rlexp.axes import AXES, Axis
from rlexp.core.facts import Facts, facts_of


def axis_nodes(config: Any) -> Iterator[tuple[str, Any, Axis]]:
    """Yield the nodes that choose a function of an axis, each with its key and its axis."""
    yield from ((key, attrgetter(key)(config), axis) for key, axis in AXES.items())


def chosen_function(config: Any, key: str) -> Callable:
    """Return the function, without its hyperparameters, that the node at a key as ``filter.loss`` chooses."""
    return AXES[key].functions[attrgetter(key)(config).name]


def chosen_facts(config: Any, key: str) -> Facts:
    """Return the facts beside the function that the node at a key chooses."""
    return facts_of(chosen_function(config, key), AXES[key].facts)
