"""(e) Time from the command to the end of the first training step of a single run, with the files in the disk cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.parts.common import ROOT, alternating, options, publish, shown

QUICK = ("steps=2", "log_every=1", "eval.every=2")


def until_line(number: int, *overrides: str) -> float:
    """Start a run; return the seconds until line ``number`` of its metrics is on the disk. The first is step 0."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        metrics = Path(folder) / "run" / "metrics.jsonl"
        command = [sys.executable, "-m", "rlexp.train", *QUICK, *overrides, f"hydra.run.dir={metrics.parent}"]
        started = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        seconds = None
        while seconds is None and process.poll() is None:
            time.sleep(0.005)
            if metrics.exists() and metrics.read_bytes().count(b"\n") >= number:
                seconds = time.perf_counter() - started
        error = process.communicate()[1].decode()
        if seconds is None or process.returncode:
            raise RuntimeError(f"the run ended with {process.returncode}: {error}")
        return seconds


def until_imported() -> float:
    """Return the seconds of a process that imports torch and does nothing."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - started


def main() -> None:
    """Measure, print, write; a first run of each kind only fills the disk cache."""
    arguments = options(__doc__, repetitions=5)
    candidates = {
        "a process that imports torch": until_imported,
        "first evaluation, logger=none": lambda: until_line(1, "logger=none"),
        "first step, logger=none": lambda: until_line(2, "logger=none"),
        "first step, logger=wandb (default, offline)": lambda: until_line(2),
    }
    alternating(candidates, 1)
    seconds = alternating(candidates, arguments.repetitions)
    rows = [{"until the end of": name, "s": shown(values)} for name, values in seconds.items()]
    publish("startup", rows, arguments, seconds=seconds)


if __name__ == "__main__":
    main()
