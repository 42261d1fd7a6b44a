"""``rlexp explain norm``: every choice of an axis with its formula in a line; ``norm=local`` all about one.

It reads the files of ``conf/`` and the docstrings of the functions that they name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from inspect import cleandoc
from itertools import chain
from shutil import get_terminal_size
from textwrap import wrap
from types import ModuleType
from typing import Any

from rlexp.config.choices import choices_of, choices_with, comment_of, groups, groups_with, keys, values_of
from rlexp.config.conf_folder import CONF
from rlexp.config.hints import ELSEWHERE
from rlexp.core.errors import ConfigError, format_value
from rlexp.core.exits import BAD_INPUT, exit_with, silent_without_reader

NARROWEST = 60
RECIPES = ("preset", "study")  # groups whose choices are differences on other axes


@silent_without_reader()
def main(arguments: list[str]) -> None:
    """Print what is known of axes, choices and keys; of all axes if none is named. An unknown name ends with code 2."""
    try:
        paragraphs = [list(explained(argument)) for argument in arguments] or [list(overview())]
    except ConfigError as error:
        exit_with(str(error), BAD_INPUT)
    print("\n\n".join("\n".join(lines) for lines in paragraphs))


def explained(name: str) -> Iterator[str]:
    """Yield the lines about an axis, a choice (``norm=local``) or a key (``clip.high``, ``steps``)."""
    group, equals, choice = name.partition("=")
    if not equals and group in groups():
        return about_group(group)
    if equals and choice in choices_of(group):
        return about_choice(group, choice)
    if not equals and group in keys():
        return iter([f"{group}: {keys()[group].text or 'see rlexp --help'}", f"  by default {default_of(group)}"])
    if not equals and choices_with(*two(group)):
        return about_knob(*two(group))
    if not equals and groups_with(name):
        axis = [f"{name} is {ELSEWHERE[name]} here: rlexp explain {ELSEWHERE[name]}", ""] if name in ELSEWHERE else []
        return chain(axis, *(about_choice(each, name) for each in groups_with(name)))
    raise ConfigError([unknown(name)])


def two(key: str) -> tuple[str, str]:
    """`clip.high` → `clip`, `high`."""
    group, _, rest = key.partition(".")
    return group, rest


def default_of(key: str) -> str:
    """Return the value of a key of config.yaml; what is below it if it is a node."""
    below = [f"{name}={value.value}" for name, value in keys().items() if name.startswith(f"{key}.")]
    return " ".join(below) or f"{key}={keys()[key].value}"


def unknown(name: str) -> str:
    """Say that there is no such axis, choice or key, and what is like it."""
    group, equals, choice = name.partition("=")
    if equals and group in groups():
        known, kind = choices_of(group), f"{name}: no such choice"
        name, before = choice, f"{group}="
    else:
        known, kind, before = [*groups(), *keys()], f"{name}: no such axis or key", ""
    if not before and group in ELSEWHERE:
        return f"{kind}; {group} is {ELSEWHERE[group]} here"
    close = get_close_matches(name, known, n=1)
    listed = ", ".join(known if before else groups())
    return f"{kind}; did you mean {before}{close[0]}?" if close else f"{kind}; there are {listed}"


def overview() -> Iterator[str]:
    """Yield a line for each axis."""
    yield from table({name: f"{group.text}; by default {name}={group.default}" for name, group in groups().items()})
    yield "\nrlexp explain norm: its choices, each with its formula. rlexp explain norm=local: all about one."


def about_group(group: str) -> Iterator[str]:
    """Yield a line for each choice of a group."""
    default = groups()[group].default
    yield f"{group}: {groups()[group].text}; by default {group}={default}\n"
    yield from table({choice: in_a_line(group, choice) for choice in choices_of(group)})
    if group in axis_modules():
        symbols = plain(cleandoc(axis_modules()[group].__doc__ or "")).split("\n\n")[1]
        yield "\n".join(["", *wrapped(symbols, 2)])
        asked = f"A function of your own may ask by name for {', '.join(offered(group))} (docs/variants.md)."
        yield "\n".join(["", *wrapped(asked, 2)])


def about_choice(group: str, choice: str) -> Iterator[str]:
    """Yield all that is known of a choice."""
    yield f"{group}={choice}"
    comment = comment_of(CONF / group / f"{choice}.yaml")
    if comment:
        yield from wrapped(comment, 2)
    for place, node in nodes(group, choice).items():
        yield f"\n  {group}.{place}.name={node['name']}" if place else ""
        text = plain(cleandoc(function_of(group, place, node["name"]).__doc__ or ""))
        yield from ("  " + line if line else "" for line in text.splitlines())
    shown = knobs_of(group, choice)
    if shown:
        yield from ["", *wrapped(" ".join(shown), 2)]


def knobs_of(group: str, choice: str) -> list[str]:
    """Return what a choice sets, as it is typed: its knobs, or what a recipe chooses and sets on all axes."""
    values = values_of(group, choice)
    if group not in RECIPES:
        return [*leaves(f"{group}.", "", values)]
    entries = [dict(entry) for entry in values.pop("defaults", []) if isinstance(entry, dict)]
    chosen = [f"{key.removeprefix('override /')}={value}" for entry in entries for key, value in entry.items()]
    return [*chosen, *leaves("", "", {key: value for key, value in values.items() if key not in ("study", "hydra")})]


def about_knob(group: str, key: str) -> Iterator[str]:
    """Yield the choices that have a knob, with its value in their files."""
    yield f"{group}.{key} belongs to"
    having = choices_with(group, key)
    lines = {}
    for choice in having:
        value: Any = values_of(group, choice)
        for step in key.split("."):
            value = value[step]
        lines[f"{group}={choice}"] = written(value)
    yield from table(lines)


def in_a_line(group: str, choice: str) -> str:
    """Return formula and knobs of a choice; what its file says of it, or just says, where no one function makes it."""
    parts, comment = nodes(group, choice), comment_of(CONF / group / f"{choice}.yaml")
    knobs = " ".join(leaf for place, node in parts.items() for leaf in leaves("", place, node))
    if "" not in parts and group != "group_size":
        text = first_sentence(comment) or "; ".join(formula(group, place, node) for place, node in parts.items())
    else:
        text = "".join(formula(group, "", node) for node in parts.values())
        knobs = knobs or " ".join(leaves("", "", values_of(group, choice)))
    return " ".join([*filter(None, [text]), *([f"({knobs})"] if knobs and text else [knobs])]).strip()


def nodes(group: str, choice: str) -> dict[str, Mapping[str, Any]]:
    """Return the parts of a choice that name a function, by their place below the axis; those that do something."""
    values = values_of(group, choice)
    if "name" in values:
        return {"": values} if tables(group) else {}
    parts = {place: node for place, node in values.items() if isinstance(node, dict) and "name" in node}
    active = {place: node for place, node in parts.items() if node["name"] != "none"}
    return (active or dict(list(parts.items())[:1])) if tables(group) else {}


def formula(group: str, place: str, node: Mapping[str, Any]) -> str:
    """Return the first paragraph about a function in a line, without its source."""
    text = plain(cleandoc(function_of(group, place, node["name"]).__doc__ or "")).partition("\n\n")[0]
    return " ".join(text.split()).partition(" Source:")[0]


def leaves(before: str, place: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the numbers and texts of a node as they are typed, without the names of functions."""
    for name, value in values.items():
        key = f"{place}.{name}".lstrip(".")
        if isinstance(value, dict):
            yield from leaves(before, key, value)
        elif name not in ("name", "defaults"):
            yield f"{before}{key}={written(value)}"


