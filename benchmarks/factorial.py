"""How long `rlexp ablate` takes to plan, train and analyze a factorial: five parts, eight seeds, three rates, 768 runs.

`worker train` is the command line with a clock. `worker analyze` reads the finished runs in a fresh process, estimates
the effects and writes page, tables and figures, as the command does at its end.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from functools import partial
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.parts.common import ROOT, fresh, options, peak_memory, publish, ratios, shown

PARTS = ("clip=higher", "norm=global", "entropy_coef=0.1", "agg=sequence", "advantage_clip=1")
RATES = "1,4,16"
TASK = "task=bandit model=tabular steps=20 eval.every=5 shaping=noise shaping.std=1 logger=none".split()
PLANNED, TRAINED = "planned: the command until the first training step", "trained"
ANALYZED, WHOLE = "analyzed: a fresh process, all files written", "the whole command"


def clock() -> np.ndarray:
    """Seconds of the wall and of this process's processor time, `[2]`; they end apart beside busy neighbors."""
    return np.array([time.perf_counter(), time.process_time()])


def train(folder: str, parts: str, seeds: str) -> None:
    """Run the command in this process; end with a line that says what took how long."""
    clocks = [clock()]
    from rlexp.ablation import __main__ as command
    from rlexp.ablation import train as ablation
    from rlexp.launch import launcher
    from rlexp.sweep import training

    batches = []

    def timed(function, *given, **named):
        clocks.append(clock())
        found = function(*given, **named)
        clocks.append(clock())
        return found

    def counted(function, *given, **named):
        batches.extend(found := function(*given, **named))
        return found

    def wrapped(module, name, by):
        function = getattr(module, name)
        return patch.object(module, name, lambda *given, **named: by(function, *given, **named))

    arguments = ["--parts", parts, "--factorial", "--tune", f"lr={RATES}", "--seeds", seeds, "--folder", folder]
    with (
        wrapped(training, "train_step", timed),
        wrapped(launcher, "into_batches", counted),
        patch.object(ablation, "extend", partial(ablation.extend, most_rates=0)),  # the grid stays as it is
    ):
        command.main([*arguments, "--with", *TASK, "hydra.launcher.workers=1"])
    begun, first, *_, last = clocks
    taken = {PLANNED: first - begun, TRAINED: last - first, WHOLE: clock() - begun}
    said = {what: each.tolist() for what, each in taken.items()}
    print(json.dumps(said | {"batches": len(batches), "runs": sum(map(len, batches)), "megabytes": peak_memory()}))


def analyze(folder: str) -> None:
    """Analyze finished runs in this process; end with a line that says what it took."""
    begun = clock()
    from rich.console import Console

    from rlexp.analysis.report.ablation import publish as publish_ablation
    from rlexp.analysis.stats.ablation import analyze as analyze_ablation

    publish_ablation(analyze_ablation(folder), Console(file=StringIO()))
    print(json.dumps({ANALYZED: (clock() - begun).tolist(), "megabytes": peak_memory()}))


def main() -> None:
    """Measure, print, write; ``worker what ...`` is one measurement."""
    if sys.argv[1:2] == ["worker"]:
        {"train": train, "analyze": analyze}[sys.argv[2]](*sys.argv[3:])
        return
    arguments = options(__doc__, results=ROOT / "docs" / "statistics", repetitions=3, parts=len(PARTS), seeds=8)
    said: dict[str, list[dict[str, float]]] = {"train": [], "analyze": []}
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(arguments.repetitions):
            folder = Path(temporary) / str(number)
            parts = ",".join(PARTS[: arguments.parts])
            said["train"].append(fresh("benchmarks.factorial", "worker", "train", folder, parts, arguments.seeds))
            said["analyze"].append(fresh("benchmarks.factorial", "worker", "analyze", folder))
    rows = []
    for what, key in (("train", PLANNED), ("train", TRAINED), ("train", WHOLE), ("analyze", ANALYZED)):
        seconds, processor = zip(*(each[key] for each in said[what]), strict=True)
        whole = [each[WHOLE][1] for each in said["train"]]
        memory = shown([each["megabytes"] for each in said[what]]) if key in (WHOLE, ANALYZED) else ""
        shares = shown([100 * share for share in ratios(processor, whole)])
        rows.append(
            {"what": key, "processor s": shown(processor), "% of the command": shares, "s": shown(seconds)}
            | {"peak MB": memory}
        )
    counts = {key: sorted({each[key] for each in said["train"]}) for key in ("runs", "batches")}
    print(", ".join(f"{key}: {', '.join(map(str, numbers))}" for key, numbers in counts.items()))
    publish("factorial", rows, arguments, **counts, **said)


if __name__ == "__main__":
    main()
