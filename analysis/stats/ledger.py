"""A ledger: what was asked in a campaign, in the order of asking, a line of JSON each.

The first line is the budget, which nothing changes later. A line that was half written by a killed process is dropped
when the next one is added: its answer was never printed.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.alpha_spending import next_level

Row = dict[str, Any]


class Ledger:
    """The budget of a campaign and the questions that were asked of it."""

    def __init__(self, file: Path, budget: Row, rows: list[Row]) -> None:
        """Hold what `read` found."""
        self.file, self.budget, self.rows = file, budget, rows

    @property
    def level(self) -> float:
        """The level of the next question; 0 where the budget is spent."""
        return next_level(
            [row["answer"] != "open" for row in self.rows], self.budget["questions"], self.budget["alpha"]
        )

    def asked(self, question: Row) -> Row | None:
        """Return the row of the same question on the same data, which costs nothing to answer again."""
        return next((row for row in self.rows if all(row[key] == value for key, value in question.items())), None)

    def add(self, question: Row, found: Row) -> Row:
        """Write an answer down before anybody reads it; return its row."""
        when = datetime.now(UTC).isoformat(timespec="seconds")
        row = {"number": len(self.rows) + 1, "at": when, "level": self.level} | question | found
        write(self.file, [self.budget, *self.rows, row])
        self.rows.append(row)
        return row


@contextmanager
def open_ledger(file: Path) -> Iterator[Ledger]:
    """Read a ledger and keep other processes out of it meanwhile.

    Raises:
        AnalysisError: there is none, or it is not one.
    """
    if not file.is_file():
        raise AnalysisError(f"{file}: no such ledger; begin one with: rlexp ledger {file} --questions 20")
    with FileLock(f"{file}.lock"):
        yield read(file)


def begin(file: Path, questions: int, alpha: float) -> Ledger:
    """Write a new ledger.

    Raises:
        AnalysisError: there is one already.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{file}.lock"):
        if file.exists():
            raise AnalysisError(
                f"{file}: is there already; its budget stays what it is, a new campaign needs a new file"
            )
        budget = {"alpha": alpha, "questions": questions, "begun": datetime.now(UTC).isoformat(timespec="seconds")}
        write(file, [budget])
        return Ledger(file, budget, [])


def read(file: Path) -> Ledger:
    """Read a ledger; AnalysisError where a line other than the last is not one of a ledger."""
    lines = file.read_text(encoding="utf-8").split("\n")
    try:
        budget, *rows = map(json.loads, lines[:-1])
        if not {"alpha", "questions"} <= budget.keys() or any("answer" not in row for row in rows):
            raise KeyError
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise AnalysisError(f"{file}: is not a ledger") from error
    return Ledger(file, budget, rows)


def write(file: Path, rows: list[Row]) -> None:
    """Replace a file whole: a kill leaves the old one or the new one."""
    new = file.with_name(f"{file.name}.new")
    new.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    os.replace(new, file)
