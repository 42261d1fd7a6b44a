"""(a) Completions a second of the default recipe: one run, and several as one batch.

``--device cuda --most 4096`` is the same on an accelerator: from one run to thousands, as far as they fit.
"""

from __future__ import annotations

import os
import sys

from benchmarks.parts.common import Training, alternating, options, publish, ratios, shown

ON_CPU, ON_DEVICE = (1, 10, 30), (1, 4, 16, 64, 256, 1024, 4096)


def main() -> None:
    """Measure, print, write."""
    arguments = options(__doc__, repetitions=7, steps=10, most=30, device="cpu")
    import torch

    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"PyTorch {torch.__version__} sees no CUDA device here")
    rates = on_cpu(arguments) if arguments.device == "cpu" else on_device(arguments)
    alone = next(iter(rates.values()))
    rows = [
        {"runs": runs}
        | ({"threads": threads} if arguments.device == "cpu" else {})
        | {
            "completions/s": shown(values),
            "a run": shown([value / runs for value in values]),
            "times a single run": shown(ratios(values, alone)),
        }
        for (runs, threads), values in rates.items()
    ]
    publish("throughput", rows, arguments, completions_per_second={str(case): rate for case, rate in rates.items()})


def on_cpu(arguments) -> dict[tuple[int, int], list[float]]:
    """Return the rates by runs and threads, measured in turn; a single run has one thread."""
    threads = [1, 2] if (os.cpu_count() or 1) > 1 else [1]
    trainings = {runs: Training(runs) for runs in ON_CPU if runs <= arguments.most}
    cases = [(runs, n) for runs in trainings for n in (threads if runs > 1 else [1])]
    return alternating(
        {(runs, n): lambda each=trainings[runs], n=n: rate(each, arguments.steps, n) for runs, n in cases},
        arguments.repetitions,
    )


def on_device(arguments) -> dict[tuple[int, int], list[float]]:
    """Return the rates by runs, one number of runs after another: they share the device's memory."""
    import torch

    rates = {}
    for runs in (each for each in ON_DEVICE if each <= arguments.most):
        try:
            training = Training(runs, f"device={arguments.device}")
            rates[runs, 1] = [rate(training, arguments.steps, 1) for _ in range(arguments.repetitions)]
        except torch.cuda.OutOfMemoryError:
            print(f"{runs} runs do not fit", file=sys.stderr)
            break
        del training
    return rates


def rate(training: Training, steps: int, threads: int) -> float:
    """Train on; return completions a second."""
    return training.completions / training.seconds(steps, threads)


if __name__ == "__main__":
    main()
