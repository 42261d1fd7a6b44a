"""What one run of another variant costs a batch of plain runs, in units of what it costs alone.

For every choice of the axes that a batch may mix: a step of the plain runs, of the choice alone, and of both together.
Up to 1.0 of its own cost, the others are not slowed by it. A choice that cannot be in a batch with plain runs, as it
needs a critic or other data, is named and left out. What is measured is kept in docs/performance/mixed, a file for each
set of axes, and docs/choices_cost.md is written anew from all that are there, unless --results names another folder.
"""

from __future__ import annotations

import json
from statistics import median

from benchmarks.parts.common import RESULTS, ROOT, Training, alternating, options, publish, shown, table
from rlexp.config.compose import compose
from rlexp.core.errors import ConfigError
from rlexp.sweep.build import bucket_key

CONF = ROOT / "conf"
KEPT, PAGE = ROOT / "docs/performance/mixed", ROOT / "docs/choices_cost.md"
HEAD = """# What a choice adds to a step

```
python -m benchmarks.mixed --repetitions 3 --steps 2 --axes imitation,distillation
```

measures again what stands here: a step of one run with the choice *alone*, and what one such run *adds* to a step of
ten plain runs that train as one batch with it. *Added / alone* below 1: in a batch it costs less than alone. Medians of
three, with the lowest and highest in brackets; what is added is a difference of two times, so a bracket may reach below
0. [performance.md](performance.md) has the speed of whole sweeps.
"""
AXES = ("shaping", "filter", "norm", "clip", "agg", "kl", "kl_control", "reference", "sampler", "mismatch", "anchor")
AXES += ("distillation", "imitation", "prompts", "allocation", "entropy_control", "reward", "optimizer")
NEEDS = {  # without these a choice does nothing, or is refused
    "kl_control": ("kl=k3",),
    "reference": ("kl=k3",),
    "distillation": ("teacher.network=reference",),
    "gdpo": ("task.weights.exact=0.5", "task.weights.graded=0.5"),
}
# What the plain runs have, too, since runs with other prompts are no batch.
SHARED = {name: ("task.prompt_set=64",) for name in ("prompts", "allocation", "spo", "dbb")}


def choices(axes: str) -> list[tuple[str, str]]:
    """Return axis and name of all choices of the axes, given as ``norm,kl``."""
    return [(axis, path.stem) for axis in axes.split(",") for path in sorted((CONF / axis).glob("*.yaml"))]


def overrides_of(axis: str, name: str) -> tuple[str, ...]:
    """Return the overrides of a choice, and of what it does nothing without."""
    return (*NEEDS.get(axis, ()), *NEEDS.get(name, ()), f"{axis}={name}")


def shared_by(axis: str, name: str) -> tuple[str, ...]:
    """Return the overrides of the plain runs that a choice stands beside."""
    return (*SHARED.get(axis, ()), *SHARED.get(name, ()))


def trains_apart(axis: str, name: str) -> bool:
    """Whether a choice cannot train in a batch with plain runs, or not without more overrides."""
    shared = shared_by(axis, name)
    try:
        return bucket_key(compose(*shared, *overrides_of(axis, name))) != bucket_key(compose(*shared))
    except ConfigError:
        return True


def measure(axis: str, name: str, runs: int, steps: int, repetitions: int) -> dict[str, list[float]]:
    """Return the seconds a step of the plain runs, of the choice alone, and of both, measured in turn."""
    chosen, shared = overrides_of(axis, name), shared_by(axis, name)
    batches = {"plain": Training(runs, *shared), "alone": Training(1, *shared, *chosen)}
    batches["both"] = Training(runs, *shared, beside=chosen)
    return alternating({which: lambda b=batch: b.seconds(steps) for which, batch in batches.items()}, repetitions)


def main() -> None:
    """Measure every choice, print, write."""
    arguments = options(__doc__, repetitions=5, steps=4, runs=10, axes=",".join(AXES))
    rows, data = [], {}
    apart = [choice for choice in choices(arguments.axes) if trains_apart(*choice)]
    for axis, name in (choice for choice in choices(arguments.axes) if choice not in apart):
        seconds = measure(axis, name, arguments.runs, arguments.steps, arguments.repetitions)
        data[f"{axis}={name}"] = seconds
        added = [both - plain for both, plain in zip(seconds["both"], seconds["plain"], strict=True)]
        rows.append(
            {
                "choice": f"{axis}={name}",
                "alone, ms": shown([1e3 * each for each in seconds["alone"]]),
                "added to the batch, ms": shown([1e3 * each for each in added]),
                "added / alone": shown(added_share(seconds)),
            }
        )
    slowest = max(median(row) for row in map(added_share, data.values()))
    left_out = [f"{axis}={name}" for axis, name in apart]
    print(f"not in a batch with plain runs: {', '.join(left_out) or 'none'}")
    if kept := arguments.results == RESULTS:
        arguments.results = KEPT / arguments.axes.replace(",", "_")[:60]
    publish("mixed", rows, arguments, seconds=data, largest_median_share=slowest, left_out=left_out)
    if kept:
        PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page of all that was measured."""
    parts = [HEAD]
    for file in sorted(KEPT.glob("*/mixed.json")):
        found = json.loads(file.read_text(encoding="utf-8"))
        where = found["machine"]
        said = f"{where['processor']}, {where['cores']} cores, load {where['load'][0]:.1f}, {where['when'][:10]}"
        left = found["data"]["left_out"]
        parts.append(f"## {found['settings']['axes'].replace(',', ', ')}\n\n{said}.")
        parts.append(table(found["rows"]))
        parts += [f"Not in a batch with plain runs: {', '.join(f'`{each}`' for each in left)}."] if left else []
    return "\n\n".join(parts) + "\n"


def added_share(seconds: dict[str, list[float]]) -> list[float]:
    """Return what the choice adds to the plain runs as a share of what it takes alone, for every repetition."""
    triples = zip(seconds["both"], seconds["plain"], seconds["alone"], strict=True)
    return [(both - plain) / alone for both, plain, alone in triples]


if __name__ == "__main__":
    main()
