"""Do stored answers hold on this machine? ``python -m benchmarks.again`` asks questions again and compares.

Without names it asks those about worlds, which take minutes. Of each question it says whether every assertion has the
stored word, and how many runs have the stored scores bit by bit: on another kind of processor words should hold, and
bits need not. Runs go to runs/again, and the same command goes on with those that are there; overrides that change no
result, as hydra/launcher=ray, go to the training. Exit code 1 if a word is another one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.asked import command
from benchmarks.parts.common import ROOT, environment_here
from benchmarks.stored.folders import question_studies, question_study
from benchmarks.stored.study import POOLED, Study

RUN = ["condition", "arm", "value", "seed"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask again and compare; return 1 where a word is another one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="questions with an answer, and overrides of training")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "again", metavar="FOLDER", help="where runs go")
    options = parser.parse_args(arguments)
    stored = {study.name: study for study in question_studies(ROOT / "docs")}
    overrides = [name for name in options.names if "=" in name]
    names = [name for name in options.names if name not in overrides]
    if unknown := [name for name in names if name not in stored]:
        print(f"{unknown[0]}: has no stored answer; must be one of {', '.join(stored)}", file=sys.stderr)
        return 2
    same = True
    for name in names or [name for name, study in stored.items() if "model=tabular" in study.overrides]:
        folder = options.runs.absolute() / name
        asks = command(name, folder, overrides)
        if code := subprocess.run(asks, env=environment_here(), stdout=subprocess.DEVNULL).returncode:
            return code
        answer = json.loads((folder / "answer" / "answer.json").read_text(encoding="utf-8"))
        same &= compare(stored[name], question_study(folder / "answer", answer, name, ""))
    return int(not same)


def compare(before: Study, now: Study) -> bool:
    """Print whether words and scores are the stored ones; return whether the words are."""
    words = [[each.verdict for each in study.findings if each.role == POOLED] for study in (before, now)]
    for place, (then, found) in enumerate(zip(*words, strict=True), 1):
        print(f"{before.name}: assertion {place}: {found}" + (f" (stored: {then})" if then != found else ", as stored"))
    runs = before.runs.merge(now.runs, on=[*RUN, "metric"], how="left", suffixes=("", "_now"))
    equal = (runs["score"] == runs["score_now"]) | (runs["score"].isna() & runs["score_now"].isna())
    same = equal.groupby([runs[name] for name in RUN], dropna=False).all()
    print(f"{before.name}: {same.sum()} of {len(same)} runs have the stored scores, bit by bit", flush=True)
    return words[0] == words[1]


if __name__ == "__main__":
    sys.exit(main())
