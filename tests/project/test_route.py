"""The way from the command line to a formula, as docs/architecture.md tells it, and how short it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STACK = """
import sys, traceback
from pathlib import Path
import rlexp, rlexp.train

found, package = set(), f"{Path(rlexp.__file__).parent}/"
def spy(rewards, keep):
    frames = [frame for frame in traceback.extract_stack()[:-1] if frame.filename.startswith(package)]
    found.add(tuple(f"{frame.filename.removeprefix(package)} {frame.name}" for frame in frames))
    return rewards - rewards.mean(-1, keepdim=True)

rlexp.register("norm", spy)
sys.argv = ["rlexp", *sys.argv[1:]]
rlexp.train.main()
print(*next(each for each in found if "loop/step.py train_step" in each), sep="\\n", file=sys.stderr)
"""


def test_at_most_twelve_functions_lie_between_the_command_and_the_formula(tmp_path):
    overrides = ["norm=spy", "steps=1", "eval.prompts=8", "logger=none", f"hydra.run.dir={tmp_path}/run"]
    found = subprocess.run([sys.executable, "-c", STACK, *overrides], capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    stack = found.stderr.strip().split("\n")
    stack = stack[stack.index("train.py main") :]
    assert len(stack) <= 10, stack
    # each of them is a row of the table, but for the one that cuts the batch into variants
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("**Where does `norm=local` become a function?**")[2].partition("**Where does a metric")[0]
    rows = re.findall(r"^\| \d+ \| `(\S+)` (.+?) \|", section, re.MULTILINE)
    assert len(rows) <= 12
    told = {f"{file} {name}" for file, names in rows for name in re.findall(r"`([\w.]+)`", names)}
    assert {*stack} - told <= {"core/blocks.py map_variants"}
