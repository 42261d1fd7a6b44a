"""A whole sweep in one process and in several, with free cores or beside processes that keep them busy.

Three norms by the command line, ``hydra.launcher.workers=1``, ``2`` and ``auto``, in turn. ``--busy 2`` starts so many
neighbours that do nothing but keep a core busy, each in a session of its own as a real one would be.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.parts.common import alternating, fresh, options, publish, ratios, shown


def sweep(seeds: int, steps: int, workers: str) -> float:
    """Return the seconds of the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        given = ["norm=local,global,hybrid", f"seed=range(0,{seeds})", f"steps={steps}", "logger=none"]
        place = [f"hydra.launcher.workers={workers}", f"hydra.sweep.dir={Path(folder) / 'sweep'}"]
        return fresh("rlexp.train", "-m", *given, *place)["seconds"]


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Keep so many cores busy."""
    endless = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(endless, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    """Measure, print, write."""
    arguments = options(__doc__, repetitions=3, seeds=3, steps=400, workers="1,2,auto", busy=0)
    counts = arguments.workers.split(",")
    candidates = {each: lambda each=each: sweep(arguments.seeds, arguments.steps, each) for each in counts}
    with neighbours(arguments.busy):
        seconds = alternating(candidates, arguments.repetitions)
    rows = [
        {"workers": each, "whole command, s": shown(values), f"times workers={counts[0]}": shown(quotients)}
        for each, values in seconds.items()
        for quotients in [ratios(values, seconds[counts[0]])]
    ]
    publish("workers", rows, arguments, seconds=seconds)


if __name__ == "__main__":
    main()
