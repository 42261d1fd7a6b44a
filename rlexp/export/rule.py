"""What a choice is in another framework, and what a whole configuration becomes there.

A table gives for each part of a configuration and each function of it a ``Rule``, or a text that says why not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from rlexp.config.schema import Config
from rlexp.core.errors import format_value

PARTS = (
    "reward",
    "shaping",
    "filter.refill",
    "filter.loss",
    "filter.statistics",
    "critic",
    "norm",
    "teacher",
    "clip",
    "agg",
    "kl",
    "kl_control",
    "reference",
    "entropy_control",
    "sampler",
    "mismatch",
    "optimizer",
    "start",
    "data",
)
OF_THE_PENALTY = {"kl_control", "reference"}  # without a penalty they change nothing

Note = Callable[[Any, Config], str]  # what differs, given the node of the choice and the whole config; empty if nothing
Value = Callable[[Any, Config], Any]


@dataclass(frozen=True)
class Rule:
    """Settings by name, each a value or a function of node and config; what differs all the same.

    ``implies`` names parts that these settings decide too, each with the functions that they decide for.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str | Note] = ()
    implies: Mapping[str, Sequence[str]] = field(default_factory=dict)


Table = Mapping[str, Mapping[str, Rule | str]]
NOTHING = Rule()  # the choice is what the framework does anyway


class Framework(NamedTuple):
    """A framework by name and version: its table, the settings of every run, and how settings are written."""

    name: str
    table: Table
    run: Rule
    write: Callable[[Mapping[str, Any]], str]


class Exported(NamedTuple):
    """Settings by name, sentences about what differs there, and sentences about what cannot be said there."""

    settings: dict[str, Any]
    differs: list[str]
    missing: list[str]


def knob(name: str, change: Callable[[Any], Any] = lambda value: value) -> Value:
    """Return the value of a knob, changed."""
    return lambda node, config: change(attrgetter(name)(node))


def when(condition: Callable[[Any, Config], bool], text: str) -> Note:
    """Return a note for those configurations that it concerns."""
    return lambda node, config: text if condition(node, config) else ""


def updates(config: Config) -> int:
    """Return the number of optimizer updates on each rollout."""
    return config.inner_steps * config.minibatches


def off_policy(text: str) -> Note:
    """Return a note that does not concern runs with one update on each rollout, where every ratio is 1."""
    return when(lambda node, config: updates(config) > 1, text)


def kl_in_reward(text: str) -> Note:
    """Return a note about runs with KL in the reward."""
    return when(lambda node, config: config.kl.name != "none" and config.kl.place == "reward", text)


def fixed(**values: float | int) -> list[Note]:
    """Return notes about knobs that the framework has as constants."""
    return [partial(constant, name=name, value=value) for name, value in values.items()]


def constant(node: Any, config: Config, *, name: str, value: float | int) -> str:
    """Say that a knob is a constant there, if it is another one than here."""
    here = getattr(node, name)
    return "" if here == value else f"{name} is {format_value(here)} here and always {format_value(value)} there"


def parts(config: Config) -> dict[str, Any]:
    """Return the nodes of a configuration that tables are about, in the order of the data flow."""
    return {part: attrgetter(part)(config) for part in PARTS}


def kind(part: str, node: Any) -> str:
    """Return the name of the choice in a table; a penalty is another one in the loss than in the reward."""
    return f"{node.name} in the {node.place}" if part == "kl" and node.name != "none" else node.name


def export(config: Config, framework: Framework) -> Exported:
    """Return what a configuration is in a framework."""
    result = Exported({}, [], [])
    chosen = {part: (node, kind(part, node)) for part, node in parts(config).items()}
    if config.kl.name == "none":
        chosen = {part: each for part, each in chosen.items() if part not in OF_THE_PENALTY}
    rules = {part: framework.table.get(part, {}).get(name, "has no counterpart") for part, (_, name) in chosen.items()}
    implied = {part: (by, names) for by, rule in rules.items() for part, names in implications(rule)}
    apply(result, "", framework.run, config, config)
    for part, rule in rules.items():
        node, name = chosen[part]
        by, names = implied.get(part, ("", ()))
        if isinstance(rule, str) and name not in names:
            result.missing.append(f"{part}={name}: {rule}")
        elif not by:
            apply(result, f"{part}={name}: ", rule, node, config)
        elif name not in names:
            result.missing.append(f"{part}={name}: {by}={chosen[by][1]} comes with {part}={names[0]}")
    return result


def implications(rule: Rule | str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the parts that a rule decides beside its own."""
    if isinstance(rule, Rule):
        yield from rule.implies.items()


def apply(result: Exported, label: str, rule: Rule, node: Any, config: Config) -> None:
    """Add what a rule says about a node to the result."""
    for name, value in rule.settings.items():
        value = value(node, config) if callable(value) else value
        if result.settings.setdefault(name, value) != value:
            result.missing.append(f"{label}{name} should be {value}, and is {result.settings[name]} for something else")
    for note in rule.notes:
        text = note(node, config) if callable(note) else note
        if text:
            result.differs.append(label + text)


def lines(title: str, sentences: Sequence[str]) -> list[str]:
    """Return sentences as comment lines below a title; nothing if there are none."""
    return [f"# {title}", *(f"#   {sentence}" for sentence in sentences)] if sentences else []


def text(overrides: Sequence[str], config: Config, framework: Framework) -> str:
    """Return the export as text: comments, then what can be pasted."""
    settings, differs, missing = export(config, framework)
    head = [f"# {' '.join(overrides) or 'the default configuration'} as {framework.name}"]
    head += lines("cannot be expressed, what the framework does by default holds instead:", missing) + lines(
        "differs:", differs
    )
    return "\n".join([*head, framework.write(settings)])
