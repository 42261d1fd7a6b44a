"""Override lists and YAML fragments, real ones and spoiled ones, through the command line up to the checks.

python -m tests.faults.fuzz --number 10000 --commands 100 --seed 0

Each input must end in runs that hold every value that was typed, or in lines that say what is wrong and exit code 2
with nothing written. A traceback, a word of a program error, a value that is not in the config, or half a minute of
waiting is a finding. ``--commands`` of the inputs that are refused are typed as real commands as well.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis

from tests.faults import inputs
from tests.faults.common import ROOT, options, store
from tests.faults.in_process import judge, outcome, stop_before_training


class Fuzz:
    """Inputs one after another, each in an empty folder, and what became of them."""

    def __init__(self, folder: Path):
        self.folder, self.counts = folder, Counter()
        self.findings: list[dict[str, Any]] = []
        self.refused: list[tuple[list[str], str]] = []
        stop_before_training()

    def overrides(self, number: int, seed: int) -> None:
        """Type so many override lists."""
        self.generate(inputs.arguments(), number, seed, self.try_arguments)

    def fragments(self, number: int, seed: int) -> None:
        """Let so many YAML files stand in a folder of the user's, and choose them."""
        self.generate(inputs.fragments(), number, seed, self.try_fragment)

    @staticmethod
    def generate(strategy: Any, number: int, seed: int, each: Any) -> None:
        """Call a function with so many examples of a strategy."""
        settings = hypothesis.settings(
            max_examples=number, deadline=None, database=None, derandomize=False, phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        hypothesis.seed(seed)(settings(hypothesis.given(strategy)(lambda example: each(example))))()

    def try_arguments(self, arguments: list[str], note: str = "") -> None:
        """Type one list."""
        empty(self.folder / "here")
        os.chdir(self.folder / "here")
        result = outcome(arguments)
        self.counts[result.kind] += 1
        if result.kind == "finding":
            self.findings.append({"arguments": arguments, "fragment": note, "finding": result.text[:500]})
        elif result.kind == "refused" and not note:
            self.refused.append((arguments, result.text))

    def try_fragment(self, fragment: tuple[str, str]) -> None:
        """Choose a file."""
        group, text = fragment
        empty(self.folder / "conf" / group)
        (self.folder / "conf" / group / "mine.yaml").write_text(text, encoding="utf-8", errors="replace")
        self.try_arguments(["--config-dir", str(self.folder / "conf"), f"{group}=mine"], f"{group}: {text}")

    def commands(self, number: int) -> None:
        """Type every so-manieth refused input as a real command: the same line and exit code."""
        every = max(1, len(self.refused) // max(number, 1))
        for arguments, expected in self.refused[::every][:number]:
            empty(self.folder / "here")
            command = [sys.executable, "-m", "rlexp.train", *arguments]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            done = subprocess.run(command, cwd=self.folder / "here", env=environment, capture_output=True, timeout=120)
            result = judge(done.returncode, done.stderr.decode(errors="backslashreplace"))
            self.counts["commands"] += 1
            if result.kind != "refused":
                self.findings.append({"command": arguments, "finding": result.text[:500], "in process": expected[:500]})


def empty(folder: Path) -> None:
    """Make a folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def main() -> int:
    """Print what was found; 1 if anything was."""
    chosen = options(__doc__, number=10_000, commands=100, seed=0)
    started, home = time.perf_counter(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(Path(folder))
        try:
            fuzz.overrides(chosen.number * 3 // 4, chosen.seed)
            fuzz.fragments(chosen.number // 4, chosen.seed)
            seconds = time.perf_counter() - started
            fuzz.commands(chosen.commands)
        finally:
            os.chdir(home)
    speed = round(sum(fuzz.counts[kind] for kind in ("valid", "refused", "shown", "finding")) / seconds, 1)
    for finding in fuzz.findings:
        print(finding)
    counts = dict(fuzz.counts)
    print(f"{counts}: {len(fuzz.findings)} findings, {speed} inputs a second, {time.perf_counter() - started:.0f} s")
    found = {"seed": chosen.seed, "counts": counts, "inputs_a_second": speed, "findings": fuzz.findings}
    store("fuzz", found | {"seconds": round(time.perf_counter() - started)}, chosen.results)
    return int(bool(fuzz.findings))


if __name__ == "__main__":
    sys.exit(main())
