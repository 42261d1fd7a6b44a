"""The page from papers to commands: what trains a paper's trick, and what came out where it was asked."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from inspect import cleandoc
from pathlib import Path

import yaml

from benchmarks.catalogue import SECTIONS, functions
from benchmarks.claims.__main__ import stored as records
from benchmarks.claims.page import outcome_of
from benchmarks.claims.texts import read_claims
from benchmarks.parts.common import ROOT
from benchmarks.parts.yaml_files import Choice, comment
from benchmarks.parts.yaml_files import choices as choices_of
from benchmarks.parts.yaml_files import chosen as chosen_of
from benchmarks.site.markdown import slug
from rlexp.config.choices import CONF
from rlexp.config.schema import Config
from rlexp.core.errors import ConfigError

CITED = re.compile(r"(?P<name>[^.;:()]{2,80}?),? \(?arXiv:? ?(?P<number>\d{4}\.\d{5})|arXiv:? ?(?P<bare>\d{4}\.\d{5})")
NAMES = Path(__file__).with_name("papers.yaml")
ANSWERED = {  # folder of an answer -> the page that tells of it
    "ask": "ask.md",
    "prompts": "prompts.md",
    "teachers": "teachers.md",
} | {f"asked/{place.parent.name}": "asked.md" for place in sorted((ROOT / "docs/asked").glob("*/answer.json"))}
HINTED = " task=addition task.hint=5 start=pretrained_mixture start.hinted=0.3"  # a start that can read the answer
NEEDS = {"opsd": HINTED, "sdpo": HINTED}  # what a preset cannot do without
HEAD = """# Papers: one command each

A row for each paper that a choice, a recipe, a claim or a question names: a command that compares its trick with the
default, the choices that are its own, and what came out where it was asked here. *Not asked* says that nobody has, and
nothing about the paper.

`rlexp -m` trains ten paired seeds of both and prints a table. `rlexp study=` and `rlexp ask` train what was declared
beforehand. All of it is about small models: [what such a toy can say](get_started.md#what-is-trained).

| paper | one command | its choices | what came out |
|---|---|---|---|
"""


choices, chosen = cache(choices_of), cache(chosen_of)  # reading YAML is what takes time here


@dataclass
class Paper:
    """What is known of a paper, by the number that arXiv gave it."""

    names: Counter = field(default_factory=Counter)
    presets: list[str] = field(default_factory=list)
    choices: list[tuple[str, str]] = field(default_factory=list)
    studies: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)


def cited(text: str) -> Iterator[tuple[str, str]]:
    """Yield number and name of each paper that a text cites; an empty name where it has none."""
    for found in CITED.finditer(words(text).replace("`", "")):
        name = re.sub(r"^(Source|as|and|of|or|from|the|in) ", "", (found["name"] or "").strip(" ,*\"'"))
        yield found["number"] or found["bare"], name


def sources(one: Choice) -> Iterator[str]:
    """Yield the texts that say where a choice comes from: its comment, and the sources of its functions."""
    yield one.comment
    for node in one.active.values():
        function = functions(one.axis).get(node.name)
        yield " ".join(re.findall(r"Source: (.*)", words(cleandoc(function.__doc__ or "")))) if function else ""


def collect() -> dict[str, Paper]:
    """Return all papers by number."""
    papers: dict[str, Paper] = defaultdict(Paper)

    def add(text: str, kind: str, entry, first: bool = False) -> None:
        for number, name in list(cited(text))[: 1 if first else None]:
            papers[number].names[name] += bool(name)
            entries = getattr(papers[number], kind)
            if entry not in entries:
                entries.append(entry)

    for path in sorted((CONF / "preset").glob("*.yaml")):
        add(comment(path), "presets", path.stem, first=True)
    for axis in SECTIONS:
        for one in choices(axis):
            for text in sources(one):
                add(text, "choices", (axis, one.label))
    done = records()
    for claim in (each for each in read_claims() if each.studies):
        word = outcome_of(claim, done).word
        for source in (claim.source, *claim.further):
            add(source, "outcomes", f"[{claim.label}](claims_explored.md#{claim.label.lower()}): {word}")
            for study in [name for name in claim.studies if name in done][:1]:
                add(source, "studies", study)
    questions = sorted((CONF / "study/questions").glob("*.yaml"))
    names = {words(yaml.safe_load(path.read_text("utf-8"))["question"]): path.stem for path in reversed(questions)}
    for folder, page in ANSWERED.items():
        home = ROOT / "docs" / folder
        answer = json.loads((home / "answer.json").read_text(encoding="utf-8"))
        said = "; ".join(dict.fromkeys(each["word"] for each in answer["assertions"]))
        add(answer["declared"]["source"], "outcomes", f"[question]({page}): {said}")
        add(answer["declared"]["source"], "questions", names[words(answer["declared"]["question"])])
    return papers


def words(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def allowed(axis: str, label: str) -> bool:
    """Tell whether a run can be of a choice with everything else at its default."""
    try:
        Config(**{axis: label})
    except ConfigError:
        return False
    return True


def command(paper: Paper) -> str:
    """Return the shortest command that trains a paper's trick beside what it is compared with; empty if none does."""
    default = chosen(CONF / "config.yaml")
    for preset in paper.presets:
        return "rlexp preset=grpo" if preset == "grpo" else f"rlexp -m preset=grpo,{preset}{NEEDS.get(preset, '')}"
    for axis, label in paper.choices:
        if label == default[axis]:
            return f"rlexp {axis}={label}"
        if allowed(axis, label):
            return f"rlexp -m {axis}={default[axis]},{label}"
    asked = [*(f"rlexp ask {name}" for name in paper.questions), *(f"rlexp study={name}" for name in paper.studies)]
    return next(iter(asked), "")


def link(axis: str, label: str) -> str:
    """Return a link to where a choice is told of."""
    one = next(each for each in choices(axis) if each.label == label)
    named = [node.name for node in one.active.values() if node.name in functions(axis)]
    return f"[`{axis}={label}`](variants.md#{slug(f'{axis}: {named[0]}') if named else axis})"


def rows() -> Iterator[tuple[str, ...]]:
    """Yield paper, command, choices and outcomes, in the order of names."""
    known = yaml.safe_load(NAMES.read_text(encoding="utf-8"))
    found = []
    for number, paper in collect().items():
        common = max(paper.names, key=lambda name: (paper.names[name], -len(name)), default="")
        found.append((known.get(number, common[:1].upper() + common[1:]), number, paper))
    for name, number, paper in sorted(found, key=lambda row: (not row[0], row[0].lower(), row[1])):
        if line := command(paper):
            cite = f"[{number}](https://arxiv.org/abs/{number})"
            links = " ".join(link(*choice) for choice in paper.choices)
            yield (
                f"{name} ({cite})" if name else cite,
                f"`{line}`",
                links or "–",
                "<br>".join(paper.outcomes) or "not asked",
            )


def page() -> str:
    """Return the page as Markdown."""
    return HEAD + "".join(f"| {' | '.join(cells)} |\n" for cells in rows())


if __name__ == "__main__":
    print(page(), end="")
