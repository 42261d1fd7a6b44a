"""What a configuration is in another framework, by a table each: ``trl.yaml``, ``verl.yaml``, ``openrlhf.yaml``.

Each stands over ``common.yaml`` and has under ``choices``, for each part of a configuration and each function of it (or
several, with commas), its settings in the framework, or a text that says why there are none; ``run`` has those of every
run.

- ``$low`` is the hyperparameter ``low``, and no setting where it is null; ``$grad_clip or 1.0`` is a number there,
  ``$warmup_ratio()`` a function of ``computed.VALUES``.
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
from typing import Any, NamedTuple

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from rlexp.axes import AXES, reward, shaping
from rlexp.config.schema import Config
from rlexp.core.errors import format_value
from rlexp.export.computed import CONDITIONS, NOTES, VALUES

# The axes in the order of the data flow, and what frameworks have beside them.
BEFORE = {"norm": ("critic",)}
PARTS = (*(part for key in AXES for part in (*BEFORE.get(key, ()), key)), "start", "data")
OF_THE_PENALTY = {"kl_control", "reference"}  # without a penalty they change nothing
EVERY = {"reward": reward.FUNCTIONS, "shaping": shaping.FUNCTIONS}


class Rule(NamedTuple):
    """What an entry of a table says; without settings it is of a choice that the framework makes anyway."""

    settings: Mapping[str, Any]  # by name, each a value or, as ``$low``, where it is from
    notes: Sequence[str | Mapping[str, Any]]
    implies: Mapping[str, Sequence[str]]

    def settings_of(self, node: Any, config: Config) -> dict[str, Any]:
        """Return the settings for the node of a choice and the whole config."""
        found = {name: (value, read_value(value, node, config)) for name, value in self.settings.items()}
        return {name: there for name, (value, there) in found.items() if there is not None or value is None}

    def notes_of(self, node: Any, config: Config) -> Iterator[str]:
        """Yield what differs, of a node and the whole config; KeyError for a name that ``computed`` does not have."""
        for note in self.notes:
            if isinstance(note, str):
                name = note.removeprefix("$")
                yield note.format(node=node) if name == note else NOTES[name](node, config)
                continue
            for condition, text in note.items():
                if condition == "fixed":
                    for name, there in text.items():
                        if (here := getattr(node, name)) != there:
                            yield f"{name} is {format_value(here)} here and always {format_value(there)} there"
                elif CONDITIONS[condition](node, config):
                    yield text.format(node=node)


class Framework(NamedTuple):
    """A framework by name and version, its table by part and function, and how its settings are written."""

    name: str
    table: Mapping[str, Mapping[str, Rule | str]]
    run: Rule  # the settings of every run
    write: Callable[[Mapping[str, Any]], str]


class Exported(NamedTuple):
    """Settings by name, sentences about what differs there, and sentences about what cannot be said there."""

    settings: dict[str, Any]
    differs: list[str]
    missing: list[str]


def read_framework(name: str, write: Callable[[Mapping[str, Any]], str]) -> Framework:
    """Read the table of a framework over the common one."""
    common, own = (yaml.safe_load(Path(__file__).with_name(f"{each}.yaml").read_bytes()) for each in ("common", name))
    named = {f"${name}": notes for name, notes in (common["notes"] | own["notes"]).items()}

    def rule(entry: str | dict[str, Any]) -> Rule | str:
        if isinstance(entry, str):
            return entry
        notes = [each for note in entry.get("notes", ()) for each in named.get(str(note), [note])]
        settings = {name: value for name, value in entry.items() if name not in ("notes", "implies")}
        return Rule(settings, notes, entry.get("implies", {}))

    table: dict[str, dict[str, Rule | str]] = {}
    for part, entries in [*common["choices"].items(), *own["choices"].items()]:
        for functions, entry in entries.items():
            names = EVERY[part] if functions == "*" else functions.split(", ")
            table.setdefault(part, {}).update(dict.fromkeys(names, rule(entry)))
    return Framework(own["name"], table, rule(own["run"]), write)


def read_value(value: Any, node: Any, config: Config) -> Any:
    """Return a setting as it is for the node of a choice; KeyError for a name that ``computed`` does not have."""
    if isinstance(value, list):
        return [read_value(part, node, config) for part in value]
    if not (isinstance(value, str) and value.startswith("$")):
        return value
    hyperparameter, _, instead = value.removeprefix("$").partition(" or ")
    if hyperparameter.endswith("()"):
        return VALUES[hyperparameter.removesuffix("()")](node, config)
    found = attrgetter(hyperparameter)(node)
    return yaml.safe_load(instead) if found is None and instead else found


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
    settings, differs, missing = exported = Exported({}, [], [])

    def add(label: str, rule: Rule, node: Any) -> None:
        for name, value in rule.settings_of(node, config).items():
            if (taken := settings.setdefault(name, value)) != value:
                missing.append(f"{label}{name} should be {value}, and is {taken} for something else")
        differs.extend(label + text for text in rule.notes_of(node, config) if text)

    add("", framework.run, config)
    for part, rule in rules.items():
        node, name = chosen[part]
        by, names = implied.get(part, ("", ()))
        if isinstance(rule, str) and name not in names:
            missing.append(f"{part}={name}: {rule}")
        elif not by:
            add(f"{part}={name}: ", rule, node)
        elif name not in names:
            missing.append(f"{part}={name}: {by}={chosen[by][1]} comes with {part}={names[0]}")
    return exported


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


def write_trl(settings: Mapping[str, Any]) -> str:
    return "\n".join(["GRPOConfig(", *(f"    {name}={value!r}," for name, value in settings.items()), ")"])


def write_verl(settings: Mapping[str, Any]) -> str:
    arguments = (quote(f"{name}={hydra_value(value)}") for name, value in settings.items())
    return " \\\n    ".join(["python3 -m verl.trainer.main_ppo", *arguments])


def write_openrlhf(settings: Mapping[str, Any]) -> str:
    """Return the command with flags; one that is on has no value, one that is off is left out."""
    words = {
        name: [] if value is True else value if isinstance(value, list) else [value]
        for name, value in settings.items()
        if value is not False
    }
    arguments = (" ".join(map(str, [name, *values])) for name, values in words.items())
    return " \\\n    ".join(["python3 -m openrlhf.cli.train_ppo_ray", *arguments])


@cache
def hydra_text(text: str) -> str:
    """Return a text as Hydra reads it back: in quotes, if it looks like a number (0.5_5 is 0.55)."""
    return text if OverridesParser.create().parse_override(f"key={text}").value() == text else f"'{text}'"


def hydra_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(hydra_value, value))}]"
    return hydra_text(value) if isinstance(value, str) else format_value(value)


WRITERS = {"trl": write_trl, "verl": write_verl, "openrlhf": write_openrlhf}
FRAMEWORKS = {name: read_framework(name, write) for name, write in WRITERS.items()}
