"""(a) Completions a second: one run, and ten and thirty as one batch, of the default recipe."""

from __future__ import annotations

import os

from benchmarks.common import Training, alternating, options, publish, ratios, shown


def main() -> None:
    """Measure, print, write."""
    arguments = options(__doc__, repetitions=7, steps=10, most=30)
    threads = [1, 2] if (os.cpu_count() or 1) > 1 else [1]
    trainings = {runs: Training(runs) for runs in (1, 10, 30) if runs <= arguments.most}
    cases = {(runs, n): runs_of for runs, runs_of in trainings.items() for n in (threads if runs > 1 else [1])}
    candidates = {
        f"{runs} runs, {n} threads": lambda each=each, n=n: each.completions / each.seconds(arguments.steps, n)
        for (runs, n), each in cases.items()
    }
    rates = alternating(candidates, arguments.repetitions)
    rows = []
    for (runs, n), values in zip(cases, rates.values(), strict=True):
        rows.append(
            {
                "runs": runs,
                "threads": n,
                "completions/s": shown(values),
                "a run": shown([value / runs for value in values]),
                "times a single run": shown(ratios(values, next(iter(rates.values())))),
            }
        )
    publish("throughput", rows, arguments, completions_per_second=rates)


if __name__ == "__main__":
    main()
