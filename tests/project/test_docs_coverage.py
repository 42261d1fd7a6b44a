"""docs/coverage.md has a row for every item of the source documents, held by tests that say so themselves.

A test says by ``@pytest.mark.holds("S0.18", "E9")`` which rows it holds. Page and tests have to agree.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coverage.md"
ITEMS = [f"S{document}.{item}" for document, most in enumerate((20, 29, 15, 17, 20)) for item in range(1, most + 1)] + [
    f"E{error}" for error in range(1, 57)
]
OUTSIDE = "out of scope: "


def rows() -> dict[str, list[str]]:
    """Return the cells of every row by its item; one that has two rows fails."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [re.split(r"\s*\|\s*", line.strip()[1:-1].strip()) for line in lines]
    found = [row for row in cells if re.fullmatch(r"(S\d\.|E)\d+", row[0])]
    names = [row[0] for row in found]
    assert len(names) == len({*names})
    return {row[0]: row[1:] for row in found}


@cache
def named_tests() -> dict[str, set[str]]:
    """Return the tests that hold each row, as the page has them: ``file::test``, or ``file::test[case]``."""
    return {item: {*re.findall(r"`(tests/[^`]*::[^`]*)`", held)} for item, (_, _, held) in rows().items()}


@cache
def rows_held() -> set[tuple[str, str]]:
    """Return the rows that tests say they hold, each with the test."""
    found = set()
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.holds":
                    test = f"{file.relative_to(ROOT).as_posix()}::{node.name}"
                    found |= {(ast.literal_eval(item), test) for item in mark.args}
    return found


def test_every_item_has_one_row():
    assert [*rows()] == ITEMS


def test_what_a_row_names_exists():
    gone = []
    for item, (_, where, _) in rows().items():
        named = re.findall(r"`((?:analysis|benchmarks|conf|docs|examples|rlexp|tests)/[^`]*)`", where)
        gone += [f"{item}: {name}" for name in named if not (ROOT / name).exists()]
    assert gone == []


def test_a_row_is_held_by_tests_that_say_so_or_is_out_of_scope():
    assert [
        item for item, tests in named_tests().items() if not tests and not rows()[item][2].startswith(OUTSIDE)
    ] == []
    named = {(item, test.partition("[")[0]) for item, tests in named_tests().items() for test in tests}
    assert (sorted(named - rows_held()), sorted(rows_held() - named)) == ([], [])


@pytest.mark.slow
def test_the_cases_that_hold_a_row_are_collected():
    named = {test for tests in named_tests().values() for test in tests if "[" in test}
    files = sorted({test.partition("::")[0] for test in named})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    collected = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    assert named and sorted(named - {*collected}) == []
