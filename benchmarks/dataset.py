"""A data set of everything that is stored under docs/: ``python -m benchmarks.dataset`` writes build/data.

Studies, findings, levels, runs and curves, each a table, with a card, Croissant metadata, a data package, checksums,
and a notebook that computes effects from the runs. It is written by what writes that of ``rlexp publish``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.explorer.data import settings_of, worlds_of
from benchmarks.parts.common import ROOT
from benchmarks.stored import studies
from benchmarks.stored.study import Study
from rlexp.analysis.report.data_set import SEED, write_described
from rlexp.analysis.report.kept_files import Column, Table
from rlexp.analysis.report.page import TEMPLATES

NAME = "rlexp-stored"
LARGEST = 50_000_000  # bytes of all files
STUDY = Column("string", "name of the study", required=True)
CONDITION = Column("string", "where it was made, as overrides joined by commas; empty: in one place", required=True)
STUDIES = {
    "study": STUDY,
    "kind": Column("string", "where it comes from", True, ("claim", "question", "ablation", "sweep", "speedrun")),
    "question": Column("string", "what was asked", required=True),
    "source": Column("string", "who says what is tried, where a paper does"),
    "page": Column("string", "where it is told, below docs/", required=True),
    "command": Column("string", "trains it", required=True),
    "metric": Column("string", "what is compared unless a finding says another", required=True),
    "tuned": Column("string", "the key of which each arm is judged at its best value; empty: none"),
    "settings": Column("string", "settings that differ from the default run, as JSON", required=True),
    "runs": Column("integer", "how many were trained, as far as it is stored", required=True),
    "scores": Column("integer", "how many of them have their score in runs.parquet", required=True),
    "commit": Column("string", "of the code that trained it"),
    "machine": Column("string", "that trained it"),
}
FINDINGS = {
    "study": STUDY,
    "place": Column("integer", "of the finding in its study", required=True),
    "role": Column("string", "why it was made, as expectation or secondary", required=True),
    "condition": CONDITION,
    "arm": Column("string", "one side of the comparison, as overrides", required=True),
    "versus": Column("string", "the other; empty where an arm is held against a number", required=True),
    "metric": Column("string", "what is compared; `cost:` is what was spent until a metric is reached", required=True),
    "verdict": Column("string", "by the rules of its study; empty: it has none of its own", required=True),
    "expected": Column("string", "the expectation in words", required=True),
    "effect": Column("number", "arm − versus, over paired seeds"),
    "low": Column("number", "lower end of its interval, 95 % unless `said` names another"),
    "high": Column("number", "upper end of it"),
    "units": Column("string", "of the effect", required=True),
    "n": Column("integer", "paired seeds, or starts, or conditions of a pooled effect"),
    "p": Column("number", "two-sided, corrected where the study corrects it"),
    "smallest": Column("number", "the smallest effect that counts"),
    "said": Column("string", "the numbers or the reason as they were printed", required=True),
    "tasks": Column("string", "joined by a semicolon", required=True),
    "starts": Column("string", "joined by a semicolon", required=True),
    "weights": Column("string", "of the model, joined by a semicolon", required=True),
}
LEVELS = {
    "study": STUDY,
    "condition": CONDITION,
    "arm": Column("string", "as overrides", required=True),
    "n": Column("integer", "runs with a number", required=True),
    "mean": Column("number", "of their numbers"),
    "iqm": Column("number", "interquartile mean"),
    "iqm_low": Column("number", "lower end of its 95 % interval (bootstrap)"),
    "iqm_high": Column("number", "upper end of it"),
    "collapsed": Column("integer", "runs that ended below the floor of the score"),
    "failed": Column("integer", "runs that did not complete"),
}
RUNS = {
    "study": STUDY,
    "condition": CONDITION,
    "arm": Column("string", "as overrides", required=True),
    "metric": Column("string", "what the score is", required=True),
    "value": Column("number", "of the tuned key; empty: none is tuned"),
    "best": Column("boolean", "whether the arm is judged by this run", required=True),
    "seed": Column("integer", "runs of one study and condition with one seed are compared with each other", True),
    "status": Column("string", "how the run ended", required=True),
    "score": Column("number", "in the metric's units"),
    "on_scale": Column("number", "on the scale that chose the value, larger is better; empty: as it is"),
    "run": Column("string", "name of the run in its study", required=True),
}
CURVES = {
    "study": STUDY,
    "run": Column("string", "as in runs", required=True),
    "seed": Column("integer", "of the run", required=True),
    "step": Column("integer", "after so many steps", required=True),
    "completions": Column("integer", "that the run had sampled by then"),
}


def tables(stored: Sequence[Study]) -> dict[str, Table]:
    """Return the tables by their files."""
    curves = pd.concat([study.curves.assign(study=study.name) for study in stored if study.curves is not None])
    metrics = {name: Column("number", f"the metric {name}") for name in curves if name not in CURVES}
    key = ("study", "condition", "arm", "metric", "value", "seed")
    return {
        "studies.csv": Table(frame(map(study_row, stored), STUDIES), "a row a study", STUDIES, ("study",)),
        "findings.csv": Table(
            frame((row for study in stored for row in finding_rows(study)), FINDINGS),
            "a row a comparison of two arms, with its verdict",
            FINDINGS,
            ("study", "place"),
            ("study", "studies"),
        ),
        "levels.csv": Table(
            pd.concat([study.levels.assign(study=study.name) for study in stored])[[*LEVELS]],
            "a row an arm, of studies without single scores",
            LEVELS,
            ("study", "condition", "arm"),
            ("study", "studies"),
        ),
        "runs.parquet": Table(
            pd.concat([study.runs.assign(study=study.name) for study in stored if len(study.runs)])[[*RUNS]],
            "a row a run and metric",
            RUNS,
            key,
            ("study", "studies"),
        ),
        "curves.parquet": Table(
            curves[[*CURVES, *metrics]], "a row a run and evaluation", CURVES | metrics, ("study", "run", "step")
        ),
    }


def frame(rows: Iterable[dict[str, Any]], columns: dict[str, Column]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=[*columns])


def study_row(study: Study) -> dict[str, Any]:
    """Return what is said of a study as a whole."""
    scores = study.runs[study.runs["metric"] == next(iter(study.runs["metric"]), "")]
    told = {name: getattr(study, name) for name in ("kind", "question", "source", "page", "command", "metric", "tuned")}
    return {
        "study": study.name,
        **told,
        "settings": json.dumps(settings_of(study), ensure_ascii=False),
        "runs": study.facts.get("trained", len(scores)),
        "scores": int(scores["score"].notna().sum()),
        "commit": study.facts.get("commit"),
        "machine": study.facts.get("machine"),
    }


def finding_rows(study: Study) -> Iterable[dict[str, Any]]:
    """Yield the findings of a study."""
    for place, found in enumerate(study.findings):
        worlds = worlds_of(study, found)
        yield {
            "study": study.name,
            "place": place,
            **found._asdict(),
            "tasks": "; ".join(sorted({each.task for each in worlds})),
            "starts": "; ".join(sorted({each.start for each in worlds})),
            "weights": "; ".join(map(str, sorted({each.weights for each in worlds if each.weights is not None}))),
        }


def sections(stored: Sequence[Study]) -> dict[str, list[str]]:
    """Return what the card says of seeds, of the choice of studies, and of what is missing."""
    kinds = pd.Series([study.kind for study in stored]).value_counts()
    silent = [study for study in stored if study.runs.empty]
    trained = sum(study.facts["trained"] for study in silent)
    without_curves = sum(study.curves is None for study in stored)
    machines = sorted({machine for study in stored if (machine := study.facts.get("machine"))})
    return {
        "What a seed randomizes": [SEED],
        "Which studies": [
            f"All that are stored, whatever came out: {', '.join(f'{n} of kind {kind}' for kind, n in kinds.items())}.",
            "Expectations of claims and questions were written down before their first run; docs/claims_explored.md "
            "names those that were changed later. `best` marks the runs that are judged: those of the value of the "
            "tuned key that was chosen for their arm.",
        ],
        "Known faults": [
            f"- {len(silent)} studies of claims have levels and verdicts only: no score of their {trained:,} runs is "
            "stored.\n"
            f"- {without_curves} studies have no curves.\n"
            "- Effects of sweeps and of most ablations are those that were printed, to their digits.\n"
            "- Measurements of speed, of reliability and of the statistics are not here.",
        ],
        "Machine": ["\n".join(f"- {machine}" for machine in machines)],
    }


def notebook() -> str:
    """Return the notebook: that of a question has the cells that compute an arm at its best value."""
    cells = {
        cell["id"]: cell
        for name in ("recompute_question", "recompute_sweeps")
        for cell in json.loads((TEMPLATES / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    }
    own = json.loads(Path(__file__).with_name("parts").joinpath("recompute_stored.json").read_text(encoding="utf-8"))
    own["cells"] = [cells[cell["id"]] if not cell["source"] else cell for cell in own["cells"]]
    return json.dumps(own, indent=1, ensure_ascii=False) + "\n"


def write(place: Path, stored: Sequence[Study]) -> list[Path]:
    """Write the data set into a folder; return its files."""
    made = tables(stored)
    findings, runs = (len(made[file].rows) for file in ("findings.csv", "runs.parquet"))
    description = (
        f"What is stored of the studies of rlexp, which ablates the tricks of GRPO and REINFORCE on small tasks: "
        f"{len(stored)} studies, {findings:,} comparisons, {runs:,} scores of runs."
    )
    computes = "computes effects in findings.csv from runs.parquet, without rlexp"
    return write_described(place, NAME, made, description, sections(stored), notebook(), computes)


def main() -> None:
    """Write the data set and print its files and their sizes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dataset", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "data", help="folder to write")
    for file in write(parser.parse_args().out, studies()):
        print(f"{file.stat().st_size:>12,}  {file}")


if __name__ == "__main__":
    main()
