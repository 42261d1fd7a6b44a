"""(f) Peak memory by number of runs, each in a fresh process: what a run adds, and whether that stays the same."""

from __future__ import annotations

import json
import sys

from benchmarks.parts.common import Training, alternating, fresh, options, peak_memory, publish, shown

RUNS = (1, 10, 20, 40, 80)


def main() -> None:
    """Measure, print, write; ``worker runs steps`` trains in this process."""
    if sys.argv[1:2] == ["worker"]:
        runs, steps = map(int, sys.argv[2:4])
        training = Training(runs)
        training.seconds(steps)
        print(json.dumps({"peak": peak_memory()}))
        return
    arguments = options(__doc__, repetitions=3, steps=10, sizes=5)
    counts = RUNS[: arguments.sizes]

    def peak(runs: int) -> float:
        return fresh("benchmarks.memory", "worker", runs, arguments.steps)["peak"]

    peaks = alternating({str(runs): lambda runs=runs: peak(runs) for runs in counts}, arguments.repetitions)
    rows, before = [], None
    for runs, values in zip(counts, peaks.values(), strict=True):
        added = ""
        if before:
            added = shown([(a - b) / (runs - before[0]) for a, b in zip(values, before[1], strict=True)])
        rows.append({"runs": runs, "peak MB": shown(values, 4), "MB for each run more than in the row above": added})
        before = runs, values
    publish("memory", rows, arguments, megabytes=peaks)


if __name__ == "__main__":
    main()
