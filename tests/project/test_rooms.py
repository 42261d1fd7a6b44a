"""The house: rooms import from rooms below them only, nothing imports in a circle. A test lists all offenders."""

from __future__ import annotations

import ast
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# From the ground up: a room imports from itself and from those before it.
ROOMS = ["core", "runfolder", "axes", "tasks", "language", "models", "loop", "record", "config"]
ROOMS += ["functional", "testing"]
FILES = ["training", "make_model", "doctor", "worked", "train", "api", "__main__"]  # rooms of one file
ROOMS += ["analysis", "sweep", "training", "backends", "launch", "export"]
ROOMS += [*FILES[1:-1], "question", "ablation", "speedrun", FILES[-1]]


def python_files(*folders: str) -> list[Path]:
    """Python files that git tracks, or would, below the folders."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *folders]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted(ROOT / name for name in names if name.endswith(".py") and (ROOT / name).is_file())


def module_name(path: Path) -> str:
    """`rlexp/loop/step.py` → `rlexp.loop.step`; `analysis/compare.py` → `rlexp.analysis.compare`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("rlexp", *parts) if parts[0] == "analysis" else parts).removesuffix(".__init__")


def imports(path: Path) -> set[str]:
    """Names of all modules that a file imports anywhere, those that only type checkers see included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def room(module: str) -> str:
    """`rlexp.loop.step` → `loop`."""
    return module.split(".")[1] if module.count(".") else ""


def test_a_room_imports_from_rooms_below_it():
    above = {}
    for path in python_files("rlexp"):
        here = room(module_name(path))
        theirs = {room(name) for name in imports(path) if name.startswith("rlexp.")} - {"__version__", "MKL_MODE"}
        above[module_name(path)] = theirs - set(ROOMS[: ROOMS.index(here) + 1] if here else ())
    assert not {module: sorted(rooms) for module, rooms in above.items() if rooms}


def test_the_analysis_knows_nothing_of_training():
    strangers = {"rlexp", "hydra_plugins", "torch", "hydra"}
    shared = ("rlexp.analysis", "rlexp.runfolder", "rlexp.core.exits")
    others = {
        path: {name for name in imports(path) if not name.startswith(shared)} for path in python_files("analysis")
    }
    found = {path: strangers & {name.split(".")[0] for name in names} for path, names in others.items()}
    assert not {module_name(path): names for path, names in found.items() if names}


def test_training_knows_of_the_analysis_only_where_it_has_ended_and_from_python():
    files = {path: imports(path) for path in python_files("rlexp") if path != ROOT / "rlexp/analysis.py"}
    users = {module_name(path) for path, names in files.items() if any("rlexp.analysis" in name for name in names)}
    assert {room(user) for user in users} <= {"launch", "api", "question", "ablation", "speedrun"}, users


def test_nothing_imports_in_a_circle():
    files = {module_name(path): path for path in python_files("rlexp", "analysis", "hydra_plugins", "benchmarks")}
    edges = {name: {other for other in imports(path) if other in files} - {name} for name, path in files.items()}
    visited, path = set(), []

    def visit(name: str) -> None:
        if name in path:
            pytest.fail(" -> ".join([*path[path.index(name) :], name]))
        if name in visited:
            return
        path.append(name)
        for other in sorted(edges[name]):
            if not name.startswith(f"{other}."):  # a package is loaded before its modules whatever they import
                visit(other)
        visited.add(path.pop())

    for name in sorted(files):
        visit(name)


def test_the_order_of_the_rooms_is_that_of_the_document():
    """docs/architecture.md draws the rooms in this order."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    modules = {*FILES, "analysis"}
    places = [text.index(f"`rlexp/{name}.py`" if name in modules else f"`rlexp/{name}/`") for name in ROOMS]
    assert all(lower < upper for lower, upper in pairwise(places))


def test_the_page_names_every_file_that_calls_axis_functions():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    box = page.partition("**The box.**")[2].partition("\n**")[0]
    named = set(re.findall(r"`([a-z_/]+\.py)`", box))
    texts = {path.relative_to(ROOT / "rlexp").as_posix(): path.read_text("utf-8") for path in python_files("rlexp")}
    by_name = {name for name, text in texts.items() if re.search(r"(?<!def )\bcall_with\(", text)}
    assert by_name == named
