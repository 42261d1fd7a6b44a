"""Studies of several tricks at once, which conf/study/ablations declares and docs/ablations keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.ablations import conditions, read
from benchmarks.stored.folders import FINAL, curves_of, facts_of, kept_runs
from benchmarks.stored.study import CONDITION, PART, Finding, Study, level_rows
from rlexp.analysis.stats.endpoints import parse_endpoint

ALL = "all"  # how effects.csv names what is pooled over conditions
RECIPE = "whole recipe"
AVERAGED = "main effect"
ALONE = "added first"


def several_tricks_studies(docs: Path) -> Iterator[Study]:
    """Yield each study that was trained."""
    for file in sorted((docs / "ablations").glob("*/effects.csv")):
        study, places = read(file.parent.name), conditions(read(file.parent.name))
        runs = {place: pd.read_parquet(file.parent / place / "runs.parquet") for place in places}
        tables = [kept_runs(table.assign(condition=place), study["metric"], "lr") for place, table in runs.items()]
        yield Study(
            name=file.parent.name,
            kind="ablation",
            question=study["question"],
            source=study["source"],
            page="ablations.md",
            command=f"python -m benchmarks.ablations {file.parent.name}",
            overrides=tuple(study["with"]),
            metric=study["metric"],
            findings=list(findings_of(pd.read_csv(file), study)),
            runs=pd.concat(tables, ignore_index=True),
            levels=level_rows([]),
            curves=pd.concat([curves_of(file.parent / place) for place in places], ignore_index=True),
            tuned="lr",
            facts=facts_of(pd.concat(runs.values())),
        )


def findings_of(effects: pd.DataFrame, study: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what the whole recipe and each part are worth, over all conditions on the scale, then in each.

    A main effect is the mean over the arms that have the part less that over those that do not; a part that is added
    first is alone. The two sides are named by the part alone and the baseline.
    """
    known = effects.astype(object).where(effects.notna(), None)
    told = known[known["kind"].isin([RECIPE, AVERAGED, ALONE])]
    for row in told.sort_values("condition", kind="stable").itertuples():
        number = parse_endpoint(row.number).label(study["metric"])
        metric = number if study["metric"] != number or row.number == FINAL else f"{number}, {row.number}"
        arm, said = study["parts"].get(row.part, "recipe"), f"{row.kind}: {row.part}"
        found = Finding(PART, "", arm, "baseline", metric, low=row.low, high=row.high, said=said)
        if row.condition == ALL:
            yield found._replace(verdict=row.word, expected=row.asked, effect=row.effect, units=row.scale,
                                 n=int(row.conditions), p=row.p_holm, smallest=row.smallest)  # fmt: skip
        else:
            yield found._replace(role=CONDITION, condition=row.condition, effect=row.difference, n=int(row.n))
