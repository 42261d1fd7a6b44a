"""The words of a claim, docs/claims/texts/<number>.yaml: what its source says, why, and which studies ask it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, model_validator

from benchmarks.parts.common import ROOT
from rlexp.config.choices import choices_of

HOME = ROOT / "docs" / "claims"

Read = Literal["full", "excerpt", "abstract", "second-hand"]


class Claim(BaseModel):
    """One claim; ``number`` is the name of its file."""

    model_config = ConfigDict(extra="forbid")

    number: str
    title: str
    says: str
    source: str
    read: Read
    """How much of the source was read before the studies were written."""
    further: dict[str, Read] = {}
    """Other sources, of which more or less was read."""
    studies: list[str] = []
    quick: list[str] = []
    """Those of the studies that are trained in seconds."""
    mechanism: str
    limits: str
    """What this toy cannot show."""
    practice: str = ""
    """What the results mean for somebody who trains a language model."""
    history: str = ""
    """What was changed of its studies after their first run, and why."""
    needs: str | None = None
    """What a claim without studies needs that is not here."""

    @model_validator(mode="after")
    def is_asked_or_says_why_not(self) -> Claim:
        """Refuse a claim with neither studies nor a reason, and studies that do not exist."""
        unknown = {*self.studies} - {*choices_of("study")}
        if unknown or not set(self.quick) <= set(self.studies):
            raise ValueError(f"{self.number}: no such study: {unknown or set(self.quick) - set(self.studies)}")
        if not self.studies and not self.needs:
            raise ValueError(f"{self.number}: has neither studies nor what it needs")
        return self

    @property
    def label(self) -> str:
        """`C1` of `c01`."""
        return f"{self.number[0].upper()}{int(self.number[1:])}"


def read_claims(folder: Path = HOME / "texts") -> list[Claim]:
    """Return all claims in the order of their numbers."""
    files = sorted(folder.glob("*.yaml"))
    return [Claim(number=file.stem, **yaml.safe_load(file.read_text(encoding="utf-8"))) for file in files]


def studies_of(claims: Sequence[Claim], quick: bool = False) -> list[str]:
    """Return the studies of claims, each once, those that take seconds first."""
    short = [name for claim in claims for name in claim.quick]
    return list(dict.fromkeys(short if quick else [*short, *(name for claim in claims for name in claim.studies)]))
