"""Records of the speedrun: completions until each run has learned a world."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.stored.study import DIFFERENCE, Finding, Study, level_rows, run_rows
from rlexp.runfolder.variants import DEFAULT
from rlexp.speedrun.recipe import WORLDS


def speedrun_studies(docs: Path) -> Iterator[Study]:
    """Yield a study for each world that has records; a draw of a record is a condition."""
    for name, world in WORLDS.items():
        files = sorted((docs / "speedrun" / "records").glob(f"{name}-*.json"))
        records = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        metric = f"completions until {world.metric} is {world.target:g}"
        findings, rows, before = [], [], ""
        for record in sorted(records, key=lambda each: each["number"]):
            arm = "+".join(record["recipe"]) or DEFAULT
            for number, draw in enumerate([record, *record["draws"]], 1):
                condition = f"record {record['number']} draw {number}"
                rows += draw_rows(draw, condition, {arm: "completions", before: "before_completions"}, metric)
                if before and draw["p"] is not None:
                    said = "p of signed ranks, which is what a record needs below .01"
                    findings.append(Finding(DIFFERENCE, condition, arm, before, metric, p=draw["p"],
                                            n=len(draw["seeds"]), said=said))  # fmt: skip
            before = arm
        if records:
            yield Study(
                name=f"speedrun/{name}",
                kind="speedrun",
                question=world.what,
                source="",
                page="speedrun.md",
                command=f"rlexp speedrun {' '.join([name, *before.split('+')]).removesuffix(DEFAULT).strip()}",
                overrides=world.overrides,
                metric=metric,
                findings=findings,
                runs=run_rows(rows),
                levels=level_rows([]),
                facts={"commit": records[-1]["build"]["commit"], "machine": records[-1]["build"]["cpu"]},
            )


def draw_rows(
    draw: Mapping[str, Any], condition: str, arms: Mapping[str, str], metric: str
) -> Iterator[dict[str, Any]]:
    """Yield the runs of a draw; one that never learned its world has no number."""
    for arm, key in arms.items():
        numbers: Sequence[int | None] = draw[key] or []
        for seed, number in zip(draw["seeds"], numbers, strict=False):
            status = "completed" if number is not None else "never arrived"
            run = f"{condition},{arm},seed={seed}"
            yield {"condition": condition, "arm": arm, "metric": metric, "seed": seed, "status": status,
                   "score": number, "run": run}  # fmt: skip
