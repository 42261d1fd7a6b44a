"""When a question was committed, declared and first trained: what is younger than its first run has no headline."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.cards.asked import Asked
from benchmarks.cards.texts import REPLICATION, Card, Refused
from benchmarks.stored.folders import QUESTIONS
from rlexp.question.declare import declaration
from rlexp.question.spec import named_conditions, read_question
from rlexp.runfolder.variants import result_overrides


def answered(card: Card, answers: Mapping[str, Asked]) -> list[Asked]:
    """Return the kept answers of a card.

    Raises:
        Refused: a question is younger than its first run.
    """
    found = [answers[name] for name in card.questions if name in answers]
    for one in found:
        check_declared(one, committed_since(one.name))
    return found


def last_asked(found: Iterable[Asked]) -> list[Asked]:
    """Return those of a page's answers whose words count: a replication's are in the place of the first ones."""
    there = {one.name: one for one in found}
    return [one for name, one in there.items() if name + REPLICATION not in there]


class Committed(NamedTuple):
    """The commit since which a question asks what it asks."""

    commit: str
    time: datetime


@cache
def committed_since(name: str) -> Committed | None:
    """Return the commit since which a question that comes with the program asks what it asks."""
    return committed(QUESTIONS / f"{name}.yaml")


def committed(file: Path) -> Committed | None:
    """Return the oldest commit since which a file of a question holds what it holds; None if no commit has it so."""
    found, now = None, yaml.safe_load(file.read_text(encoding="utf-8"))
    for line in git(file, "log", "--format=%H %cI", "--", file.name).splitlines():
        commit, time = line.split()
        if yaml.safe_load(git(file, "show", f"{commit}:./{file.name}")) != now:  # another comment is no other question
            break
        found = Committed(commit, datetime.fromisoformat(time))
    return found


def git(file: Path, *arguments: str) -> str:
    """Return what git prints in a file's folder; nothing where it fails, as without a history."""
    return subprocess.run(["git", *arguments], cwd=file.parent, capture_output=True, text=True).stdout


def check_declared(one: Asked, since: Committed | None) -> None:
    """Refuse an answer whose question is younger than its first run, or another one than is shipped.

    Raises:
        Refused: in one line.
    """
    at = f"{one.name}: no headline:"
    if declared_now(one) != one.declared:
        raise Refused(f"{at} conf/study/questions/{one.name}.yaml asks something else than what was answered")
    if since is None:
        raise Refused(f"{at} git has no commit of conf/study/questions/{one.name}.yaml as it is")
    young = max((since.time, f"was committed ({since.commit[:8]})"), (one.declared_at, "was declared"))
    if young[0] > one.began:
        raise Refused(f"{at} the question {young[1]} at {young[0]:%F %T%z}, after its first run, {one.began:%F %T%z}")


def declared_now(one: Asked) -> dict[str, Any]:
    """Return what the shipped file declares, as it is kept; directions that it leaves open are as kept."""
    written = read_question(QUESTIONS / f"{one.name}.yaml")
    found = declaration(written, result_overrides(written.shared), named_conditions(written.conditions))
    for each, kept in zip(found["assertions"], one.declared["assertions"], strict=False):
        each["direction"] = each["direction"] or kept["direction"]
    return json.loads(json.dumps(found))
