"""Train the ablations of conf/study/ablations and keep them: ``python -m benchmarks.ablations dapo_factorial``.

Each is trained by ``rlexp ablate``, once in each of its conditions, in a folder of its own, where the same command goes
on. Its numbers are read from the same runs, each at the arms' best rates for that number; the grid of rates grows for
the first number. What each part is worth is pooled over conditions, and Holm corrects over the parts. A condition is
left out of a part where more than a tenth of the weight is of arms that are best at the end of their grid. Tables are
kept in docs/ablations/<name>, and docs/ablations.md is written anew from all that are there. Without names only the
page is written.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from benchmarks.parts.common import ROOT, environment_here
from rlexp.analysis.report.tables import TextTable, markdown
from rlexp.analysis.stats.ablation import Ablation, analyze
from rlexp.analysis.stats.designs import arms_of, contrasts_of
from rlexp.analysis.stats.formatting import format_p
from rlexp.analysis.stats.pooling import pool
from rlexp.analysis.stats.significance import holm
from rlexp.analysis.stats.words import EQUIVALENT, holm_levels, stable_words
from rlexp.config.choices import CONF
from rlexp.runfolder.variants import split_commas

DECLARED = CONF / "study" / "ablations"
KEPT = ROOT / "docs" / "ablations"
PAGE = ROOT / "docs" / "ablations.md"
MOST_AT_AN_END = 0.1
"""Of the weight of a part's arms, in a condition that still counts."""
SAME = 1e-3
"""The least error, in smallest effects that count: arms that are the same bit by bit have none."""
CANNOT = "cannot answer"
FILES = ("runs.parquet", "curves.parquet", "datapackage.json", "recompute.ipynb", "arms.csv", "rates.svg")
INTRODUCTION = """\
# Studies of several tricks at once

```
python -m benchmarks.ablations dapo_factorial
```

trains one of these, or goes on with it, and writes this page. Each was declared in
[conf/study/ablations](../conf/study/ablations) and committed before its first run. [ablate.md](ablate.md) explains the
designs, [questions.md](questions.md) the words and the endpoints.

**All of it is about a small transformer and short answers.** Arms share their seeds, and each is judged at its best
learning rate for the number in question. Words are of both conditions together, corrected over the parts by Holm.
*Open* is not *no effect*. Differences of a condition are in the number's own units. Those of all conditions are on its
scale, above 0 where the arm with the part is better.
"""


def main() -> None:
    """Train, keep, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a file in conf/study/ablations")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "runs" / "ablations", metavar="FOLDER", help="where runs go"
    )
    parser.add_argument("--commands", action="store_true", help="print what would be trained, and train nothing")
    launched = "what changes no number, as hydra.launcher.workers=1"
    parser.add_argument("--with", nargs="+", default=[], dest="launched", metavar="OVERRIDE", help=launched)
    chosen = parser.parse_args()
    known = sorted(file.stem for file in DECLARED.glob("*.yaml"))
    if unknown := next((name for name in chosen.names if name not in known), None):
        parser.error(f"{unknown}: is not in conf/study/ablations; there are {', '.join(known)}")
    for name in chosen.names:
        study, found = read(name), {}
        for condition, overrides in conditions(study).items():
            folder = chosen.runs.absolute() / name / condition
            command = [*ablate(study, overrides, folder), *chosen.launched]
            if chosen.commands:
                print(shlex.join(["rlexp", *command]))
                continue
            trains = [sys.executable, "-m", "rlexp", *command]
            if code := subprocess.run(trains, env=environment_here()).returncode:
                sys.exit(code)  # it has said why
            found[condition] = [analyze(folder, **asked(number)) for number in study["numbers"]]
            keep(folder / "ablation", KEPT / name / condition)
        if found:
            effects(study, found).to_csv(KEPT / name / "effects.csv", index=False)
    if not chosen.commands:
        PAGE.write_text(page(), encoding="utf-8")


def read(name: str) -> dict[str, Any]:
    return yaml.safe_load((DECLARED / f"{name}.yaml").read_text(encoding="utf-8"))


def conditions(study: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the overrides of each condition by its name: all combinations of the values of some keys."""
    axes = [[f"{key}={value}" for value in values] for key, values in study["conditions"].items()]
    return {",".join(each): list(each) for each in product(*axes)}


