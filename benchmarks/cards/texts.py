"""The words of a card, docs/claims/cards/<number>.yaml: what is claimed, why, and which questions ask it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmarks.claims.texts import HOME, Read
from benchmarks.stored.folders import QUESTIONS

REPLICATION = "_replication"
"""What the name of a question ends with that asks the same of fresh seeds and of more settings."""
TASKS = "_tasks"
"""What the name of a question ends with that asks the same on other tasks, and of a larger model."""


class Refused(Exception):
    """Cards of which no page can be written, in one line."""


class Trust(BaseModel):
    """How far an answer can be trusted."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    grade: Literal["A", "B", "C", "D"]
    reason: str


class Card(BaseModel):
    """One claim; ``number`` is the name of its file."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    number: Annotated[str, Field(pattern=r"^[a-z]\d\d$")]
    claim: str
    """In plain English, as its authors would say it."""
    said: str
    """In the terms of the paper."""
    source: str
    read: Read
    """How much of the source could be read."""
    regime: str
    """In which the paper has it: model, lengths, updates, batch, rate."""
    questions: Annotated[list[str], Field(max_length=6)]
    """Names in conf/study/questions, of small models, of language models and of replications."""
    why: str
    objection: str
    """The strongest that its authors would have."""
    known: str
    """What is known about the objection."""
    explored: str | None = None
    """The exploratory claim, as c03."""
    answer: Annotated[str, Field(max_length=170)] | None = None
    """In one sentence; this and what follows is written after the questions were answered."""
    details: str | None = None
    """What the sentence leaves out: settings, dependence, secondary numbers, and what was looked at afterwards."""
    practice: str | None = None
    trust: Trust | None = None

    @property
    def label(self) -> str:
        """`C3` of `c03`."""
        return label(self.number)


def label(number: str) -> str:
    """Return a claim's number as it is shown: `C3` of `c03`."""
    return f"{number[0].upper()}{int(number[1:])}"


def read_cards(folder: Path = HOME / "cards") -> list[Card]:
    """Return all cards in the order of their numbers.

    Raises:
        Refused: a file is no card, or names a question that there is not.
    """
    return [read_card(file) for file in sorted(folder.glob("*.yaml"))]


def read_card(file: Path) -> Card:
    """Return the card of a file; Refused where it is none."""
    try:
        card = Card(number=file.stem, **yaml.safe_load(file.read_text(encoding="utf-8")))
    except (ValidationError, yaml.YAMLError, TypeError) as error:
        why = " ".join(str(error).split())
        if isinstance(error, ValidationError):
            (*_, key), why = (error.errors()[0][name] for name in ("loc", "msg"))
            why = f"{key}: {why}"
        raise Refused(f"{file.name}: {why}") from None
    if unknown := [name for name in card.questions if not (QUESTIONS / f"{name}.yaml").is_file()]:
        raise Refused(f"{file.name}: {unknown[0]}: is no question in conf/study/questions")
    return card
