"""What a ladder of sizes costs at 20 and at 100 million weights: a few steps of the base arm, and hours for all of it.

The ladder has 11 arms x 3 starts x 4 seeds x 3 learning rates, 396 runs of 200 steps. Hours are seconds a run-step
times those; evaluation, files, and what arms do beyond the base arm are not in them, nor are the starts: a start is
made on the CPU, whatever trains on it, and what an update of its warm-up takes there is said apart.
"""

from __future__ import annotations

import time

from benchmarks.gpu.part import Part
from benchmarks.llama import SHARED
from benchmarks.parts.common import Training, number, shown
from rlexp.sweep.machine import is_out_of_memory, usable_cores

SIZES = {"20M": (5, 512, 8), "100M": (6, 1024, 16)}  # layers, width, heads: 16 layers width² weights, and few more
TOY = {"40k": (1, 48, 2)}
RUNS = (1, 4, 16)  # as one batch
PRECISIONS = ("highest", "high")  # of float32 products; high is TF32
LADDER, STEPS = 11 * 3 * 4 * 3, 200
MEASURED = 3  # steps, thrice
SECONDS_A_WEIGHT = 1e-7  # of an update of a start on one core, about: to tell whether there is time for one


def main() -> None:
    """Measure each size with each precision, in batches that grow until they do not fit; then its start."""
    part = Part(__doc__)
    for name, (layers, width, heads) in (TOY if part.quick else SIZES).items():
        model = ["model=llama", f"model.layers={layers}", f"model.width={width}", f"model.heads={heads}"]
        for precision in PRECISIONS:
            measure(part, name, [*model, f"matmul_precision={precision}"], precision)
        if not part.lacks_time(SECONDS_A_WEIGHT * 16 * layers * width**2, f"{name}: an update of a start"):
            part.note(f"{name}: an update of a start takes {start_seconds(model):.2f} s on {usable_cores()} cores")


def measure(part: Part, name: str, model: list[str], precision: str) -> None:
    """Say a row for each number of runs that fits into memory and time."""
    took = 0.0
    for runs in RUNS[:2] if part.quick else RUNS:
        if part.lacks_time(RUNS[1] * took, f"{name}, {precision}, {runs} runs"):
            break
        began = time.monotonic()
        part.forget_peak()
        try:
            training = Training(runs, *SHARED, *model, f"device={part.device}")
            seconds = [training.seconds(1 if part.quick else MEASURED) / runs for _ in range(3)]
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            part.note(f"{name}, {precision}: {runs} runs do not fit into memory")
            break
        part.row(
            **{
                "weights": f"{training.parameters:,}",
                "products": precision,
                "runs at once": runs,
                "seconds a run-step": shown(seconds),
                "peak GB": number(part.peak_gb()),
                f"hours for {LADDER} runs x {STEPS} steps": shown([LADDER * STEPS * each / 3600 for each in seconds]),
            }
        )
        del training
        took = time.monotonic() - began


def start_seconds(model: list[str]) -> float:
    """Return the seconds of an update of the warm-up of ``start=sft`` on all cores, and of making the weights."""
    import torch

    from rlexp.config.compose import compose
    from rlexp.sweep.starts import train_starts

    torch.set_num_threads(usable_cores())
    config = compose("task=sort", "start=sft", "start.updates=1", "start.every=2", "start.checked=1", *model)
    began = time.perf_counter()
    train_starts([config])
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
