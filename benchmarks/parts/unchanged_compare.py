"""Two folders of runs, compared bit by bit: metrics without times, samples, scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

from benchmarks.parts.unchanged_runs import BASE

Line = Mapping[str, Any]
Runs = Mapping[tuple[str, str], Path]
METRICS, SAMPLES, SUMMARY = "metrics.jsonl", "samples.jsonl", "summary.json"
SHOWN = 3  # keys of a line that differs
ABSENT = "(absent)"


@dataclass
class Comparison:
    """What was compared, and what is wrong: a line for each file that differs and each run that did not end."""

    runs: int = 0
    lines: dict[str, int] = field(default_factory=lambda: dict.fromkeys((METRICS, SAMPLES, SUMMARY), 0))
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, old: Path, new: Path, sweeps: Iterable[str]) -> Comparison:
        """Compare these sweeps of two folders."""
        comparison = cls()
        for sweep in sweeps:
            ours, theirs = runs(old / sweep), runs(new / sweep)
            if not ours:
                comparison.problems.append(f"old: {sweep}: left no runs")
            for label in {**ours, **theirs}:
                comparison.add(f"{sweep}: {label}", ours.get(label), theirs.get(label))
        return comparison

    def add(self, name: str, old: Path | None, new: Path | None) -> None:
        """Compare two runs."""
        self.runs += 1
        if not old or not new:
            self.problems.append(f"{name}: only in {'old' if old else 'new'}")
            return
        unfinished = [f"{name}: {side}: {text}" for side, run in (("old", old), ("new", new)) if (text := reason(run))]
        self.problems += unfinished
        for file in self.lines if not unfinished else ():
            ours, theirs = rows(old / file), rows(new / file)
            self.lines[file] += len(ours)
            if text := difference(ours, theirs):
                self.problems.append(f"{name}: {file}, {text}")

    def summary(self, problems: int) -> str:
        """Return the last line."""
        compared = f"{self.runs} runs, {self.lines[METRICS]} lines of metrics, {self.lines[SAMPLES]} lines of samples"
        return f"{compared}{f'; problems: {problems}' if problems else ': no bit differs'}"


def runs(folder: Path) -> Runs:
    """Return the runs of a sweep by the overrides that make them differ from the others."""
    base = set(BASE.split())
    found = {}
    for path in sorted(folder.glob("*/.hydra/overrides.yaml")):
        overrides = [each for each in yaml.safe_load(path.read_text(encoding="utf-8")) if each not in base]
        found[" ".join(overrides)] = path.parents[1]
    return found


def reason(run: Path) -> str:
    """Return why a run did not end, "" if it did."""
    summary = next(iter(summaries(run)), {})
    return "" if summary.get("status") == "completed" else f"{summary.get('status')}: {summary.get('reason')}"


def summaries(run: Path) -> Iterator[dict]:
    """Return the summary of a run, if there is one."""
    path = run / SUMMARY
    if path.exists():
        yield json.loads(path.read_text(encoding="utf-8"))


def rows(path: Path) -> list[Line]:
    """Return what is compared of a file; nothing if there is none."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    if path.name == SUMMARY:
        return [{"score": json.loads(text).get("score", ABSENT)}]
    lines = [json.loads(line) for line in text.splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]


def difference(old: list[Line], new: list[Line]) -> str:
    """Say where two files differ first and in how many lines; "" if every bit is the same."""
    pairs = list(zip_longest(old, new))
    changed = [(number, keys) for number, (a, b) in enumerate(pairs, 1) if (keys := changed_keys(a or {}, b or {}))]
    if not changed:
        return ""
    number, keys = changed[0]
    a, b = pairs[number - 1]
    if a is None or b is None:
        return f"line {number} only in {'new' if a is None else 'old'}: {len(old)} lines in old, {len(new)} in new"
    step = f" (step {a['step']})" if "step" in a else ""
    values = [f"{key} {a.get(key, ABSENT)!r} → {b.get(key, ABSENT)!r}" for key in keys[:SHOWN]]
    more = [f"{len(keys) - SHOWN} more keys"] if len(keys) > SHOWN else []
    return f"line {number}{step}: {', '.join(values + more)}; {len(changed)} of {len(pairs)} lines differ"


def changed_keys(old: Line, new: Line) -> list[str]:
    """Return the keys whose values differ: equal ``repr`` is equal bits, for −0.0 and NaN too."""
    return [key for key in {**old, **new} if repr(old.get(key, ABSENT)) != repr(new.get(key, ABSENT))]
