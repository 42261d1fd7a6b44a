"""The nodes of a config that choose a function of an axis, and what stands beside these functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from types import ModuleType
from typing import Any

from rlexp.axes import AXES
from rlexp.core.facts import Facts, facts_of


def axis_nodes(config: Any) -> Iterator[tuple[str, Any, ModuleType]]:
    """Yield the nodes that choose a function of an axis, each with its key and the module of the axis."""
    for axis, module in AXES.items():
        node = getattr(config, axis)
        keys = [axis] if hasattr(node, "name") else [f"{axis}.{place}" for place in type(node).model_fields]
        yield from ((key, attrgetter(key)(config), module) for key in keys)


def chosen_function(config: Any, key: str) -> Callable:
    """Return the function, without its knobs, that the node at a key as ``filter.loss`` chooses."""
    return AXES[key.partition(".")[0]].FUNCTIONS[attrgetter(key)(config).name]


def chosen_facts(config: Any, key: str) -> Facts:
    """Return the facts beside the function that the node at a key chooses."""
    return facts_of(chosen_function(config, key))


def declared(config: Any, kind: str) -> Iterator[str]:
    """Yield the ``problems`` or the ``remarks`` that are declared beside the functions that a config chooses."""
    for key, node, _ in axis_nodes(config):
        for check in getattr(chosen_facts(config, key), kind):
            yield from check(key, node, config)
