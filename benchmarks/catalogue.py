"""docs/variants.md, made of the YAML files, the docstrings and the tables of ``rlexp.export``.

``python -m benchmarks.catalogue > docs/variants.md``
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from inspect import cleandoc
from types import ModuleType, SimpleNamespace
from typing import Any

import yaml

from benchmarks.parts.common import ROOT
from benchmarks.parts.versions import VERSIONS
from benchmarks.parts.yaml_files import Choice, choices, chosen, comment, leaves, tree
from rlexp.axes.laws import LAWS, laws_of
from rlexp.config.choices import CONF, ELSEWHERE
from rlexp.config.compose import compose
from rlexp.config.schema import Config
from rlexp.core import memory
from rlexp.core.errors import format_value
from rlexp.export.tables import FRAMEWORKS, PARTS, Framework, Rule, kind

SECTIONS = tuple(dict.fromkeys(part.partition(".")[0] for part in PARTS))
TABLES = {name: FRAMEWORKS[name.lower()] for name in ("TRL", "verl", "OpenRLHF")}
NAMED = ("open-instruct", "prime-rl", "slime", "ROLL", "SkyRL", "AReaL", "NeMo-RL", "oat")  # without a table
NAMES = yaml.safe_load((ROOT / "benchmarks/parts/names.yaml").read_text(encoding="utf-8"))  # part, function, framework
TABLE = {
    "start": "STARTS",
    "data": "DATA",
    "critic": "CRITICS",
}  # of what is no axis of functions, with its module in the loop
YOURS = {"reward", "shaping", "start"}  # axes that frameworks leave to the user
HEAD = """# Variants

Every choice on every axis of the algorithm: its formula, its hyperparameters with their defaults, where it comes from,
what it is called elsewhere and what is different there. `python -m benchmarks.catalogue > docs/variants.md` makes this
page of `conf/`, the docstrings and the tables in `rlexp/export/`, and a test compares.

What a function may ask for by name is in a table for each axis. Shapes are in the order replica, prompt, completion of
the group, token (`R P G T`); `V` is the vocabulary, `L` the length of prompts, `K` the number of reward components,
`M` that of the numbers which votes are cast with. The update of what is remembered from step to step (`MEMORIES`) may
ask for what `kl_control` may, and for itself.

`norm=local` on the command line chooses, `norm.eps=1e-4` sets a hyperparameter, `preset=dapo` chooses on several axes.
`python -m rlexp.export preset=dapo to=trl` prints all of it as settings of TRL (or `verl`, `openrlhf`), with what
cannot be expressed there and what differs.

The columns TRL, verl and OpenRLHF have the settings that make the choice there, with the hyperparameters of its YAML;
"–": there is none. What differs there under the default configuration is below each choice. In the other columns an
empty cell says that nothing was found.

"""


def module(axis: str) -> ModuleType:
    """Return the module of an axis."""
    return import_module(f"rlexp.loop.{axis}" if axis in TABLE else f"rlexp.axes.{axis}")


def functions(axis: str) -> Mapping[str, Callable]:
    """Return the functions of an axis by name."""
    return getattr(module(axis), TABLE.get(axis, "FUNCTIONS"))


def paragraphs(documented: Any) -> Iterator[str]:
    """Yield the paragraphs of a docstring as Markdown, each on one line but for formulas that stand alone."""
    for block in cleandoc(documented.__doc__ or "").split("\n\n"):
        joined = block if block.startswith(" ") else " ".join(block.split())
        yield joined.replace("``", "`").replace("Source:", "**Source:**")


def hyperparameters(node: SimpleNamespace) -> str:
    """Return the hyperparameters of a node with their defaults."""
    pairs = {name: value for name, value in vars(node).items() if name != "name"}
    return ", ".join(f"`{name}` {told(value)}" for name, value in pairs.items())


def told(value: Any) -> str:
    """Return the value of a hyperparameter, or those of the hyperparameters below it."""
    if isinstance(value, dict):
        return f"({', '.join(f'`{name}` {told(each)}' for name, each in value.items() if name != 'name')})"
    return format_value(value).removeprefix("${").removesuffix("}")


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table, without the columns that are empty."""
    used = [column for column, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cells[column] for column in used) + " |" for cells in lines]


def settings(framework: Framework, one: Choice, config: Config) -> str:
    """Return what makes a choice in a framework with a table."""
    said = [(rule_of(framework, part, node), node) for part, node in one.active.items()]
    if any(isinstance(rule, str) for rule, _ in said):
        return "–"
    found = [pair for rule, node in said for pair in rule.settings_of(node, config).items()]
    written = [f"`{name.removeprefix('actor_rollout_ref.')}={format_value(value)}`" for name, value in found]
    yours = one.axis in YOURS and any(rule.notes for rule, _ in said)
    return "<br>".join(written) or ("yours to write" if yours else "as it is")


def rule_of(framework: Framework, part: str, node: SimpleNamespace) -> Rule | str:
    """Return what a framework says about a node of a choice; an empty text if nothing."""
    return framework.table.get(part, {}).get(kind(part, node), "")


