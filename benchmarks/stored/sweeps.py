"""Sweeps that are stored as each run's score beside what `rlexp compare` printed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.stored import printed
from benchmarks.stored.study import Finding, Study, level_rows, run_rows
from benchmarks.stored.world import of, score_metric, study_of
from rlexp.runfolder.variants import DEFAULT, SEEDS, key_of, number, parse_override, split_overrides

PAGES = {
    "ablation": "get_started.md",
    "confirmation": "get_started.md",
    "norms": "get_started.md",
    "lecture": "lecture17.md",
    "lecture_again": "lecture17.md",
    "real_models": "real_models.md",
}


def sweep_studies(docs: Path) -> Iterator[Study]:
    """Yield the sweeps of docs/readme, docs/studies and docs/transfer, but for those that claims count."""
    for folder in ("readme", "studies", "transfer"):
        stored = json.loads((docs / folder / "results.json").read_text(encoding="utf-8"))
        for name, record in stored.items():
            if not (docs / "claims" / "results" / f"{name}.json").is_file():
                text = (docs / folder / f"{name}.txt").read_text(encoding="utf-8")
                yield sweep_study(name, record, text, PAGES.get(name, f"studies.md#study{name}"))


def sweep_study(name: str, record: Mapping[str, Any], text: str, page: str) -> Study:
    """Return a sweep from its scores and what was printed of it."""
    given = shlex.split(record["command"])[3:]
    study = next((each.partition("=")[2] for each in given if each.startswith("study=")), "")
    varied = of((f"study={study}",)).swept if study else dict(map(parse_override, sweeps_of(given)))
    shared = tuple(each for each in given if "=" in each and key_of(each) not in varied)
    declared = study_of(shared) if study else {}
    metric = declared.get("metric") or score_metric(shared)
    tuned = (declared.get("best_of") or [""])[0]
    axes = [key for key in varied if key not in (*SEEDS, tuned)]
    found = printed.verdicts(text, metric) if declared.get("expect") else printed.differences(text, axes[0], metric)
    runs = scored_runs(record["scores"], shared, tuned, varied)
    return Study(
        name=study or name,
        kind="sweep",
        question=declared.get("question") or f"Which choice of {' and '.join(axes)} is best?",
        source=declared.get("source") or "",
        page=page,
        command=record["command"].replace("python -m rlexp.train", "rlexp"),
        overrides=shared,
        metric=metric,
        findings=found,
        runs=runs,
        levels=level_rows([]),
        tuned=tuned,
        facts={"machine": record["machine"]["processor"]},
    )


def sweeps_of(given: Sequence[str]) -> list[str]:
    """Return the overrides of a command line that name several values."""
    return [each for each in given if "," in each or each.startswith(tuple(f"{key}=" for key in SEEDS))]


def scored_runs(
    scores: Mapping[str, float | None],
    shared: tuple[str, ...],
    tuned: str,
    varied: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return a row a run of a sweep, whose name says what it varies.

    Args:
        scores: by the run's name.
        shared: overrides of all of them; a study among them says what is varied, compared apart and tuned.
        tuned: the key of which each arm gets its best value; empty where there is none.
        varied: the keys that the runs vary, where no study says it.
    """
    declared = study_of(shared) or {}
    varied = of(shared).swept if varied is None else varied
    apart = [key for key in declared.get("within") or [] if key in varied]
    metric, rows = score_metric(shared), []
    read = {name: dict(map(parse_override, split_overrides(name))) for name in scores}
    several = [key for key in varied if len({settings.get(key) for settings in read.values()}) > 1]
    of_arms = [key for key in several if key not in (*SEEDS, tuned, *apart)]
    for name, score in scores.items():
        settings = read[name]
        rows.append(
            {
                "condition": joined({key: settings[key] for key in apart}),
                "arm": joined({key: value for key, value in settings.items() if key in of_arms}) or DEFAULT,
                "metric": metric,
                "value": number(settings[tuned]) if tuned else None,
                "seed": int(settings["seed"]),
                "status": "completed" if score is not None else "no score",
                "score": score,
                "run": name,
            }
        )
    runs = run_rows(rows)
    return at_best(runs, declared) if tuned else runs


def joined(settings: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in settings.items())


def at_best(runs: pd.DataFrame, declared: Mapping[str, Any]) -> pd.DataFrame:
    """Mark the runs that are judged: of the best value, on the seeds that did not choose it."""
    seeds = sorted(runs["seed"].unique())
    choosing = declared.get("choose_seeds") or seeds[: len(seeds) // 2]
    means = runs[runs["seed"].isin(choosing)].groupby(["condition", "arm", "value"], sort=False)["score"].mean()
    best = means.groupby(["condition", "arm"], sort=False).idxmax().map(lambda place: place[2])
    chosen = [best[row.condition, row.arm] == row.value for row in runs.itertuples()]
    return runs.assign(best=np.array(chosen) & ~runs["seed"].isin(choosing).to_numpy())


def dynamics_studies(docs: Path) -> Iterator[Study]:
    """Yield the sweeps of docs/dynamics, each run with a number in several metrics."""
    for file in sorted((docs / "dynamics").glob("*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        given = shlex.split(record["command"])[2:]
        varied = dict(map(parse_override, (each for each in given if is_swept(each))))
        shared = tuple(each for each in given if key_of(each) not in (*varied, "hydra.sweep.dir"))
        findings, rows = [], []
        for metric, compared in record["compared"].items():
            findings += table_findings(compared["table"], varied, metric)
            for stratum, arms in compared["scores"].items():
                condition = "" if stratum == "None" else stratum
                for variant, scores in arms.items():
                    arm = joined({k: v for k, v in map(parse_override, split_overrides(variant)) if k in varied})
                    same = {"condition": condition, "arm": arm, "metric": metric}
                    rows += [
                        {**same, "seed": int(seed), "score": score, "run": f"{condition},{arm},seed={seed}".strip(",")}
                        for seed, score in scores.items()
                    ]
        first = next(iter(record["compared"]))
        yield Study(
            name=f"dynamics/{file.stem}",
            kind="sweep",
            question=QUESTIONS[file.stem],
            source="",
            page="dynamics.md",
            command=record["command"],
            overrides=shared,
            metric=first,
            findings=findings,
            runs=run_rows(rows),
            levels=level_rows([]),
            facts={"machine": record["machine"]["processor"]},
        )


QUESTIONS = {  # as in the first table of docs/dynamics.md
    "lengths": "Do wrong answers grow under a mean over each completion?",
    "truncation": "What if cut-off answers are masked, punished, or neither?",
    "clip": "Does a higher clip pay after 10, 50 and 200 steps?",
    "coverage": "Does pass@k cross?",
}


def is_swept(override: str) -> bool:
    """Whether an override of a command line names several values."""
    value = parse_override(override)[1]
    return value.startswith("range(") or ("," in value and not value.startswith("["))


def table_findings(text: str, varied: Mapping[str, str], metric: str) -> Iterator[Finding]:
    """Yield the differences of a Markdown table, or of one in each stratum; pooled ones are of another scale."""
    axes = [key for key in varied if key not in (*SEEDS, *CONDITIONS)]
    for block in text.split("### "):
        stratum = block.partition("\n")[0].strip() if "### " in text else ""
        if "|" in block and stratum != "pooled":
            for each in printed.markdown_differences(block, axes[0], metric):
                yield each._replace(condition=stratum)


CONDITIONS = ("steps",)
