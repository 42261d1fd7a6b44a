"""(c) How a training step grows with group size, completion length, width and number of runs; one thread.

Group size, completion length and width are doubled for ten runs, the number of runs for the default recipe.
"""

from __future__ import annotations

from benchmarks.parts.common import Training, alternating, options, publish, ratios, shown

SERIES = {
    "group size": [4, 8, 16, 32],
    "completion length": [6, 12, 24],
    "width": [32, 64, 128],
    "runs": [1, 2, 4, 8, 16, 32],
}


def training(series: str, size: int, runs: int) -> Training:
    """Build one size of a series."""
    if series == "runs":
        return Training(size)
    return Training(
        runs,
        *{
            "group size": ["group_size.prompts=16", f"group_size.completions={size}"],
            "completion length": [f"task.cap={size}"],
            "width": [f"model.width={size}", f"model.feedforward={2 * size}"],
        }[series],
    )


def main() -> None:
    """Measure, print, write; ``--sizes`` leaves out the larger ones."""
    arguments = options(__doc__, repetitions=5, steps=3, runs=10, sizes=9)
    rows, data = [], {}
    for series, every in SERIES.items():
        sizes = every[: arguments.sizes]
        trainings = {str(size): training(series, size, arguments.runs) for size in sizes}
        measured = alternating(
            {name: lambda each=each: 1e3 * each.seconds(arguments.steps) for name, each in trainings.items()},
            arguments.repetitions,
        )
        data[series], before = measured, None
        for size, values in measured.items():
            factor = shown(ratios(values, before)) if before else ""
            rows.append(
                {"series": series, "size": size, "completions a step": trainings[size].completions}
                | {"ms a step": shown(values), "times the size before": factor}
            )
            before = values
    publish("growth", rows, arguments, milliseconds=data)


if __name__ == "__main__":
    main()
