"""Our loop beside one run of backend=trl, on the same network and device: thirty runs by size, then 1 to 4,096 runs.

What is trained is that of ``benchmarks.llama``: sort with answers of at most 6 tokens or addition with 64, 16 prompts x
8 completions, two updates a step, GRPO's settings, no evaluation, no files.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.gpu.part import Part
from benchmarks.llama import SHARED, SIZES, folder_of, trl_seconds
from benchmarks.parts.common import Training, number, shown
from rlexp.sweep.machine import is_out_of_memory

RUNS = [4**power for power in range(7)]
CASES = [("sort", "300k", [30]), ("sort", "1.2M", [30]), ("addition", "70k", [30]), ("addition", "1.2M", [30])]
CASES += [("sort", "70k", RUNS)]
STEPS, REPETITIONS = 5, 3
STEPS_OF_TRL = 12
COMPLETIONS = 16 * 8  # of a step of a run
GROWTH = 4  # of the time from one number of runs to the next, at most


def main() -> None:
    """Measure each network under TRL, then more and more runs of it until they do not fit, or time is up."""
    part = Part(__doc__)
    if find_spec("trl") is None:
        part.note("backend=trl is not measured: pip install '.[trl]'")
    for task, size, runs in [("sort", "70k", RUNS[:2])] if part.quick else CASES:
        measure(part, task, size, runs)


def measure(part: Part, task: str, size: str, numbers: Sequence[int]) -> None:
    """Say the rows of one network: under TRL, if it is there, and in this loop for each number of runs."""
    network = [f"task={task}", f"model={SIZES[size]}", *SHARED, f"device={part.device}"]
    theirs, took = None, 0.0
    if find_spec("trl"):
        began = time.monotonic()
        theirs = of_trl(network, task, 5 if part.quick else STEPS_OF_TRL)
        took = (time.monotonic() - began) / GROWTH  # this loop's first number of runs takes at most as long
        part.row(**row(f"{task}, {size}", "backend=trl", 1, [theirs], theirs, None))
    for runs in numbers:
        if part.lacks_time(GROWTH * took, f"{task}, {size}, {runs} runs"):
            break
        began = time.monotonic()
        part.forget_peak()
        try:
            training = Training(runs, *network)
            seconds = [training.seconds(1 if part.quick else STEPS) / runs for _ in range(REPETITIONS)]
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            part.note(f"{task}, {size}: {runs} runs do not fit into memory: {str(error).partition(chr(10))[0]}")
            break
        part.row(**row(f"{task}, {size}", "this loop", runs, seconds, theirs, part.peak_gb()))
        del training
        took = time.monotonic() - began


def of_trl(network: Sequence[str], task: str, steps: int) -> float:
    """Return the median seconds of a step under backend=trl of the network that this loop trains."""
    from rlexp.language.models import quiet

    with tempfile.TemporaryDirectory() as folder, quiet():
        return trl_seconds(folder_of(network[:-1], Path(folder)), steps, task, network[-1])


def row(
    network: str, who: str, runs: int, seconds: list[float], theirs: float | None, memory: float | None
) -> dict[str, object]:
    """Return a row; ``seconds`` are those of a step of one run, ``theirs`` those of TRL."""
    return {
        "network": network,
        "trained by": who,
        "runs": runs,
        "completions/s": shown([COMPLETIONS / each for each in seconds]),
        "seconds a run-step": shown(seconds, 4),
        "times as fast as TRL": "" if theirs is None else shown([theirs / each for each in seconds]),
        "peak GB": "" if memory is None else number(memory),
    }


if __name__ == "__main__":
    main()
