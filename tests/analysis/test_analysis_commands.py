"""Every command is a module of the package, and in a checkout of the folder too."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = [
    "compare",
    "transfer",
    "plan",
    "better",
    "ledger",
    "publish",
    "noise",
    "sensitivity",
    "report",
    "watch",
    "workspace",
    "figures.formulas",
]


def test_they_are_all_that_have_a_main():
    files = {path for path in (ROOT / "analysis").rglob("*.py") if "\ndef main(" in path.read_text(encoding="utf-8")}
    modules = {".".join(path.relative_to(ROOT / "analysis").with_suffix("").parts) for path in files}
    assert {name.removesuffix(".__main__") for name in modules} == {*COMMANDS}


HELP_OF_EACH = """
import runpy, sys
for name in sys.argv[1:]:
    sys.argv = [name, "--help"]
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        print("ended", name, end.code)
"""


@pytest.mark.slow
@pytest.mark.parametrize("package", ["rlexp.analysis", "analysis"])
def test_they_run_in_a_checkout(package):
    """One after another in a process; a start of each takes seconds."""
    modules = [f"{package}.{name}" for name in COMMANDS]
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", HELP_OF_EACH, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if line.startswith("ended ")] == [f"ended {m} 0" for m in modules]
    assert done.stdout.count("usage: ") == len(modules)
