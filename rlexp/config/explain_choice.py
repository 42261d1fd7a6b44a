"""``rlexp explain norm``: every choice of an axis with its formula in a line; ``norm=local`` all about one.

It reads the files of ``conf/`` and the docstrings of the functions that they name. The body of ``rlexp --help`` is the
resolver ``axes_help``: every axis in a line, with its choices, and every other key.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from itertools import chain
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from rlexp.axes import AXES
from rlexp.config.choices import (
    ELSEWHERE,
    RECIPES,
    active_functions,
    choices_of,
    choices_with,
    claims,
    comment_of,
    groups,
    groups_with,
    keys,
    plain,
    studies,
    text_of,
    value_at,
    values_of,
)
from rlexp.config.explain_json import Subject, as_json
from rlexp.core.errors import ConfigError, closest, format_value
from rlexp.core.exits import BAD_INPUT, exit_with, silent_without_reader
from rlexp.core.hydra_compat import register_resolver

MIN_WIDTH = 60
HELP_WIDTH, HELP_INDENT = 116, " " * 15
COMMENT_COLUMN, COMMENT_WIDTH = 18, 103
NAMES = "an axis (norm), a choice (norm=local, local) or a key (clip.high, steps); without one, every axis in a line"


@silent_without_reader()
def main(arguments: list[str]) -> None:
    """Print what is known of axes, choices and keys; of all axes if none is named. An unknown name ends with code 2."""
    parser = ArgumentParser("rlexp explain", description="What is known of axes, choices and keys.")
    parser.add_argument("names", nargs="*", metavar="name", help=NAMES)
    parser.add_argument("--json", action="store_true", help="print it as JSON; without a name all axes and all keys")
    options, names = parser.parse_known_args(arguments)[0], [each for each in arguments if each != "--json"]
    try:
        subjects = [list(subjects_of(name)) for name in names]
    except ConfigError as error:
        exit_with(str(error), BAD_INPUT)
    if options.json:
        import orjson

        print(orjson.dumps(as_json(chain(*subjects) if names else everything())).decode())  # NaN is null
        return
    paragraphs = [list(explained(name)) for name in names]
    if not names:
        lines = {name: f"{group.text}; by default {name}={group.default}" for name, group in groups().items()}
        more = "\nrlexp explain norm: its choices, each with its formula. rlexp explain norm=local: all about one."
        paragraphs = [[*table(lines), more]]
    print("\n\n".join("\n".join(lines) for lines in paragraphs))


def subjects_of(name: str) -> Iterator[Subject]:
    """Yield what ``norm``, ``norm=local``, ``local``, ``clip.high`` or ``steps`` means; ConfigError: nothing."""
    group, equals, choice = name.partition("=")
    axis, _, below = name.partition(".")
    if equals and choice in choices_of(group):
        yield Subject("choice", group, choice)
    elif equals and group == "study" and choice in claims():
        yield Subject("claim", group, choice)
    elif name in groups():
        yield Subject("axis", name)
    elif name in keys():
        yield Subject("key", "", name)
    elif not equals and choices_with(axis, below):
        yield Subject("hyperparameter", axis, below)
    elif group in ELSEWHERE:
        yield Subject("word", ELSEWHERE[group], group)
        yield from subjects_of(f"{ELSEWHERE[group]}{equals}{choice}")
        yield from (Subject("choice", each, name) for each in groups_with(name))
    elif not equals and groups_with(name):
        yield from (Subject("choice", each, name) for each in groups_with(name))
    else:
        raise ConfigError([unknown(name)])


def everything() -> Iterator[Subject]:
    """Yield all axes and all keys."""
    yield from (Subject("axis", name) for name in groups())
    yield from (Subject("key", "", name) for name in keys())


def explained(name: str) -> Iterator[str]:
    """Yield the lines about all that a name means, a blank one between; ConfigError: nothing."""
    for place, subject in enumerate(subjects_of(name)):
        yield from [""] * bool(place)
        yield from about(subject)


def about(subject: Subject) -> Iterator[str]:
    """Yield the lines about one thing."""
    kind, axis, name = subject
    if kind == "choice":
        yield from about_choice(axis, name)
    elif kind == "claim":
        yield f"{comment_of(text_of('study/claims', name))}\n"
        yield from table({f"study={study}": in_a_line("study", study) for study in claims()[name]})
    elif kind == "axis":
        yield from about_group(axis)
    elif kind == "key":  # its value in config.yaml, or what is below it if it is a node
        values = [f"{each}={key.default}" for each, key in keys().items() if each.startswith(f"{name}.")]
        yield f"{name}: {keys()[name].text or 'see rlexp --help'}"
        yield f"  by default {' '.join(values) or f'{name}={keys()[name].default}'}"
    elif kind == "hyperparameter":  # with its value in the files that have it
        yield f"{axis}.{name} belongs to"
        having = choices_with(axis, name)
        yield from table({f"{axis}={each}": written(value_at(values_of(axis, each), name)) for each in having})
    else:
        yield f"{name} is {axis} here"


def unknown(name: str) -> str:
    """Say that there is no such axis, choice or key, and what is like it."""
    group, equals, choice = name.partition("=")
    if equals and group in groups():
        text, known = f"{name}: no such choice", choices_of(group)
        close = [f"{group}={each}" for each in closest(choice, known)]
    else:
        text, close, known = f"{name}: no such axis or key", closest(name, [*groups(), *keys()]), groups()
    return f"{text}; did you mean {close[0]}?" if close else f"{text}; there are {', '.join(known)}"


def about_group(group: str) -> Iterator[str]:
    """Yield a line for each choice of a group; of studies that belong to a claim, a line for the claim."""
    yield f"{group}: {groups()[group].text}; by default {group}={groups()[group].default}\n"
    if group == "study":
        lines = {
            claim: f"{comment_of(text_of('study/claims', claim))} {', '.join(found)}"
            for claim, found in claims().items()
        }
        lines |= {choice: in_a_line(group, choice) for choice in choices_of(group) if choice not in studies()}
        lines = dict(sorted(lines.items()))
    else:
        lines = {choice: in_a_line(group, choice) for choice in choices_of(group)}
    yield from table(lines)
    if axes := [axis for axis in AXES.values() if axis.group == group]:
        from rlexp.core.memory import owners

        symbols = plain(axes[0].module.__doc__).split("\n\n")[1]
        inputs = dict.fromkeys(name for axis in axes for name in axis.module.INPUTS)
        remembered = [f"{name} ({', '.join(choices)})" for name, choices in owners(axes[0].memories).items()]
        asked = f"A function of your own may ask by name for {', '.join([*inputs, *remembered])} (docs/variants.md)."
        for text in symbols, asked:
            yield "\n".join(["", *wrapped(text, 2)])


def about_choice(group: str, choice: str) -> Iterator[str]:
    """Yield all that is known of a choice: what its file says, its functions, and what it sets, as it is typed."""
    yield f"{group}={choice}"
    yield from wrapped(comment_of(text_of(group, choice)), 2)
    for place, (node, text) in active_functions(group, choice).items():
        yield f"\n  {group}.{place}.name={node['name']}" if place else ""
        yield from ("  " + line if line else "" for line in text.splitlines())
    values = values_of(group, choice)
    if group in RECIPES:  # it chooses and sets on all axes
        entries = [item for each in values.pop("defaults", []) if isinstance(each, dict) for item in each.items()]
        shown = [f"{key.removeprefix('override /')}={value}" for key, value in entries]
        shown += leaves("", {key: value for key, value in values.items() if key not in ("study", "hydra")})
    else:
        shown = leaves(group, values)
    if text := " ".join(shown):
        yield from ["", *wrapped(text, 2)]


def in_a_line(group: str, choice: str) -> str:
    """Return formula and hyperparameters of a choice; what its file says, where no one function makes it."""
    parts = active_functions(group, choice)
    formulas = [" ".join(text.partition("\n\n")[0].split()).partition(" Source:")[0] for _, text in parts.values()]
    hyperparameters = " ".join(leaf for place, (node, _) in parts.items() for leaf in leaves(place, node))
    if "" in parts or group == "group_size":
        text, hyperparameters = "".join(formulas), hyperparameters or " ".join(leaves("", values_of(group, choice)))
    else:  # the comment's first sentence, which no `Dr. GRPO` ends
        comment = comment_of(text_of(group, choice))
        text = re.split(r"(?<=[^D][^r]\.) (?=[A-Z])", comment)[0] or "; ".join(formulas)
    return f"{text} ({hyperparameters})" if text and hyperparameters else text or hyperparameters


def leaves(place: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the numbers and texts of a node as they are typed, without the names of functions."""
    for name, value in values.items():
        key = f"{place}.{name}".lstrip(".")
        if isinstance(value, dict):
            yield from leaves(key, value)
        elif name not in ("name", "defaults"):
            yield f"{key}={written(value)}"


