"""What was registered from outside of the package; ``rlexp.register`` writes it down here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlexp.core.memory import Memory


@dataclass(frozen=True)
class Registration:
    """A choice that is not of this package.

    Attributes:
        group, name: where it belongs, and what it is called there.
        function: what is called.
        values: what its YAML would say; empty where it has one.
        memory: what it remembers from step to step.
        source: its text, where it could be read.
    """

    group: str
    name: str
    function: Callable
    values: Mapping[str, Any]
    memory: Memory | None = None
    source: str = ""

    @property
    def choice(self) -> str:
        """What is typed: ``norm=mad``."""
        return f"{self.group.partition('.')[0]}={self.name}"


REGISTERED: dict[str, dict[str, Registration]] = {}  # by config group (or metric, figure) and name
METRICS: dict[str, Callable] = {}  # of an update: what a policy loss may ask for, to a number a replica


def registered() -> list[Registration]:
    """Return everything that was registered, in order."""
    return [each for group in REGISTERED.values() for each in group.values()]
