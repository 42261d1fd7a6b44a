"""What the benchmarks share: alternating measurements, their spread, tables, JSON, fresh processes, states to step."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import rlexp  # noqa: F401 (first: it sets MKL's mode)

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def options(doc: str | None, results: Path = RESULTS, **defaults: int | str | bool) -> argparse.Namespace:
    """Read ``--name value`` for each default, ``--name`` for one of False, and where the JSON goes."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default in defaults.items():
        if default is False:
            parser.add_argument(f"--{name}", action="store_true", help="takes seconds, and says nothing")
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--results", type=Path, default=results, help="folder of the JSON file")
    return parser.parse_args()


def alternating(candidates: Mapping[str, Callable[[], float]], repetitions: int) -> dict[str, list[float]]:
    """Call every candidate in turn, so that what else the machine does meets all of them; return what they returned."""
    measured: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repetitions):
        for name, candidate in candidates.items():
            measured[name].append(candidate())
    return measured


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Quotients of what was measured in the same round."""
    return [a / b for a, b in zip(above, below, strict=True)]


def shown(values: Sequence[float], digits: int = 3) -> str:
    """Median and range of repeated measurements."""
    centre, low, high = (number(value, digits) for value in (median(values), min(values), max(values)))
    return centre if len(values) == 1 else f"{centre} [{low}, {high}]"


def number(value: float, digits: int = 3) -> str:
    """So many significant digits, thousands apart, no exponent."""
    places = max(0, digits - len(str(int(abs(value)))) if abs(value) >= 1 else digits)
    return f"{value:,.{places}f}"


def publish(name: str, rows: Sequence[Mapping[str, object]], arguments: argparse.Namespace, **data: object) -> None:
    """Print the rows as a Markdown table; write them, the raw ``data`` and the machine to ``<results>/<name>.json``."""
    settings = {key: value for key, value in vars(arguments).items() if key != "results"}
    said = " ".join(f"--{key} {value}" for key, value in settings.items() if value is not False)
    print(f"\npython -m benchmarks.{name} {said}: median [range]")
    print(table(rows), flush=True)
    store(name, arguments, rows=list(rows), data=data)


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows with the same keys as a Markdown table whose columns are aligned."""
    cells = [list(rows[0])] + [[str(value) for value in row.values()] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    padded = [[text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in cells]
    lines = [f"| {' | '.join(row)} |" for row in padded]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def store(name: str, arguments: argparse.Namespace, **found: object) -> None:
    """Write what was found, with the settings and the machine, to ``<results>/<name>.json``."""
    arguments.results.mkdir(parents=True, exist_ok=True)
    settings = {key: value for key, value in vars(arguments).items() if key != "results"}
    document = {"settings": settings, "machine": machine()} | found
    path = arguments.results / f"{name}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def between(page: str, command: str, text: str) -> str:
    """Return a page with the part that a command writes replaced; ValueError where the page has none."""
    begin, end = f"<!-- written by {command} -->", "<!-- until here -->"
    before, _, rest = page.partition(begin)
    if end not in rest:
        raise ValueError(f"the page has no {begin} and {end} behind it")
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


def machine() -> dict[str, object]:
    """What the numbers depend on."""
    import torch

    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "when": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def environment_of(*paths: Path | str, threads: int | None = None) -> dict[str, str]:
    """Return the environment of a new process that imports from these folders; MKL's mode is its own affair."""
    kept = {key: value for key, value in os.environ.items() if key != "MKL_CBWR"}
    if threads:
        kept["OMP_NUM_THREADS"] = kept["MKL_NUM_THREADS"] = str(threads)
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, paths))}


def environment_here(threads: int | None = None) -> dict[str, str]:
    """Return the environment of a new process of this project, which imports from where this one does."""
    return environment_of(ROOT, *filter(None, [os.environ.get("PYTHONPATH")]), threads=threads)


def fresh(module: str, *arguments: object, threads: int | None = None) -> dict:
    """Run ``python -m module`` in a new process; return the JSON of its last line and the ``seconds`` it took."""
    return Fresh(module, *arguments, threads=threads).wait()


class Fresh:
    """A new process of a module that ends with a line of JSON, or with nothing."""

    def __init__(self, module: str, *arguments: object, threads: int | None = None):
        environment = environment_here(threads)
        command = [sys.executable, "-m", module, *map(str, arguments)]
        self.started = time.perf_counter()
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    def wait(self) -> dict:
        """Return what the process said; RuntimeError if it failed."""
        out, err = self.process.communicate()
        seconds = time.perf_counter() - self.started
        if self.process.returncode:
            raise RuntimeError(f"{' '.join(self.process.args)} ended with {self.process.returncode}:\n{err[-2000:]}")
        last = (out.strip().splitlines() or ["{}"])[-1]
        return (json.loads(last) if last.startswith("{") else {}) | {"seconds": seconds}


def peak_memory() -> float:
    """Largest resident size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


class Training:
    """Runs that differ in the seed, built by the engine and stepped by hand; every tenth step takes the metrics.

    ``beside`` are the overrides of one more run.
    """

    def __init__(self, runs: int, *overrides: str, beside: Sequence[str] = (), warm_up: int = 2):
        from rlexp.config.compose import compose
        from rlexp.sweep.build import build

        config = compose("steps=1000000", *overrides)
        configs = [config.model_copy(update={"seed": seed}) for seed in range(runs)]
        configs += [compose("steps=1000000", *overrides, *beside)] if beside else []
        self.state = build(configs)
        self.completions = len(configs) * self.state.prompts * self.state.group
        self.done = 0
        self.seconds(warm_up)

    @property
    def parameters(self) -> int:
        """Parameters of one run."""
        return sum(parameter[0].numel() for parameter in self.state.policy.parameters())

    def seconds(self, steps: int, threads: int = 1) -> float:
        """Train on; return the seconds a step."""
        import torch

        from rlexp.loop.step import train_step

        torch.set_num_threads(threads)
        started = time.perf_counter()
        for _ in range(steps):
            self.done += 1
            train_step(self.state, self.done, self.done % 10 == 0)
        if next(self.state.policy.parameters()).is_cuda:
            torch.cuda.synchronize()
        return (time.perf_counter() - started) / steps
