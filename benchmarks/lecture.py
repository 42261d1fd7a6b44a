"""Forty seeds of the lecture's task (one arm of `study=lecture17`): as one batch, and one after another."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.parts.common import alternating, options, publish, ratios, shown

OVERRIDES = ("study=lecture17", "norm=local", "logger=none")


def seconds(seeds: int, together: bool, steps: int) -> float:
    """Train the seeds through the engine, in this process, with everything that a run writes."""
    from rlexp.config.compose import compose
    from rlexp.sweep.engine import train_jobs
    from rlexp.sweep.job import Job

    config = compose(*OVERRIDES, f"steps={steps}")
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for seed in range(seeds):
            place = Path(folder) / str(seed)
            place.mkdir()
            jobs.append(Job(config.model_copy(update={"seed": seed}), place, place.name, "local"))
        started = time.perf_counter()
        for batch in [jobs] if together else [[job] for job in jobs]:
            train_jobs(batch)
        return time.perf_counter() - started


def main() -> None:
    """Measure, print, write; ``--alone`` below ``--seeds`` trains fewer one after another and scales."""
    arguments = options(__doc__, repetitions=3, seeds=40, alone=40, steps=100)
    seconds(2, True, 2)
    scale = arguments.seeds / arguments.alone
    both = alternating(
        {
            "one batch": lambda: seconds(arguments.seeds, True, arguments.steps),
            "one after another": lambda: scale * seconds(arguments.alone, False, arguments.steps),
        },
        arguments.repetitions,
    )
    rows = [
        {f"{arguments.seeds} seeds": name, "s": shown(values)}
        | {"times one batch": shown(ratios(values, both["one batch"]))}
        for name, values in both.items()
    ]
    publish("lecture", rows, arguments, seconds=both)


if __name__ == "__main__":
    main()
