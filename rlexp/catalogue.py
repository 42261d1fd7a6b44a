"""docs/variants.md, made of the YAML files, the docstrings and the tables of ``rlexp.export``.

``python -m rlexp.catalogue > docs/variants.md``
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from rlexp.compose import CONF, compose
from rlexp.config import Config
from rlexp.errors import shown
from rlexp.export import openrlhf, trl, verl
from rlexp.export.names import FRAMEWORKS, NAMES
from rlexp.export.rule import PARTS, Framework, Rule, kind

AXES = tuple(dict.fromkeys(part.partition(".")[0] for part in PARTS))
TABLES = {"TRL": trl.FRAMEWORK, "verl": verl.FRAMEWORK, "OpenRLHF": openrlhf.FRAMEWORK}
YOURS = {"shaping", "start"}  # axes that frameworks leave to the user
HEAD = """# Variants

Every choice on every axis of the algorithm: its formula, its knobs with their defaults, where it comes from, what it is
called elsewhere and what is different there. `python -m rlexp.catalogue > docs/variants.md` makes this page of
`conf/`, the docstrings and the tables in `rlexp/export/`, and a test compares.

`norm=local` on the command line chooses, `norm.eps=1e-4` sets a knob, `preset=dapo` chooses on several axes at once.
`python -m rlexp.export preset=dapo to=trl` prints all of it as settings of TRL (or `verl`, `openrlhf`), with what
cannot be expressed there and what differs.

Versions that were read: TRL 1.16, verl 1dda039b, OpenRLHF 3c3be623, open-instruct e6c3044a, prime-rl 559b4477, slime
624b824a, ROLL 8eb27cc2, understand-r1-zero dfca49dd on oat c1a074c3. The columns TRL, verl and OpenRLHF have the
settings that make the choice there, with the knobs of its YAML; "–": there is none. What differs there under the
default configuration is below each choice. In the other columns an empty cell says that nothing was found.

"""


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


def module(axis: str) -> ModuleType:
    """Return the module of an axis."""
    return import_module(f"rlexp.{axis}")


def functions(axis: str) -> Mapping[str, Callable]:
    """Return the functions of an axis by name."""
    return getattr(module(axis), "STARTS" if axis == "start" else "FUNCTIONS")


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


def paragraphs(documented: Any) -> Iterator[str]:
    """Yield the paragraphs of a docstring as Markdown, each on one line but for formulas that stand alone."""
    for block in cleandoc(documented.__doc__).split("\n\n"):
        joined = block if block.startswith(" ") else " ".join(block.split())
        yield joined.replace("``", "`").replace("Source:", "**Source:**")


def knobs(node: SimpleNamespace) -> str:
    """Return the knobs of a node with their defaults."""
    pairs = {name: value for name, value in vars(node).items() if name != "name"}
    return ", ".join(f"`{name}` {shown(value)}" for name, value in pairs.items())


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
    pairs = [(name, value, node) for rule, node in said for name, value in rule.settings.items()]
    found = [(name, value(node, config) if callable(value) else value) for name, value, node in pairs]
    written = [f"`{name.removeprefix('actor_rollout_ref.')}={shown(value)}`" for name, value in found]
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
    return "; ".join(filter(None, (note(node, config) if callable(note) else note for note in rule.notes)))


def names(framework: str, one: Choice) -> str:
    """Return what a choice is called in a framework without a table."""
    found = [NAMES.get(part, {}).get(kind(part, node), {}).get(framework, "") for part, node in one.active.items()]
    return "; ".join(found) if all(found) else ""


def elsewhere(axis: str, config: Config) -> list[str]:
    """Return the table of what the choices of an axis are elsewhere."""
    rows = [
        [f"`{one.axis}={one.label}`"]
        + [settings(each, one, config) for each in TABLES.values()]
        + [names(each, one) for each in FRAMEWORKS]
        for one in choices(axis)
    ]
    return table(["choice", *TABLES, *FRAMEWORKS], rows)


def uses(axis: str, name: str, config: Config) -> Iterator[str]:
    """Yield the lines of each choice that a function of an axis is in."""
    for one in choices(axis):
        for part, node in one.active.items():
            if node.name == name:
                place = part.partition(".")[2]
                told = "; ".join(filter(None, [place, knobs(node), one.comment]))
                yield f"- `{axis}={one.label}`" + (f": {told}" if told else "")
                there = {name: differences(each, part, node, config) for name, each in TABLES.items()}
                yield from (f"  - {name}: {text}" for name, text in there.items() if text)


def section(axis: str, config: Config) -> list[str]:
    """Return everything about an axis."""
    lines = [f"## {axis}", "", *separated(paragraphs(module(axis))), *elsewhere(axis, config), ""]
    for name, function in functions(axis).items():
        lines += [f"### {axis}: {name}", "", *separated(paragraphs(function)), *uses(axis, name, config), ""]
    return lines


def separated(blocks: Iterator[str]) -> Iterator[str]:
    """Yield blocks with an empty line after each."""
    for block in blocks:
        yield from (block, "")


def presets() -> list[str]:
    """Return the table of presets: what they choose other than ``config.yaml``."""
    default = chosen(CONF / "config.yaml")
    rows = []
    for path in sorted((CONF / "preset").glob("*.yaml")):
        picked = [f"`{axis}={label}`" for axis, label in chosen(path).items() if default[axis] != label]
        rows.append([f"`preset={path.stem}`", comment(path), " ".join([*picked, *leaves(tree(path))])])
    return ["## preset", "", *table(["preset", "what it is", "choices other than the default"], rows), ""]


def leaves(values: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the numbers and texts of a tree as they are typed on the command line."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{above}{name}.")
        else:
            yield f"`{above}{name}={shown(value)}`"


def chosen(path: Path) -> dict[str, str]:
    """Return the choices in the defaults list of a YAML."""
    entries = OmegaConf.to_container(OmegaConf.load(path)).get("defaults", [])
    pairs = [pair for entry in entries if isinstance(entry, dict) for pair in entry.items()]
    return {group.removeprefix("override ").strip("/"): label for group, label in pairs}


def page() -> str:
    """Return docs/variants.md."""
    config = compose()
    lines = [line for axis in AXES for line in section(axis, config)]
    return HEAD + "\n".join([*lines, *presets()])


if __name__ == "__main__":
    print(page(), end="")
