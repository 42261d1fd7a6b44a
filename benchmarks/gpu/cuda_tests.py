"""The tests that need a CUDA device, each with what came of it; without a device they are skipped."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec

from benchmarks.gpu.part import Part
from benchmarks.parts.common import ROOT, environment_of

OUTCOME = re.compile(r"^(?P<test>tests/\S+?::\S+) (?P<outcome>PASSED|FAILED|ERROR|SKIPPED)\b")


def main() -> None:
    """Run pytest on the files that have such tests; exit with 1 and a line where one failed, or none was found."""
    part = Part(__doc__)
    if find_spec("pytest") is None:
        sys.exit("pytest is not installed: pip install '.[test]'")
    files = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.cuda" in path.read_text("utf-8")]
    command = [sys.executable, "-m", "pytest", "-v", "-m", "cuda", "-p", "no:cacheprovider", *map(str, files)]
    outcomes: dict[str, list[str]] = {}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment_of(ROOT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            if found := OUTCOME.match(line):
                outcomes.setdefault(found["outcome"].lower(), []).append(found["test"])
                part.row(test=found["test"].partition("::")[2], outcome=found["outcome"].lower())
    wrong = [*outcomes.get("failed", ()), *outcomes.get("error", ())]
    part.note(", ".join(f"{len(tests)} {outcome}" for outcome, tests in outcomes.items()))
    if wrong:
        sys.exit(f"{len(wrong)} tests failed: {', '.join(test.partition('::')[2] for test in wrong)}")
    if not outcomes:
        sys.exit(f"pytest ran no test and ended with {process.returncode}")


if __name__ == "__main__":
    main()
