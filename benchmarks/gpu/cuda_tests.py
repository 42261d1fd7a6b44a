"""The tests that need a CUDA device, each with what came of it: the quick ones, then the rare ones while time lasts.

Without a device all are skipped. ``python -m pytest -m cuda tests`` runs all of them, however long it takes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from importlib.util import find_spec

from benchmarks.gpu.part import Part
from benchmarks.parts.common import ROOT, environment_here

OUTCOME = re.compile(r"^tests/\S+?::(?P<test>\S+) (?P<outcome>PASSED|FAILED|ERROR|SKIPPED)\b")


def main() -> None:
    """Run pytest on the files that have such tests; exit with 1 and a line where one failed, or none was found."""
    part = Part(__doc__)
    if find_spec("pytest") is None:
        sys.exit("pytest is not installed: pip install '.[test]'")
    found = [outcome for mark in ("not rare", "rare") for outcome in run(part, f"cuda and {mark}")]
    kinds = dict.fromkeys(outcome for _, outcome in found)
    part.note(", ".join(f"{sum(outcome == kind for _, outcome in found)} {kind}" for kind in kinds))
    if wrong := [test for test, outcome in found if outcome in ("failed", "error")]:
        sys.exit(f"{len(wrong)} tests failed: {', '.join(wrong)}")
    if not found:
        sys.exit("pytest ran no test")


def run(part: Part, marks: str) -> list[tuple[str, str]]:
    """Run the tests with these marks until time is up; return each test that was run with its outcome."""
    files = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.cuda" in path.read_text("utf-8")]
    command = [sys.executable, "-m", "pytest", "-v", "-m", marks, "-p", "no:cacheprovider", *map(str, files)]
    settings = {"cwd": ROOT, "env": environment_here(), "text": True}
    found, up = [], threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings) as process:

        def stop() -> None:
            up.set()
            process.kill()

        timer = threading.Timer(max(part.ends - time.monotonic(), 0), stop)
        timer.start()
        for line in process.stdout:
            print(line, end="", flush=True)
            if outcome := OUTCOME.match(line):
                found.append((outcome["test"], outcome["outcome"].lower()))
                part.row(test=outcome["test"], outcome=outcome["outcome"].lower())
        timer.cancel()
    if up.is_set():
        part.note(f"time was up before all tests that are {marks} had run")
    return found


if __name__ == "__main__":
    main()