def written(value: Any) -> str:
    """Return a value as one types it; an interpolation by what it stands for."""
    return re.sub(r"^\$\{(.*)\}$", r"\1", format_value(value))


def axis_modules() -> Mapping[str, ModuleType]:
    """Return the modules of the axes; to import them takes seconds."""
    from rlexp.axes import AXES

    return AXES


def tables(group: str) -> dict[str, Mapping[str, Callable]]:
    """Return the tables of functions of a group, by their place below it; none if no function makes a choice."""
    from rlexp.language import BACKENDS, LANGUAGE_MODELS, TEXT_TASKS
    from rlexp.loop.critic import CRITICS
    from rlexp.loop.data import DATA
    from rlexp.loop.start import STARTS
    from rlexp.models import MODELS
    from rlexp.record.loggers import LOGGERS
    from rlexp.tasks import TASKS

    others = {"task": TASKS | TEXT_TASKS, "model": MODELS | LANGUAGE_MODELS, "backend": BACKENDS, "start": STARTS}
    others |= {"data": DATA, "critic": CRITICS, "logger": LOGGERS}
    axis = axis_modules().get(group)
    if group == "filter":
        return {"refill": axis.GROUPS, "loss": axis.FUNCTIONS, "statistics": axis.COMPLETIONS}
    if axis is not None:
        return {"": axis.FUNCTIONS}
    return {"": others[group]} if group in others else {}


def function_of(group: str, place: str, name: str) -> Callable:
    """Return the function, or the class, that a part of a choice names."""
    return tables(group)[place][name]


def offered(group: str) -> list[str]:
    """Return what functions of an axis may ask for by name, memories with the choices that have them."""
    from rlexp.core.memory import owners

    axis = axis_modules()[group]
    remembered = [f"{memory} ({', '.join(choices)})" for memory, choices in owners(axis).items()]
    return [*axis.OFFERED, *remembered]


def plain(text: str) -> str:
    """Return a docstring as it is read on a terminal."""
    return text.replace("``", "`")


def first_sentence(text: str) -> str:
    """Return a text up to its first full stop that ends a sentence."""
    return re.split(r"(?<=[^D][^r]\.) (?=[A-Z])", text)[0]


def table(lines: Mapping[str, str]) -> Iterator[str]:
    """Yield names and texts side by side, folded to the width of a terminal; each on one line elsewhere."""
    widest = max(map(len, lines), default=0)
    for name, text in lines.items():
        first, *rest = wrapped(text, widest + 4) or [""]
        yield f"  {name:<{widest}}  {first.strip()}"
        yield from rest


def wrapped(text: str, indent: int) -> list[str]:
    """Return a text in lines that fit a terminal; in one line where stdout is none."""
    width = max(NARROWEST, get_terminal_size().columns) if sys.stdout.isatty() else 10**6
    return wrap(text, width, initial_indent=" " * indent, subsequent_indent=" " * indent, break_long_words=False)


if __name__ == "__main__":
    main(sys.argv[1:])
