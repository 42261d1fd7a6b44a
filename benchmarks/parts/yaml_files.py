"""The YAML files of the axes as they stand: their choices, their comments, their lists of defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from rlexp.config.choices import CONF
from rlexp.core.errors import format_value


class Choice(NamedTuple):
    """One YAML of an axis: what its comment says, and its nodes as they stand there, by part."""

    axis: str
    label: str
    comment: str
    nodes: dict[str, SimpleNamespace]

    @property
    def active(self) -> dict[str, SimpleNamespace]:
        """The nodes that do something, or all if none does."""
        return {part: node for part, node in self.nodes.items() if node.name != "none"} or self.nodes


def tree(path: Path) -> dict[str, Any]:
    """Read a YAML as it stands, over those that it builds upon; `${task.cap}` becomes the text `task.cap`."""
    values = OmegaConf.to_container(OmegaConf.load(path))
    entries = [entry for entry in values.pop("defaults", []) if isinstance(entry, str) and entry != "_self_"]
    merged = {name: value for base in entries for name, value in tree(path.with_name(f"{base}.yaml")).items()} | values
    return {
        name: re.sub(r"^\$\{(.*)\}$", r"\1", value) if isinstance(value, str) else value
        for name, value in merged.items()
    }


def comment(path: Path) -> str:
    """Return the comment at the head of a YAML as one line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return " ".join(line.strip("# ") for line in lines if line.startswith("#") and "@package" not in line)


def choice(path: Path) -> Choice:
    """Read one YAML of an axis."""
    axis, values = path.parent.name, tree(path)
    nodes = {axis: values} if "name" in values else {f"{axis}.{place}": node for place, node in values.items()}
    spaces = {part: SimpleNamespace(**node) for part, node in nodes.items()}
    return Choice(axis, path.stem, comment(path), spaces)


def choices(axis: str) -> list[Choice]:
    """Return the choices of an axis."""
    return [choice(path) for path in sorted((CONF / axis).glob("*.yaml"))]


def leaves(values: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the numbers and texts of a tree as they are typed on the command line."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{above}{name}.")
        else:
            yield f"`{above}{name}={format_value(value)}`"


def chosen(path: Path) -> dict[str, str]:
    """Return the choices in the defaults list of a YAML."""
    entries = OmegaConf.to_container(OmegaConf.load(path)).get("defaults", [])
    pairs = [pair for entry in entries if isinstance(entry, dict) for pair in entry.items()]
    return {group.removeprefix("override ").strip("/"): label for group, label in pairs}
