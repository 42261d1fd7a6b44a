"""(d) Share of the machine's measured matrix-product rate that a training step reaches.

The rate is that of one product of 1024 x 1024 in MKL's own mode. Two fairer ceilings beside it: the same product in
the reproducible mode that "alone = together" needs, and a stack of the products that the feed-forward layer asks for.
"""

from __future__ import annotations

import json
import os
import sys
import time

from benchmarks.parts.common import Training, alternating, fresh, options, publish, ratios, shown


def rate(batch: int, rows: int, inner: int, columns: int, seconds: float, threads: int) -> float:
    """Return the GFLOP/s of a stack of products, repeated for so many seconds."""
    import torch

    torch.set_num_threads(threads)
    left, right = torch.randn(batch, rows, inner), torch.randn(batch, inner, columns)
    out = torch.bmm(left, right)
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        torch.bmm(left, right, out=out)
        done += 1
    return 2e-9 * batch * rows * inner * columns * done / (time.perf_counter() - started)


def floating_point_operations(training: Training) -> int:
    """Count those of the matrix products of a training step."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        training.seconds(1)
    return counter.get_total_flops()


def main() -> None:
    """Measure, print, write; ``worker`` is the product in MKL's own mode, in a process of its own."""
    if sys.argv[1:2] == ["worker"]:
        os.environ.pop("MKL_CBWR")
        print(json.dumps({"rate": rate(1, 1024, 1024, 1024, float(sys.argv[3]), int(sys.argv[2]))}))
        return
    arguments = options(__doc__, repetitions=5, steps=5, runs=30, milliseconds=300)
    seconds, tables, rows = arguments.milliseconds / 1e3, {}, []
    trainings = {runs: Training(runs) for runs in dict.fromkeys([1, arguments.runs])}
    work = {runs: floating_point_operations(each) for runs, each in trainings.items()}
    for threads in (1, 2) if (os.cpu_count() or 1) > 1 else (1,):
        sizes = trainings if threads == 1 else [arguments.runs]
        candidates = {
            "1024 x 1024": lambda n=threads: fresh("benchmarks.roofline", "worker", n, seconds)["rate"],
            "1024 x 1024, reproducible": lambda n=threads: rate(1, 1024, 1024, 1024, seconds, n),
            "30 of [384, 64] x [64, 128]": lambda n=threads: rate(30, 384, 64, 128, seconds, n),
        } | {
            f"training step, {runs} runs": lambda runs=runs, n=threads: (
                1e-9 * work[runs] / trainings[runs].seconds(arguments.steps, n)
            )
            for runs in sizes
        }
        rates = tables[threads] = alternating(candidates, arguments.repetitions)
        rows += [
            {"threads": threads, "what": name, "GFLOP/s": shown(values)}
            | {"% of 1024 x 1024": shown([100 * share for share in ratios(values, rates["1024 x 1024"])])}
            for name, values in rates.items()
        ]
    publish("roofline", rows, arguments, gflops=tables, operations_a_step=work)


if __name__ == "__main__":
    main()
