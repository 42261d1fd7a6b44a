"""The studies of conf/study: a file each, or in conf/study/claims those of a claim in one file, below their names.

A study of a claim is written as in a file of its own, but for its name; ``source.py`` shows Hydra such a file.
``c05_dynamic_sgd`` is in claims/c05.yaml: the names of the studies of a claim begin with that of their file.
"""

from __future__ import annotations

import re
from functools import cache
from textwrap import dedent

from rlexp.config.conf_folder import CONF

FOLDER = CONF / "study"


@cache
def claims() -> list[str]:
    """Return the names of the claims."""
    return [file.stem for file in (FOLDER / "claims").glob("*.yaml")]


def claim_text(claim: str) -> str:
    """Return the file of a claim."""
    return (FOLDER / "claims" / f"{claim}.yaml").read_text(encoding="utf-8")


@cache
def studies_of(claim: str) -> dict[str, str]:
    """Return the YAML of each study of a claim, by name."""
    _, *parts = re.split(r"^(\w+):\n", claim_text(claim), flags=re.MULTILINE)
    return dict(zip(parts[::2], map(dedent, parts[1::2]), strict=True))


def claimed_studies() -> list[str]:
    """Return the names of the studies of all claims."""
    return [study for claim in claims() for study in studies_of(claim)]


def study_text(name: str) -> str | None:
    """Return the YAML of a study of a claim; None for any other name."""
    having = (studies_of(claim) for claim in claims() if name.startswith(claim))
    return next((studies[name] for studies in having if name in studies), None)
