"""The tables of the frameworks: ``trl.yaml``, ``verl.yaml`` and ``openrlhf.yaml``, each over ``common.yaml``.

A table has under ``choices``, for each part of a configuration and each function of it (or several, with commas), its
settings in the framework, or a text that says why there are none; ``run`` has those of every run.

- ``$low`` is the hyperparameter ``low``, ``$grad_clip or 1.0`` a number where it is null, ``$warmup_ratio()`` a
  function of ``computed.VALUES``.
- ``notes`` say what differs all the same: a text, with hyperparameters as ``{node.cap}``; ``condition: text``, by
  ``computed.CONDITIONS``; ``fixed: {eps: 1.0e-6}``, what is constant there; ``$clamped``, notes that stand at
  the head of a file, or one of ``computed.NOTES``.
- ``implies`` are parts that these settings decide too, each with the functions that they decide for.
- ``*`` is every function of an axis that has no entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter
from pathlib import Path
from shlex import quote
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from rlexp.axes import reward, shaping
from rlexp.config.schema import Config
from rlexp.core.errors import format_value
from rlexp.export.computed import CONDITIONS, NOTES, VALUES
from rlexp.export.rule import Framework, Note, Rule

EVERY = {"reward": reward.FUNCTIONS, "shaping": shaping.FUNCTIONS}


def read_framework(name: str, write: Callable[[Mapping[str, Any]], str]) -> Framework:
    """Read the table of a framework over the common one; KeyError for a name that ``computed`` does not have."""
    common, own = (yaml.safe_load(Path(__file__).with_name(f"{each}.yaml").read_bytes()) for each in ("common", name))
    named = common["notes"] | own["notes"]
    table: dict[str, dict[str, Rule | str]] = {}
    for part, entries in [*common["choices"].items(), *own["choices"].items()]:
        for functions, entry in entries.items():
            rule = entry if isinstance(entry, str) else read_rule(entry, named)
            table.setdefault(part, {}).update(
                dict.fromkeys(EVERY[part] if functions == "*" else functions.split(", "), rule)
            )
    return Framework(own["name"], table, read_rule(own["run"], named), write)


def read_rule(entry: Mapping[str, Any], named: Mapping[str, Sequence[Any]]) -> Rule:
    """Return the rule of an entry."""
    settings = {name: read_value(value) for name, value in entry.items() if name not in ("notes", "implies")}
    return Rule(settings, list(read_notes(entry.get("notes", ()), named)), entry.get("implies", {}))


def read_value(value: Any) -> Any:
    """Return a setting: a value, or a function of node and config."""
    if isinstance(value, list) and any(map(callable, parts := [*map(read_value, value)])):
        return lambda node, config: [part(node, config) if callable(part) else part for part in parts]
    if not (isinstance(value, str) and value.startswith("$")):
        return value
    hyperparameter, _, instead = value.removeprefix("$").partition(" or ")
    if hyperparameter.endswith("()"):
        return VALUES[hyperparameter.removesuffix("()")]
    get, number = attrgetter(hyperparameter), yaml.safe_load(instead) if instead else None
    return lambda node, config: number if (found := get(node)) is None else found


def read_notes(notes: Sequence[Any], named: Mapping[str, Sequence[Any]]) -> Iterator[Note]:
    """Yield notes as functions of node and config that return a text, which is empty if nothing differs."""
    for note in notes:
        if isinstance(note, str) and note.startswith("$"):
            name = note.removeprefix("$")
            yield from [NOTES[name]] if name in NOTES else read_notes(named[name], named)
        elif isinstance(note, str):
            yield lambda node, config, text=note: text.format(node=node)
        else:
            for condition, text in note.items():
                if condition == "fixed":
                    yield from (constant(name, value) for name, value in text.items())
                else:
                    yield conditional(CONDITIONS[condition], text)


def conditional(condition: Callable[[Any, Config], bool], text: str) -> Note:
    """Return a note for those configurations that it concerns."""
    return lambda node, config: text.format(node=node) if condition(node, config) else ""


def constant(name: str, there: float | int) -> Note:
    """Return a note that a hyperparameter is a constant there, for those configurations in which it is another one."""

    def note(node: Any, config: Config) -> str:
        here = getattr(node, name)
        return "" if here == there else f"{name} is {format_value(here)} here and always {format_value(there)} there"

    return note


def shell_command(command: str, *arguments: str) -> str:
    """Return a shell command with each argument on a line of its own."""
    return " \\\n    ".join([command, *arguments])


def write_trl(settings: Mapping[str, Any]) -> str:
    """Return Python that makes the config."""
    return "\n".join(["GRPOConfig(", *(f"    {name}={value!r}," for name, value in settings.items()), ")"])


def write_verl(settings: Mapping[str, Any]) -> str:
    """Return the command with overrides."""
    arguments = (quote(f"{name}={hydra_value(value)}") for name, value in settings.items())
    return shell_command("python3 -m verl.trainer.main_ppo", *arguments)


def hydra_value(value: Any) -> str:
    """Return a value as Hydra reads it back: in quotes, if it is a text that looks like a number (0.5_5 is 0.55)."""
    if isinstance(value, list):
        return f"[{','.join(map(hydra_value, value))}]"
    return f"'{value}'" if isinstance(value, str) and not is_read_as_text(value) else format_value(value)


@cache
def is_read_as_text(text: str) -> bool:
    """Whether Hydra's grammar leaves a text as it is."""
    return OverridesParser.create().parse_override(f"key={text}").value() == text


def write_openrlhf(settings: Mapping[str, Any]) -> str:
    """Return the command with flags; one that is on has no value, one that is off is left out."""
    arguments = []
    for name, value in settings.items():
        words = [] if value is True else value if isinstance(value, list) else [value]
        arguments += [] if value is False else [" ".join(map(str, [name, *words]))]
    return shell_command("python3 -m openrlhf.cli.train_ppo_ray", *arguments)


FRAMEWORKS = {
    "trl": read_framework("trl", write_trl),
    "verl": read_framework("verl", write_verl),
    "openrlhf": read_framework("openrlhf", write_openrlhf),
}
