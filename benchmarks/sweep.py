"""(b) The whole process of a 30-run sweep: where its time goes, and the same sweep with hydra/launcher=basic.

The command line runs unchanged; a clock around the training step and the evaluation tells them from the rest.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.parts.common import alternating, fresh, options, publish, ratios, shown

PARTS = (
    "training steps",
    "metrics of the logged steps",
    "held-out evaluation",
    "start, Hydra, logging, writing, table",
)


def worker(arguments: list[str]) -> None:
    """Run the command line in this process; end with a line that says what training and evaluation took."""
    from rlexp import train
    from rlexp.sweep import training

    taken: dict[str, list[float]] = {"plain": [], "measured": [], "evaluate": []}

    def timed(function, key):
        def call(*given, **named):
            started = time.perf_counter()
            result = function(*given, **named)
            taken[key(given)].append(time.perf_counter() - started)
            return result

        return call

    training.train_step = timed(training.train_step, lambda given: "measured" if given[2] else "plain")
    training.evaluate = timed(training.evaluate, lambda given: "evaluate")
    sys.argv = ["rlexp", "-m", *arguments]
    train.main()
    metrics = sum(taken["measured"]) - len(taken["measured"]) * median(taken["plain"] or [0.0])
    print(json.dumps({key: sum(values) for key, values in taken.items()} | {"metrics": metrics}))


def sweep(seeds: int, steps: int, *overrides: str) -> dict[str, float]:
    """Run three norms times ``seeds`` in a fresh process; return the seconds of each part and of all."""
    with tempfile.TemporaryDirectory() as folder:
        given = ["norm=local,global,hybrid", f"seed=range(0,{seeds})", f"steps={steps}", *overrides]
        said = fresh("benchmarks.sweep", "worker", *given, f"hydra.sweep.dir={Path(folder) / 'sweep'}")
    steps_taken = said["plain"] + said["measured"]
    rest = said["seconds"] - steps_taken - said["evaluate"]
    split = (steps_taken - said["metrics"], said["metrics"], said["evaluate"], rest)
    return dict(zip(PARTS, split, strict=True)) | {"whole process": said["seconds"]}


def main() -> None:
    """Measure, print, write; ``worker ...`` is the command line with a clock."""
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2:])
        return
    arguments = options(__doc__, repetitions=3, seeds=10, steps=400, basic=1)
    one = "hydra.launcher.workers=1"  # the clock is in this process
    overrides = {"fused (default)": [one], "fused, logger=none": [one, "logger=none"]}
    if arguments.basic:
        overrides["basic"] = ["hydra/launcher=basic"]
    said: dict[str, list[dict[str, float]]] = {name: [] for name in overrides}

    def whole(name: str) -> float:
        said[name].append(sweep(arguments.seeds, arguments.steps, *overrides[name]))
        return said[name][-1]["whole process"]

    seconds = alternating({name: lambda name=name: whole(name) for name in overrides}, arguments.repetitions)
    rows = []
    for name, each in said.items():
        for part in (*PARTS, "whole process"):
            values = [one[part] for one in each]
            rows.append(
                {"launcher": name, "part": part, "s": shown(values)}
                | {"% of the process": shown([100 * share for share in ratios(values, seconds[name])])}
                | {"times fused": shown(ratios(values, seconds["fused (default)"])) if part == "whole process" else ""}
            )
    publish("sweep", rows, arguments, parts=said)


if __name__ == "__main__":
    main()
