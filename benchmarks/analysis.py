"""(h) How long it takes to load and compare a large sweep, and the memory it takes.

The sweep is made of random numbers: runs whose every logged line has as many metrics as a real one, all of them
evaluated. Each measurement is a fresh process.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SEEDS = 10
KEYS = 56  # as many as an evaluation step of the default recipe logs


def make(folder: Path, runs: int, steps: int) -> float:
    """Write the sweep; return its size in MB."""
    rng = np.random.default_rng(0)
    jobs, size = [], 0
    for number in range(runs):
        arm, seed = divmod(number, SEEDS)
        variant = f"norm=choice{arm}"
        name = f"{variant},seed={seed}"
        path = folder / name
        path.mkdir(parents=True)
        values = rng.normal(0.5 + 0.001 * arm, 0.1, (steps, KEYS))
        keys = ["eval/greedy_accuracy", *(f"group{i % 7}/metric{i}" for i in range(1, KEYS))]
        with open(path / "metrics.jsonl", "w", encoding="utf-8") as file:
            for step, row in enumerate(values.tolist()):
                file.write(json.dumps({"step": step, **dict(zip(keys, row, strict=True))}) + "\n")
        size += (path / "metrics.jsonl").stat().st_size
        facts = {"name": name, "variant": variant, "seed": seed, "status": "completed", "reason": None}
        score = float(values[-steps // 10 :, 0].mean())
        summary = {**facts, "score": score, "score_metric": keys[0], "collapsed": False}
        (path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
        jobs.append({"job": number, **facts, "score": score})
    (folder / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs), encoding="utf-8")
    return size / 1e6


def worker(what: str, folder: str) -> None:
    """Load or compare in this process; end with a line that says what it took."""
    started = time.perf_counter()
    if what == "load":
        from rlexp.analysis import load

        load(folder)
    else:
        from rlexp.analysis.compare import main as compare

        out = ["--out", str(Path(folder).parent / "out")]
        compare([folder, *out, *(["--metric", "group1/metric1"] if what == "compare another metric" else [])])
    inside = time.perf_counter() - started
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    print(json.dumps({"inside": inside, "processor": time.process_time(), "megabytes": megabytes}))


def main() -> None:
    """Measure, print, write; ``worker what folder`` is one measurement."""
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
        return
    from benchmarks.parts.common import alternating, fresh, options, publish, shown

    arguments = options(__doc__, repetitions=3, runs=300, steps=1000)
    memory: dict[str, list[float]] = {}
    processor: dict[str, list[float]] = {}

    def measure(what: str) -> float:
        said = fresh("benchmarks.analysis", "worker", what, folder)
        memory.setdefault(what, []).append(said["megabytes"])
        processor.setdefault(what, []).append(said["processor"])
        return said["seconds"]

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "sweep"
        size = make(folder, arguments.runs, arguments.steps)
        parts = ("load", "compare", "compare another metric")
        seconds = alternating({what: lambda what=what: measure(what) for what in parts}, arguments.repetitions)
    rows = [
        {"what": what, "runs": arguments.runs, "lines a run": arguments.steps, "MB of metrics.jsonl": f"{size:,.0f}"}
        | {"whole process s": shown(seconds[what]), "processor s": shown(processor[what])}
        | {"peak MB": shown(memory[what])}
        for what in parts
    ]
    publish("analysis", rows, arguments, seconds=seconds, processor=processor, megabytes=memory)


if __name__ == "__main__":
    main()
