"""What an answered question keeps beside its page: each run's numbers, the curves, the effects by condition, a card."""

from pathlib import Path
from typing import Any

import pandas as pd

from rlexp.analysis.data.run_values import cumulative_cost
from rlexp.analysis.data.sweep_files import first_start
from rlexp.analysis.report.kept_files import (
    NOTEBOOK_FILE,
    PACKAGE_FILE,
    Column,
    Table,
    card_text,
    curves_table,
    runs_table,
    scale_facts,
    write_kept,
)
from rlexp.analysis.report.page import TEMPLATES
from rlexp.analysis.stats.condition_runs import ArmKey
from rlexp.analysis.stats.question import QUESTION_FILE, Answer

EFFECT_COLUMNS = {
    "assertion": Column("integer", "which one, counted from 1", required=True),
    "condition": Column("string", "where the arms were compared", required=True),
    "effect": Column("number", "arm − versus, on the scale"),
    "error": Column("number", "its standard error, t distribution with n − 1 degrees of freedom"),
    "n": Column("integer", "seeds", required=True),
    "p": Column("number", "two-sided, of no effect"),
    "level": Column("number", "of the arm that is compared with, in the metric's units"),
    "own": Column("number", "of the arm"),
    "fails": Column("string", "why the condition was dropped; empty if it was not"),
}

OTHERS = {
    PACKAGE_FILE: "what each column is, the scales, and what was asked",
    NOTEBOOK_FILE: "computes effects, intervals, p and words from these files, without rlexp",
    "answer.json": "the answer for programs",
    "answer.html": "the page; its figures are beside it",
    "secondary.csv": "further numbers, with q",
}
NOTEBOOK = TEMPLATES / "recompute_question.ipynb"
"""Its cells whose ids the ablation's notebook has, too, are the same there."""


def write_question(answer: Answer, place: Path, findings: list[str], command: str) -> list[Path]:
    """Write all that an answer keeps into a folder that is there; return the files."""
    tables = {
        "runs.parquet": run_table(answer),
        "curves.parquet": curve_table(answer),
        "effects.csv": effect_table(answer),
    }
    asked = f"`{QUESTION_FILE}` in the folder above was written before the first run; its hash is `{answer.hash}`."
    sections = {"": findings, "What was asked": [asked, f"```\n{command}\n```"]}
    about = {name: table.about for name, table in tables.items()} | OTHERS
    card = card_text("Answer", about, sections)
    return write_kept(place, tables, facts(answer), card, NOTEBOOK.read_text(encoding="utf-8"))


def arm_label(arm: ArmKey) -> str:
    """`clip=higher`, or `clip=higher at steps=200` where arms are trained to a budget."""
    name, budget = arm
    return f"{name} at {budget}" if budget else name


def run_table(answer: Answer) -> Table:
    """Return a row a run: condition, arm, value of the tuned key, seed, and the number that each assertion looks at."""
    declared, rows = answer.declared, []
    tuned = declared["tune"]["key"] if declared["tune"] else None
    own = {
        f"assertion_{count}": Column("number", f"the number by which assertion {count} is judged: {each.metric}")
        for count, each in enumerate(answer.assertions, 1)
    }
    main: dict[str, float] = {}
    for condition in answer.conditions:
        main |= condition.main.metric.values.to_dict()
        numbers = (each.metric.values.to_dict() for each in condition.asserted)
        numbers = dict(zip(own, numbers, strict=True))
        for arm, points in condition.names.items():
            grid = condition.grids.get(arm)
            on_scale = condition.scores(arm) if grid is None else grid.values
            for place, names in enumerate(points):
                role = {"condition": condition.name, "arm": arm_label(arm)}
                role |= {"best": grid is not None and place == grid.best}
                role |= {tuned: condition.values[place]} if tuned else {}
                for name, scaled in zip(names, on_scale[place], strict=True):
                    run = {"seed": int(name.rpartition("seed=")[2]), "folder": name, "on_scale": scaled}
                    rows.append(role | run | {key: values.get(name) for key, values in numbers.items()})
    return runs_table(pd.DataFrame(rows), answer.data.runs, pd.Series(main, dtype=float), tuned, own)


def curve_table(answer: Answer) -> Table:
    """Return a row a run and evaluation: completions by then, each score's metric, and those that are judged."""
    data = answer.data
    scores = [data.score_metric, *data.runs["score_metric"].dropna()]  # conditions may differ in it
    named = [name for each in answer.assertions for name in each.metric.split(", ")]
    metrics = [name for name in dict.fromkeys([*scores, *named]) if name in data.metrics]
    columns = {"folder": data.metrics["name"], "seed": data.metrics["seed"], "step": data.metrics["step"]}
    columns |= {"completions": cumulative_cost(data, "rollouts")} if "progress/completions" in data.metrics else {}
    table = pd.DataFrame(columns | {name: data.metrics[name] for name in metrics})
    wanted = {name for each in answer.conditions for names in each.names.values() for row in names for name in row}
    return curves_table(table[table["folder"].isin(wanted) & table[metrics].notna().any(axis=1)])


def effect_table(answer: Answer) -> Table:
    """Return a row an assertion and condition."""
    rows = [
        {"assertion": count, "condition": each.condition, "effect": each.found.value, "error": each.found.error}
        | {"n": each.found.n, "p": each.found.p, "level": each.level, "own": each.own, "fails": each.fails}
        for count, answered in enumerate(answer.assertions, 1)
        for each in answered.effects
    ]
    return Table(pd.DataFrame(rows), "a row an assertion and condition", EFFECT_COLUMNS, ("assertion", "condition"))


def facts(answer: Answer) -> dict[str, Any]:
    """Return what a data package says beside its tables: what was asked with its hash, its first run, and the scales.

    `first_run` is when the first run began; `scales` has a list a condition: of the question's number, then of each
    assertion's.
    """
    began = first_start(answer.folder)
    scales = {
        condition.name: [
            {"metric": each.metric.metric} | scale_facts(each.scale, each.sign)
            for each in (condition.main, *condition.asserted)
        ]
        for condition in answer.conditions
    }
    return {
        "name": "answer",
        "title": "Runs of a declared question",
        "question": {
            "hash": answer.hash,
            "first_run": began and began.isoformat(timespec="seconds"),
            "declared": dict(answer.declared),
        },
        "late_share": answer.data.score_share,
        "scales": scales,
        "assertions": [
            {"metric": each.metric, "scale": each.scale.name, "smallest": each.smallest, "word": each.judgment.word}
            for each in answer.assertions
        ],
    }
