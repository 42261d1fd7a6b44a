"""What there is to choose from: the groups of ``conf/``, their choices in order, and what their files say of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from rlexp.config.conf_folder import CONF

GROUP_LINE = re.compile(r'^  - (\w+): "?(\w+)"?\s+# (.+)$', re.MULTILINE)
KEY_LINE = re.compile(r"^(\w+):(?: +([^#\s][^#]*?))?(?:\s+# (.*))?$")


class Group(NamedTuple):
    """A folder of ``conf/``: the choice that is made unless another is, and what it is about, in a line."""

    default: str
    text: str


class Key(NamedTuple):
    """A key beside the groups: its value unless another is given, and the comment beside it."""

    value: str
    text: str


def config_text() -> str:
    """Return config.yaml as it stands."""
    return (CONF / "config.yaml").read_text(encoding="utf-8")


@cache
def groups() -> dict[str, Group]:
    """Return the groups in the order of config.yaml, which says what each is about."""
    return {name: Group(default, text) for name, default, text in GROUP_LINE.findall(config_text())}


@cache
def keys() -> dict[str, Key]:
    """Return the keys of config.yaml that stand beside the groups, those of a node as ``eval.every``."""
    found: dict[str, Key] = {}
    node = last = ""
    for line in key_lines():
        match = KEY_LINE.match(line.strip())
        if match and not line.startswith("  "):
            node = match[1]
        if match:
            last = node if not line.startswith("  ") else f"{node}.{match[1]}"
            found[last] = Key(match[2] or "", match[3] or "")
        elif line.strip().startswith("#"):
            found[last] = Key(found[last].value, f"{found[last].text} {line.strip('# ')}")
    return found


def key_lines() -> list[str]:
    """Return the lines of config.yaml about the keys beside the groups."""
    text = config_text()
    return text[text.index("\nseed:") + 1 : text.index("\nhydra:")].rstrip().splitlines()


def in_order(names: Iterator[str] | list[str] | set[str]) -> list[str]:
    """Sort names of choices: numbers by their size, before all others."""
    return sorted(names, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))


def choices_of(group: str) -> list[str]:
    """Return the choices of a group; none if there is no such group."""
    return in_order([file.stem for file in (CONF / group).glob("*.yaml")])


def values_of(group: str, choice: str) -> dict[str, Any]:
    """Return what the file of a choice says, over the files that it builds upon; interpolations as they stand there."""
    values = OmegaConf.to_container(OmegaConf.load(CONF / group / f"{choice}.yaml"))
    bases = [base for base in values.get("defaults", []) if isinstance(base, str) and base != "_self_"]
    return {key: value for base in bases for key, value in values_of(group, base).items()} | values


def comment_of(path: Path) -> str:
    """Return the comment at the head of a YAML as one line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return " ".join(line.strip("# ") for line in lines if line.startswith("#") and "@package" not in line)


def groups_with(choice: str) -> list[str]:
    """Return the groups that have a choice of this name."""
    return [group for group in groups() if choice in choices_of(group)]


def choices_with(group: str, key: str) -> list[str]:
    """Return the choices of a group whose files have a key, as ``accuracy`` or ``loss.share``."""
    return [choice for choice in choices_of(group) if has(values_of(group, choice), key.split("."))]


def has(values: Any, path: list[str]) -> bool:
    """Whether nested values hold something at a path."""
    for step in path:
        if not isinstance(values, dict) or step not in values:
            return False
        values = values[step]
    return True