def asked(number: Mapping[str, Any]) -> dict[str, Any]:
    return {key: number.get(key) for key in ("endpoint", "smallest")}


def ablate(study: Mapping[str, Any], overrides: Sequence[str], folder: Path) -> list[str]:
    """Return the command that trains a condition; its number is the first of the study."""
    parts = study["parts"]
    words = ["ablate", "--parts", ",".join(parts.values())]
    for design in study["designs"]:
        words += ["--ladder", ",".join(parts.values())] if design == "ladder" else [f"--{design}"]
    words += ["--tune", study["tune"], "--seeds", ",".join(map(str, study["seeds"])), "--metric", study["metric"]]
    words += ["--endpoint", study["numbers"][0]["endpoint"]]
    return [*words, "--folder", str(folder), "--with", *study["with"], *overrides, "threads=1", "logger=none"]


def keep(analysis: Path, place: Path) -> None:
    """Copy what the numbers of a condition rest on."""
    place.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(analysis / name, place)


def effects(study: Mapping[str, Any], found: Mapping[str, Sequence[Ablation]]) -> pd.DataFrame:
    """Return a row for what each number says of each part, or two, in each condition, and in all of them."""
    names = {override: name for name, override in study["parts"].items()}
    rows: list[dict[str, Any]] = []
    for place, number in enumerate(study["numbers"]):
        of = {condition: ablations[place] for condition, ablations in found.items()}
        stuck = {condition: at_an_end(each) for condition, each in of.items()}
        first = next(iter(of.values()))
        for kind in first.effects["kind"].unique():
            shared = {"number": number["endpoint"], "asked": number["kind"], "kind": kind}
            each = [
                {**shared, "part": " × ".join(names.get(part, part) for part in row["parts"].split(" × "))}
                | {"condition": condition, "at_an_end": stuck[condition].get((kind, row["parts"]), 0.0)}
                | {key: row[key] for key in ("effect", "error", "n", "difference", "low", "high", "p")}
                for condition, ablation in of.items()
                for _, row in ablation.effects[ablation.effects["kind"] == kind].iterrows()
            ]
            rows += each
            scale = {"smallest": first.smallest, "scale": first.scale.name}
            rows += [
                {**shared, "condition": "all", **row, **scale} for row in pooled(each, number["kind"], first.smallest)
            ]
    return pd.DataFrame(rows)


def at_an_end(ablation: Ablation) -> dict[tuple[str, str], float]:
    """Return the share of each contrast's weight that is of arms whose best rate is at the end of the grid."""
    arms, declared = [*ablation.grids], ablation.declared
    ends = np.array([bool(ablation.levels["edge"][ablation.label(arm)]) for arm in arms])
    found = {}
    for design in declared["designs"]:
        for contrast in contrasts_of(design, arms, len(ablation.parts), declared["order"]):
            weight = np.abs(contrast.weights)
            parts = " × ".join(ablation.parts[part] for part in contrast.parts)
            found[contrast.kind, parts] = float(weight[ends].sum() / weight.sum())
    return found