def differences(framework: Framework, part: str, node: SimpleNamespace, config: Config) -> str:
    """Return what differs in a framework under the default configuration, or why there is no such choice."""
    rule = rule_of(framework, part, node)
    if isinstance(rule, str):
        return rule and f"not there: {rule}"
    if part in YOURS and not rule.settings:
        return ""
    return "; ".join(filter(None, rule.notes_of(node, config)))


def names(framework: str, one: Choice) -> str:
    """Return what a choice is called in a framework without a table."""
    found = [NAMES.get(part, {}).get(kind(part, node), {}).get(framework, "") for part, node in one.active.items()]
    return "; ".join(found) if all(found) else ""


def elsewhere(axis: str, config: Config) -> list[str]:
    """Return the table of what the choices of an axis are elsewhere."""
    rows = [
        [f"`{one.axis}={one.label}`"]
        + [settings(each, one, config) for each in TABLES.values()]
        + [names(each, one) for each in NAMED]
        for one in choices(axis)
    ]
    return table(["choice", *TABLES, *NAMED], rows)


def uses(axis: str, name: str, config: Config) -> Iterator[str]:
    """Yield the lines of each choice that a function of an axis is in."""
    for one in choices(axis):
        for part, node in one.active.items():
            if node.name == name:
                place = part.partition(".")[2]
                told = "; ".join(filter(None, [place, hyperparameters(node), one.comment]))
                yield f"- `{axis}={one.label}`" + (f": {told}" if told else "")
                there = {name: differences(each, part, node, config) for name, each in TABLES.items()}
                yield from (f"  - {name}: {text}" for name, text in there.items() if text)


def offered(axis: str) -> list[str]:
    """Return the table of what the functions of an axis may ask for; nothing for what is no axis of functions."""
    if axis in TABLE:
        return []
    offers = {name: (offer, "") for name, offer in module(axis).INPUTS.items()}
    memories = {each.name: each for each in getattr(module(axis), "MEMORIES", {}).values()}
    for name, owners in memory.owners(getattr(module(axis), "MEMORIES", {})).items():
        offers[name] = memories[name].offer, f"; only to {', '.join(f'`{owner}`' for owner in owners)}"
    rows = [[f"`{name}`", f"`{offer.shape}`", offer.text + note] for name, (offer, note) in offers.items()]
    lines = ["What a function may ask for by name:", "", *table(["name", "type", "what it is"], rows), ""]
    if axis == "filter":
        names = ", ".join(f"`{name}`" for name in module(axis).OFFERED_TO_REFILL)
        lines += [f"In `filter.refill`, before shaping and with the rewards of the task: {names}.", ""]
    return lines


def section(axis: str, config: Config) -> list[str]:
    """Return everything about an axis."""
    called = ", ".join(name for name, meant in ELSEWHERE.items() if meant == axis)
    also = [f"Also called {called}.", ""] if called else []
    lines = [f"## {axis}", "", *also, *separated(paragraphs(module(axis))), *offered(axis), *law_texts(axis)]
    lines += [*elsewhere(axis, config), ""]
    for name, function in functions(axis).items():
        texts = [*paragraphs(function), *laws(axis, function)]
        lines += [f"### {axis}: {name}", "", *separated(texts), *uses(axis, name, config), ""]
    return lines


def laws(axis: str, function: Callable) -> Iterator[str]:
    """Yield a paragraph with the names of the laws that a function obeys; nothing on an axis that states none."""
    obeyed = laws_of(axis, function)
    if obeyed:
        yield f"**Laws:** {', '.join(law for law in LAWS[axis] if law in obeyed)}."


def law_texts(axis: str) -> list[str]:
    """Return the list of the laws of an axis; nothing if it states none."""
    if axis not in LAWS:
        return []
    return ["The laws that are stated below:", "", *(f"- {law}: {text}" for law, text in LAWS[axis].items()), ""]


def separated(blocks: Iterable[str]) -> Iterator[str]:
    """Yield blocks with an empty line after each."""
    for block in blocks:
        yield from (block, "")


def versions() -> list[str]:
    """Return the table of what was read, and when."""
    rows = [[each.name, f"`{each.repository}`", *each[2:]] for each in VERSIONS]
    head = ["framework or paper", "repository", "release, commit or change", "of", "read", "for"]
    return ["## What was read, and when", "", *table(head, rows), ""]


def presets() -> list[str]:
    """Return the table of presets: what they choose other than ``config.yaml``."""
    default = chosen(CONF / "config.yaml")
    rows = []
    for path in sorted((CONF / "preset").glob("*.yaml")):
        picked = [f"`{axis}={label}`" for axis, label in chosen(path).items() if default[axis] != label]
        rows.append([f"`preset={path.stem}`", comment(path), " ".join([*picked, *leaves(tree(path))])])
    return ["## preset", "", *table(["preset", "what it is", "choices other than the default"], rows), ""]


def page() -> str:
    """Return docs/variants.md."""
    config = compose()
    lines = [line for axis in SECTIONS for line in section(axis, config)]
    return HEAD + "\n".join([*versions(), *lines, *presets()])


if __name__ == "__main__":
    print(page(), end="")
