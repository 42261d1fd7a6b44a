"""Curves that look like bugs: ``python -m benchmarks.symptoms`` trains each and writes docs/symptoms.md.

Each case of benchmarks/parts/symptoms.yaml is one command. Its first, last, smallest and largest numbers go to
docs/symptoms/symptoms.json, and the page is made from these. A case whose numbers are not as its words say ends it with
1. ``--page`` writes the page alone.
"""

from __future__ import annotations

import argparse
import json
import operator
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks.asked import anchor
from benchmarks.parts.common import ROOT, environment_here

CASES = yaml.safe_load((ROOT / "benchmarks/parts/symptoms.yaml").read_text(encoding="utf-8"))
STORED, PAGE = ROOT / "docs/symptoms/symptoms.json", ROOT / "docs/symptoms.md"
COMPARED = {"<": operator.lt, ">": operator.gt, ">=": operator.ge, "==": operator.eq}
ENDS = ("first", "last", "smallest", "largest")
INTRODUCTION = """\
# Is this curve a bug?

What a run logs when something is idle or wrong, each made by one command. [metrics.md](metrics.md) has the formula of
every number and its name in TRL, verl and OpenRLHF; `python -m benchmarks.symptoms` trains all of them again in two
minutes.
"""


def main() -> None:
    """Train, store, check, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="train nothing, write the page from what is stored")
    if not parser.parse_args().page:
        found = {name: numbers_of(case) for name, case in CASES.items()}
        STORED.parent.mkdir(exist_ok=True)
        STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    found = json.loads(STORED.read_text(encoding="utf-8"))
    PAGE.write_text(page(found), encoding="utf-8")
    wrong = [line for name in CASES for line in broken(name, found[name])]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))


def numbers_of(case: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Train a case; return the numbers of what it shows."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            *case["overrides"].split(),
            "seed=0",
            "threads=1",
            "logger=none",
            "log_every=1",
            f"hydra.run.dir={folder}",
        ]
        command = [sys.executable, "-m", "rlexp.train", *words]
        subprocess.run(command, cwd=ROOT, env=environment_here(), check=True, stdout=subprocess.DEVNULL)
        lines = (Path(folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return {name: ends([row[name] for row in rows if row.get(name) is not None]) for name in case["shows"]}


def ends(values: list[float]) -> dict[str, float]:
    """Return the first, last, smallest and largest of a metric's values."""
    return dict(zip(ENDS, (values[0], values[-1], min(values), max(values)), strict=True))


def broken(name: str, found: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield what a case says that its numbers do not show."""
    for metric, end, sign, number in CASES[name]["holds"]:
        if not COMPARED[sign](found[metric][end], float(number)):
            yield f"{name}: the {end} {metric} is {found[metric][end]:g}, and should be {sign} {number}"


def page(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return the page: a row a case, then a section for each."""
    rows = [f"| [{case['title']}](#{anchor(case['title'])}) | {case['verdict']} |" for case in CASES.values()]
    parts = [INTRODUCTION + "\n" + "\n".join(["| what you see | what it is |", "|---|---|", *rows])]
    for name, case in CASES.items():
        cells = [
            f"| `{metric}` | {' | '.join(shown(found[name][metric][end]) for end in ENDS)} |"
            for metric in case["shows"]
        ]
        table = "\n".join([f"| metric | {' | '.join(ENDS)} |", "|---|---:|---:|---:|---:|", *cells])
        parts += [f"## {case['title']}", f"```\nrlexp {case['overrides']}\n```", table, case["text"].strip()]
    return "\n\n".join(parts) + "\n"


def shown(number: float) -> str:
    """Return a number of the table; rounding error is 0."""
    return "0" if abs(number) < 1e-7 else f"{number:.3g}".replace("-", "−")


if __name__ == "__main__":
    main()