def pooled(rows: Sequence[Mapping[str, Any]], kind: str, smallest: float) -> list[dict[str, Any]]:
    """Return a row a part: its mean effect over conditions, on the scale, with its 95 % interval and its word."""
    together, counted = [], []
    for part in dict.fromkeys(row["part"] for row in rows):
        kept = [row for row in rows if row["part"] == part and row["at_an_end"] <= MOST_AT_AN_END]
        numbers = [np.array([row[key] for row in kept], dtype=float) for key in ("effect", "error", "n")]
        numbers[1] = np.maximum(numbers[1], SAME * smallest)
        found = {"part": part, "conditions": len(kept), "p": np.nan, "word": CANNOT}
        if kept:
            mean = pool(numbers[0], numbers[1], numbers[2] - 1)
            low, high = mean.interval()
            found |= {
                "effect": float(mean.estimate),
                "error": float(mean.error),
                "low": float(low),
                "high": float(high),
            }
            found["p"] = float(mean.p_equal(smallest) if kind == EQUIVALENT else mean.p())
        together.append(found)
        counted.append(numbers)
    p = np.array([found["p"] for found in together])
    for found, numbers, p_holm, alpha in zip(together, counted, holm(p), holm_levels(p), strict=True):
        if found["conditions"]:
            word = stable_words(numbers[0], numbers[1], numbers[2] - 1, kind, smallest, alpha).word
            found |= {"p_holm": p_holm, "word": str(word)}
    return together


def page() -> str:
    """Return the page: what each study asks, and the tables of those that were trained."""
    return "\n".join([INTRODUCTION, *(section(file.stem) for file in sorted(DECLARED.glob("*.yaml")))])


def section(name: str) -> str:
    study, file = read(name), KEPT / name / "effects.csv"
    parts = "; ".join(f"{part}: `{override}`" for part, override in study["parts"].items())
    arms = f"`python -m benchmarks.ablations {name}` · {len(study['seeds'])} seeds in each of "
    arms += f"{len(conditions(study))} conditions ({', '.join(conditions(study))})"
    lines = [f"## {study['question']}", f"Source: {study['source']}.", f"Parts: {parts}.", arms + "."]
    if not file.is_file():
        return "\n\n".join([*lines, f"Not trained yet: {cost(study)}", ""])
    remark = KEPT / name / "remark.md"
    lines[1:1] = [remark.read_text(encoding="utf-8").strip()] if remark.is_file() else []
    return "\n\n".join([*lines, *tables(pd.read_csv(file)), f"[All numbers](ablations/{name}/effects.csv)", ""])


def cost(study: Mapping[str, Any]) -> str:
    """Say what a study trains to begin with."""
    k = len(study["parts"])
    arms = {arm for design in study["designs"] for arm in arms_of(design, k)}
    rates = len(split_commas(study["tune"].partition("=")[2]))
    runs = len(conditions(study)) * len(arms) * rates * len(study["seeds"])
    (steps,) = (each.removeprefix("steps=") for each in study["with"] if each.startswith("steps="))
    return f"{runs} runs of {steps} steps to begin with. [claims.md](claims.md#not-trained-yet) says what a step takes."


def tables(rows: pd.DataFrame) -> Iterator[str]:
    """Yield a table for each number and kind of effect; interactions only where one is below 0.05 after Holm."""
    for (number, asked_, kind), kept in rows.groupby(["number", "asked", "kind"], sort=False):
        together = kept[kept["condition"] == "all"].set_index("part")
        if kind == "interaction":
            together = together[together["p_holm"] < 0.05]
            if together.empty:
                yield f"**`{number}`, interaction**: none of {kept['part'].nunique()} has p (Holm) below 0.05."
                continue
        each = kept[kept["condition"] != "all"].set_index(["part", "condition"])
        names = list(dict.fromkeys(each.index.get_level_values("condition")))
        scale = together["scale"].iloc[0]
        cells = []
        for part, row in together.iterrows():
            shown = [f"{each.loc[(part, name), 'difference']:+.3f}" for name in names]
            pair = f"{row['effect']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
            cells.append([part, *shown, pair, format_p(row["p_holm"]), row["word"]])
        heads = ["part", *names, f"all, {scale} [95 %]", "p (Holm)", f"{asked_}?"]
        smallest = together["smallest"].iloc[0]
        heading = f"**`{number}`, {kind}** (smallest effect that counts: {smallest:.3g}, {scale})"
        yield f"{heading}\n\n{markdown(TextTable(heads, cells))}".rstrip()


if __name__ == "__main__":
    main()
