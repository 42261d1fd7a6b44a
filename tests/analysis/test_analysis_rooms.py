"""The rooms of the analysis: imports run one way."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ORDER = ["data", "stats", "figures", "report", "commands"]
FILES = sorted((ROOT / "analysis").rglob("*.py"))


def module_name(path):
    """`analysis/data/load.py` → `rlexp.analysis.data.load`."""
    return ".".join(("rlexp", *path.relative_to(ROOT).with_suffix("").parts))


def room(module):
    """The room of a module by its dotted name; files at the top are commands."""
    part = module.split(".")[2]
    return part if part in ORDER else "commands"


def imported(path):
    """Dotted names of all modules that a file imports anywhere, those under TYPE_CHECKING too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from names if node.module in ("rlexp", "rlexp.analysis") else [node.module]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path):
    own = module_name(path)
    place = -1 if own == "rlexp.analysis.__init__" else ORDER.index(room(own))
    for module in imported(path):
        ours = module.startswith("rlexp.analysis.")
        if ours and place >= 0:
            assert ORDER.index(room(module)) <= place, f"{own} imports {module}"
        if ours and place < 0:
            assert room(module) == "data", f"the package itself imports {module}"


def test_no_cycle():
    graph = {}
    for path in FILES:
        own = module_name(path).removesuffix(".__init__")
        graph[own] = {name for name in imported(path) if name.startswith("rlexp.analysis.")}
    left = {name: targets & set(graph) for name, targets in graph.items()}
    while ends := [name for name, targets in left.items() if not targets & set(left)]:
        for name in ends:
            del left[name]
    assert left == {}
