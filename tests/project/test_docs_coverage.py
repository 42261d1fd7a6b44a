"""docs/coverage.md has a row for every item of the source documents, and every file and test that it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coverage.md"
ITEMS = [f"S{document}.{item}" for document, most in enumerate((20, 29, 15, 17, 20)) for item in range(1, most + 1)] + [
    f"E{error}" for error in range(1, 49)
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
def functions_of(file: str) -> set[str]:
    """Return the names of the functions of a file."""
    nodes = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_every_item_has_one_row():
    assert [*rows()] == ITEMS


def test_what_a_row_names_exists_and_a_test_holds_it():
    gone, not_held = [], []
    for item, (what, where, held) in rows().items():
        named = re.findall(r"`((?:analysis|benchmarks|conf|docs|examples|rlexp|tests)/[^`]*)`", f"{where} {held}")
        for name in named:
            file, _, test = name.partition("::")
            if not (ROOT / file).exists() or test and test not in functions_of(file):
                gone.append(f"{item}: {name}")
        if not what or not held.startswith(OUTSIDE) and not any("::" in name for name in named):
            not_held.append(item)
    assert not gone and not not_held
