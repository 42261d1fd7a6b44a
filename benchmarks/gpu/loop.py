"""Our loop with 1 to 4,096 runs of a Llama as one batch, beside one run of backend=trl: the same network and device.

What is trained is that of ``benchmarks.llama``: sort with answers of at most 6 tokens, 16 prompts x 8 completions, two
updates a step, GRPO's settings, no evaluation, no files.
"""

from __future__ import annotations

import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from benchmarks.gpu.part import Part
from benchmarks.llama import SHARED, SIZES, folder_of, trl_seconds
from benchmarks.parts.common import Training, number, shown
from rlexp.sweep.machine import is_out_of_memory

RUNS = [4**power for power in range(7)]
STEPS, REPETITIONS = 5, 3
NETWORK = ["task=sort", f"model={SIZES['70k']}", *SHARED]
STEPS_OF_TRL = 12
GROWTH = 4  # of the time from one number of runs to the next, at most


def main() -> None:
    """Measure TRL, then more and more runs until they do not fit, or time is up."""
    part = Part(__doc__)
    completions, theirs = 128, None
    if find_spec("trl") is None:
        part.note("backend=trl is not measured: pip install '.[trl]'")
    else:
        theirs = of_trl(part.device, 5 if part.quick else STEPS_OF_TRL)
        part.row(**row("backend=trl", 1, [completions / theirs], [theirs], theirs, None))
    took = 0.0
    for runs in RUNS[:2] if part.quick else RUNS:
        if part.lacks_time(GROWTH * took, f"{runs} runs"):
            break
        started = time.monotonic()
        part.forget_peak()
        try:
            training = Training(runs, *NETWORK, f"device={part.device}")
            seconds = [training.seconds(1 if part.quick else STEPS) for _ in range(REPETITIONS)]
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            part.note(f"{runs} runs do not fit into memory: {str(error).partition(chr(10))[0]}")
            break
        rates = [training.completions / each for each in seconds]
        part.row(**row("this loop", runs, rates, [each / runs for each in seconds], theirs, part.peak_gb()))
        del training
        took = time.monotonic() - started


def of_trl(device: str, steps: int) -> float:
    """Return the median seconds of a step under backend=trl of the network that this loop trains."""
    from rlexp.language.models import quiet

    with tempfile.TemporaryDirectory() as folder, quiet():
        return trl_seconds(folder_of(NETWORK, Path(folder)), steps, "sort", f"device={device}")


def row(
    who: str, runs: int, rates: list[float], seconds: list[float], theirs: float | None, memory: float | None
) -> dict[str, object]:
    """Return a row; ``seconds`` are those of a step of one run, ``theirs`` those of TRL."""
    return {
        "trained by": who,
        "runs": runs,
        "completions/s": shown(rates),
        "seconds a run-step": shown(seconds, 4),
        "times as fast as TRL": "" if theirs is None else number(theirs / median(seconds)),
        "peak GB": "" if memory is None else number(memory),
    }


if __name__ == "__main__":
    main()
