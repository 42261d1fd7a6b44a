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
COMPILED, COMPILING = [1, 64], 120  # runs of the last case with compile=true, and seconds until they are compiled
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
        network = [f"task={task}", f"model={SIZES[size]}", *SHARED]
        theirs = of_trl(part, f"{task}, {size}", network) if find_spec("trl") else None
        measure(part, f"{task}, {size}", network, runs, theirs)
    if not part.quick and not part.lacks_time(COMPILING, "compile=true"):
        measure(part, f"{task}, {size}, compile=true", [*network, "compile=true"], COMPILED, theirs)


def of_trl(part: Part, name: str, network: Sequence[str]) -> float:
    """Say the row of a network under backend=trl; return the median seconds of a step."""
    from rlexp.language.models import quiet

    task, steps = network[0].removeprefix("task="), 5 if part.quick else STEPS_OF_TRL
    with tempfile.TemporaryDirectory() as folder, quiet():
        seconds = trl_seconds(folder_of(network, Path(folder)), steps, task, f"device={part.device}")
    part.row(**row(name, "backend=trl", 1, [seconds], seconds, None))
    return seconds


def measure(part: Part, name: str, network: Sequence[str], numbers: Sequence[int], theirs: float | None) -> None:
    """Say a row of a network in this loop for each number of runs, until they do not fit, or time is up."""
    took = 0.0
    for runs in numbers:
        if part.lacks_time(GROWTH * took, f"{name}: {runs} runs"):
            break
        began = time.monotonic()
        part.forget_peak()
        try:
            training = Training(runs, *network, f"device={part.device}")
            seconds = [training.seconds(1 if part.quick else STEPS) / runs for _ in range(REPETITIONS)]
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            part.note(f"{name}: {runs} runs do not fit into memory: {str(error).partition(chr(10))[0]}")
            break
        part.row(**row(name, "this loop", runs, seconds, theirs, part.peak_gb()))
        del training
        took = time.monotonic() - began


def row(
    network: str, who: str, runs: int, seconds: list[float], theirs: float | None, memory: float | None
) -> dict[str, object]:
    """Return a row; ``seconds`` are those of a step of one run, ``theirs`` those of TRL."""
    return {
        "network": network,
        "trained by": who,
        "runs": runs,
        "completions/s": shown([COMPLETIONS / each for each in seconds]),
        "ms a run-step": shown([1e3 * each for each in seconds]),
        "times as fast as TRL": "" if theirs is None else shown([theirs / each for each in seconds]),
        "peak GB": "" if memory is None else number(memory),
    }


if __name__ == "__main__":
    main()
