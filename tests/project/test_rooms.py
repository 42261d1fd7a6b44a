"""The house: rooms import from rooms below them only, no file or folder is too large, nothing imports in a circle."""

from __future__ import annotations

import ast
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# From the ground up: a room imports from itself and from those before it.
ROOMS = ["core", "axes", "tasks", "language", "worked", "models", "loop", "record", "config"]
ROOMS += ["sweep", "backends", "launch", "export"]
FILES = ["make_model", "doctor", "train", "api", "__main__"]  # rooms of one file
ROOMS += [*FILES[:-1], "speedrun", FILES[-1]]
MOST_LINES, MOST_FILES = 270, 16
CODE = ("rlexp", "analysis", "hydra_plugins", "benchmarks", "tests")


def python_files(*folders: str) -> list[Path]:
    """Python files that git tracks, or would, below the folders."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *folders]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted(ROOT / name for name in names if name.endswith(".py") and (ROOT / name).is_file())


def module_name(path: Path) -> str:
    """`rlexp/loop/step.py` → `rlexp.loop.step`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


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


@pytest.mark.parametrize("path", python_files("rlexp"), ids=module_name)
def test_a_room_imports_from_rooms_below_it(path):
    here = room(module_name(path))
    theirs = {room(name) for name in imports(path) if name.startswith("rlexp.")} - {"__version__", "MKL_MODE"}
    allowed = set(ROOMS[: ROOMS.index(here) + 1]) if here else set()
    assert theirs <= allowed, f"{module_name(path)} imports from {sorted(theirs - allowed)}: rooms above its own"


@pytest.mark.parametrize("path", python_files("analysis"), ids=module_name)
def test_the_analysis_knows_nothing_of_training(path):
    assert not [name for name in imports(path) if name.split(".")[0] in ("rlexp", "hydra_plugins", "torch", "hydra")]


def test_training_knows_of_the_analysis_only_where_it_has_ended_and_from_python():
    files = {path: {name.split(".")[0] for name in imports(path)} for path in python_files("rlexp")}
    users = {module_name(path) for path, packages in files.items() if "analysis" in packages}
    assert {room(user) for user in users} <= {"launch", "api"}, users


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


@pytest.mark.parametrize("path", python_files(*CODE), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_read_in_one_go(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_a_folder_is_overlooked_at_a_glance():
    folders = [path.parent for path in python_files(*CODE) if path.name != "__init__.py"]
    crowded = {str(folder.relative_to(ROOT)): folders.count(folder) for folder in set(folders)}
    assert not {folder: count for folder, count in crowded.items() if count > MOST_FILES}


def test_the_order_of_the_rooms_is_that_of_the_document():
    """docs/architecture.md draws the rooms in this order."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    places = [text.index(f"`rlexp/{name}.py`" if name in FILES else f"`rlexp/{name}/`") for name in ROOMS]
    assert all(lower < upper for lower, upper in pairwise(places))


def test_the_page_names_every_file_that_calls_axis_functions():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    box = page.partition("**The box.**")[2].partition("\n**")[0]
    named = set(re.findall(r"`([a-z_/]+\.py)`", box))
    texts = {path.relative_to(ROOT / "rlexp").as_posix(): path.read_text("utf-8") for path in python_files("rlexp")}
    by_name = {name for name, text in texts.items() if re.search(r"(?<!def )\bcall_with\(", text)}
    assert by_name == named and "`worked/`" in box
