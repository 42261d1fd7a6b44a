"""A step of thirty runs of model=llama in this loop against a step of backend=trl on the same network, by size.

Each size is trained for a step here and written to a folder, from which backend=trl trains: the same random weights
and tokenizer, sort with answers of at most 6 tokens or ``--task addition`` with 64, 16 prompts x 8 completions, two
updates a step, GRPO's settings, one thread each. Evaluation, files and checkpoints are left out in both. The last
columns are the rate of matrix products here and that of one product of 1024 x 1024 on the same thread: between them
lies what a faster loop could save. Needs the extra trl.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks import backend
from benchmarks.parts.common import Training, alternating, options, publish, ratios, shown
from benchmarks.roofline import floating_point_operations, rate

SHARED = ["norm=local", "agg=token", "entropy_coef=0", "start=random"]
SIZES = {"70k": "llama_70k", "300k": "llama_300k", "1.2M": "llama"}
CAPS = {"sort": 6, "addition": 64}  # tokens of an answer


def folder_of(overrides: Sequence[str], folder: Path) -> Path:
    """Write the network of a run to a folder as backend=trl reads it."""
    from rlexp.api import train
    from rlexp.export.hugging_face import read_run, write_policy

    run = train(*overrides, "steps=1", "logger=none", "eval.prompts=2", folder=folder / "run")
    place = folder / "model"
    place.mkdir()
    write_policy(read_run(str(run)), {"run": str(run)}, place)
    return place


def trl_seconds(place: Path, steps: int, task: str, *overrides: str) -> float:
    """Return the median seconds of a step under backend=trl."""
    given = ["backend=trl", "model=pretrained", f"model.path={place}", f"backend.max_completion_length={CAPS[task]}"]
    given += [f"task={task}", *SHARED, *overrides]
    return backend.seconds_a_step(steps, True, given, False)


def main() -> None:
    """Measure in turn, print, write."""
    import torch

    from rlexp.language.models import quiet

    chosen = options(__doc__, steps=12, repetitions=5, runs=30, sizes=",".join(SIZES), task="sort")
    torch.set_num_threads(1)
    rows, measured = [], {}
    for size in chosen.sizes.split(","):
        with tempfile.TemporaryDirectory() as folder, quiet():
            overrides = [f"task={chosen.task}", f"model={SIZES[size]}", *SHARED]
            place, training = folder_of(overrides, Path(folder)), Training(chosen.runs, *overrides)
            found = alternating(
                {
                    "backend=trl": partial(trl_seconds, place, chosen.steps, chosen.task),
                    f"{chosen.runs} runs here": lambda t=training: t.seconds(chosen.steps) / chosen.runs,
                    "GFLOP/s of 1024 x 1024": partial(rate, 1, 1024, 1024, 1024, 1.0, 1),
                },
                chosen.repetitions,
            )
            work = 1e-9 * floating_point_operations(training) / chosen.runs
        theirs, ours, most = found.values()
        times = [1 / each for each in ratios(ours, theirs)]
        rows.append(
            {
                "size": size,
                "parameters": training.parameters,
                "backend=trl, ms a step": shown([1e3 * each for each in theirs]),
                "here, ms a run-step": shown([1e3 * each for each in ours]),
                "times as fast": shown(times),
                "GFLOP/s here": shown([work / each for each in ours]),
                "of one product": shown(most),
            }
        )
        measured[size] = found
    publish("llama", rows, chosen, measured=measured)


if __name__ == "__main__":
    main()