def written(value: Any) -> str:
    """Return a value as one types it; an interpolation by what it stands for."""
    return re.sub(r"^\$\{(.*)\}$", r"\1", format_value(value))


def table(lines: Mapping[str, str]) -> Iterator[str]:
    """Yield names and texts side by side, folded to the width of a terminal; each on one line elsewhere."""
    widest = max(map(len, lines), default=0)
    for name, text in lines.items():
        first, *rest = wrapped(text, widest + 4) or [""]
        yield f"  {name:<{widest}}  {first.strip()}"
        yield from rest


def wrapped(text: str, indent: int) -> list[str]:
    """Return a text in lines that fit a terminal; in one line where stdout is none."""
    width = max(MIN_WIDTH, get_terminal_size().columns) if sys.stdout.isatty() else 10**6
    return wrap(text, width, initial_indent=" " * indent, subsequent_indent=" " * indent, break_long_words=False)


def axes_help() -> str:
    """Return the axes, then the keys; the template of Hydra's help, in which they stand, takes `$` for its own."""
    lines = ["Axes, as norm=hybrid; a star marks the choice of the default run:"]
    for name, group in groups().items():
        starred = [choice + "*" * (choice == group.default) for choice in choices_of(name)]
        lines += [f"\n  {name:<12} {group.text}"]
        lines += wrap(", ".join(starred), HELP_WIDTH, initial_indent=HELP_INDENT, subsequent_indent=HELP_INDENT)
    lines += ["\nNumbers of a choice are keys below its axis, as clip.high=0.3. Other keys, as eval.every=10:\n"]
    lines += ["  " + line if line else "" for line in key_lines()]
    return "\n".join(lines).replace("$", "$$")


def key_lines() -> Iterator[str]:
    """Yield the lines of config.yaml about the keys beside the groups."""
    inside = False
    for name, key in keys().items():
        node, _, last = name.rpartition(".")
        if not key.default or inside > bool(node):
            yield ""
        inside = bool(node)
        line = f"{'  ' * inside}{last}: {key.default}".rstrip()
        first, *rest = wrap(key.text, COMMENT_WIDTH, break_long_words=False) or [""]
        yield f"{line:<{COMMENT_COLUMN}} # {first}" if first else line
        yield from (f"{'':<{COMMENT_COLUMN}} # {each}" for each in rest)


register_resolver("axes_help", axes_help, replace=True)
if __name__ == "__main__":
    main(sys.argv[1:])
