"""Every command is a module of the package, and in a checkout of the folder too."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = ["compare", "transfer", "plan", "better", "report", "watch", "workspace", "coverage", "figures.formulas"]


def test_they_are_all_that_have_a_main():
    files = {path for path in (ROOT / "analysis").rglob("*.py") if "\ndef main(" in path.read_text(encoding="utf-8")}
    modules = {".".join(path.relative_to(ROOT / "analysis").with_suffix("").parts) for path in files}
    assert {name.removesuffix(".__main__") for name in modules} == {*COMMANDS}


@pytest.mark.slow
@pytest.mark.parametrize("package", ["rlexp.analysis", "analysis"])
def test_they_run_in_a_checkout(package):
    for name in COMMANDS:
        command = [sys.executable, "-m", f"{package}.{name}", "--help"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("usage: "), name
