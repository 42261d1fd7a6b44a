"""What a choice is in another framework, and what a whole configuration becomes there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from rlexp.axes import AXES
from rlexp.config.schema import Config

# The axes in the order of the data flow, and what frameworks have beside them.
BEFORE = {"norm": ("critic",)}
PARTS = (*(part for key in AXES for part in (*BEFORE.get(key, ()), key)), "start", "data")
OF_THE_PENALTY = {"kl_control", "reference"}  # without a penalty they change nothing

Note = Callable[[Any, Config], str]  # what differs, given the node of the choice and the whole config; empty if nothing


@dataclass(frozen=True)
class Rule:
    """Settings by name, each a value or a function of node and config; what differs all the same.

    ``implies`` names parts that these settings decide too, each with the functions that they decide for. A rule without
    settings is of a choice that the framework makes anyway.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[Note] = ()
    implies: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Framework(NamedTuple):
    """A framework by name and version, and how its settings are written.

    The table gives for each part of a configuration and each function of it a rule, or a text that says why not.
    """

    name: str
    table: Mapping[str, Mapping[str, Rule | str]]
    run: Rule  # the settings of every run
    write: Callable[[Mapping[str, Any]], str]


class Exported(NamedTuple):
    """Settings by name, sentences about what differs there, and sentences about what cannot be said there."""

    settings: dict[str, Any]
    differs: list[str]
    missing: list[str]

    def add(self, label: str, rule: Rule, node: Any, config: Config) -> None:
        """Add what a rule says about a node."""
        for name, value in rule.settings.items():
            value = value(node, config) if callable(value) else value
            if (taken := self.settings.setdefault(name, value)) != value:
                self.missing.append(f"{label}{name} should be {value}, and is {taken} for something else")
        self.differs.extend(label + text for note in rule.notes if (text := note(node, config)))


def parts(config: Config) -> dict[str, Any]:
    """Return the nodes of a configuration that tables are about, in the order of the data flow."""
    return {part: attrgetter(part)(config) for part in PARTS}


def kind(part: str, node: Any) -> str:
    """Return the name of the choice in a table; a penalty is another one in the loss than in the reward."""
    return f"{node.name} in the {node.place}" if part == "kl" and node.name != "none" else node.name


def export(config: Config, framework: Framework) -> Exported:
    """Return what a configuration is in a framework."""
    left_out = OF_THE_PENALTY if config.kl.name == "none" else ()
    chosen = {part: (node, kind(part, node)) for part, node in parts(config).items() if part not in left_out}
    rules = {part: framework.table.get(part, {}).get(name, "has no counterpart") for part, (_, name) in chosen.items()}
    found = [(part, rule) for part, rule in rules.items() if isinstance(rule, Rule)]
    implied = {other: (part, names) for part, rule in found for other, names in rule.implies.items()}
    result = Exported({}, [], [])
    result.add("", framework.run, config, config)
    for part, rule in rules.items():
        node, name = chosen[part]
        by, names = implied.get(part, ("", ()))
        if isinstance(rule, str) and name not in names:
            result.missing.append(f"{part}={name}: {rule}")
        elif not by:
            result.add(f"{part}={name}: ", rule, node, config)
        elif name not in names:
            result.missing.append(f"{part}={name}: {by}={chosen[by][1]} comes with {part}={names[0]}")
    return result


def text(overrides: Sequence[str], config: Config, framework: Framework) -> str:
    """Return the export as text: comments, then what can be pasted."""
    settings, differs, missing = export(config, framework)
    lines = [f"# {' '.join(overrides) or 'the default configuration'} as {framework.name}"]
    if missing:
        lines.append("# cannot be expressed, what the framework does by default holds instead:")
        lines += [f"#   {sentence}" for sentence in missing]
    if differs:
        lines += ["# differs:", *(f"#   {sentence}" for sentence in differs)]
    return "\n".join([*lines, framework.write(settings)])
