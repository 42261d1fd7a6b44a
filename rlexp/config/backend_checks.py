"""What a backend can have of a config, in one line for each key that it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from rlexp.config.groups import table_at
from rlexp.config.nodes import axis_nodes, chosen_facts, chosen_function
from rlexp.core.registry import requested_names
from rlexp.language.backend import CAPABILITIES, Limit, NoOp
from rlexp.language.made import MODULES


def backend_problems(config: Any) -> Iterator[str]:
    """Say what the backend of a config cannot have."""
    name = config.backend.name
    if name not in CAPABILITIES:
        yield f"backend={name}: nothing says what it can have; must be one of {', '.join(CAPABILITIES)}"
        return
    backend = CAPABILITIES[name]
    if backend.package and find_spec(backend.package) is None:
        yield f"backend={name}: needs the extra {backend.package}: pip install 'rlexp[{backend.package}]'"
    if not backend.batched and config.model.name in MODULES:
        line = MODULES[config.model.name].problem(config.model)
        yield from [line] if line else []
    refused = {limit.key: line for limit in backend.limits if (line := beyond(limit, config))}
    yield from refused.values()
    for key, node, _ in axis_nodes(config):
        missing = sorted(backend.not_offered.keys() & {*requested_names(chosen_function(config, key))})
        if missing and key not in refused:
            yield f"backend={name} {key}={node.name}: asks for {backend.not_offered[missing[0]]}, not there"


def beyond(limit: Limit, config: Any) -> str | None:
    """Return what is said of a config that is beyond a limit; None if it is not."""
    value, allowed = value_at(config, limit.key), limit.allowed
    if limit.when and not value_at(config, limit.when) or limit.unless and value_at(config, limit.unless):
        return None
    if isinstance(allowed, str):
        allowed = table_at(allowed)
    if chosen_facts(config, limit.key).is_noop if allowed is NoOp else value in allowed:
        return None
    names = [] if allowed is NoOp else [*map(str, allowed)]
    choices = " or ".join(f"{limit.key}={each}" for each in names)
    here = f"backend={config.backend.name}"
    return limit.message.format(here=here, key=limit.key, value=value, names=", ".join(names), choices=choices)


def value_at(config: Any, key: str) -> Any:
    """Return what a config has at a key, of a group the name of its choice; None where it has no such key."""
    for part in key.split("."):
        config = getattr(config, part, None)
    return getattr(config, "name", config)
