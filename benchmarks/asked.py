"""Ask questions of conf/study/questions and keep the answers: ``python -m benchmarks.asked prompt_mean``.

Each is asked by ``rlexp ask``, in its own folder, where the same command goes on. What an answer rests on is copied to
docs/asked/<name>, and docs/asked.md is written anew from those that docs/asked/remarks.yaml has words for. Answers that
a card of a claim names are told by ``python -m benchmarks.cards``. Without names only the page is written.
``--answered`` keeps those that are in the folder already.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.cards.forecasts import LLAMA
from benchmarks.cards.texts import read_cards
from benchmarks.parts.common import ROOT, environment_here
from benchmarks.stored.folders import answer_folders

ASKED = ROOT / "docs" / "asked"
PAGE = ROOT / "docs" / "asked.md"
REMARKS = ASKED / "remarks.yaml"
KEPT = (
    "answer.json",
    "answer.md",
    "effects.csv",
    "secondary.csv",
    "runs.parquet",
    "curves.parquet",
    "datapackage.json",
)
FIGURES = "assertion_*.svg"
INTRODUCTION = """\
# Questions that were asked

```
rlexp ask prompt_mean --folder runs/prompt_mean
```

asks one of these again. Each was declared in [conf/study/questions](../conf/study/questions) and committed before its
first run; [ask.md](ask.md) says what the words mean. Those about published claims are in [claims.md](claims.md). Two
more have pages of their own: [which prompts should come](prompts.md) and [learning from oneself with the answer in
view](teachers.md).

**All of it is about a small transformer and short answers.** Arms share their seeds, and each is judged at its best
learning rate unless the question fixes one. *Open* is not *no effect*.
"""


def main() -> None:
    """Ask, keep, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="questions, and overrides that change no result")
    parser.add_argument("--claims", action="store_true", help="every question of docs/claims/cards")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "asked", metavar="FOLDER", help="where runs go")
    parser.add_argument("--answered", action="store_true", help="keep what is in the folder, and ask nothing")
    chosen = parser.parse_args()
    overrides = [name for name in chosen.names if "=" in name]
    names = [name for name in chosen.names if name not in overrides]
    claims = [name for card in read_cards() for name in card.questions]
    names += sorted(claims, key=lambda name: name.endswith(LLAMA)) if chosen.claims else []  # which need TRL, last
    there = answer_folders(ROOT / "docs")  # some answers have a page of their own
    for name in dict.fromkeys(names):
        folder = chosen.runs.absolute() / name
        asks = command(name, folder, overrides)
        if not chosen.answered and (code := subprocess.run(asks, env=environment_here()).returncode):
            sys.exit(code)  # it has said why
        keep(folder, there.get(name, ASKED / name))
    PAGE.write_text(page(stored()), encoding="utf-8")


def command(name: str, folder: Path, overrides: Sequence[str]) -> list[str]:
    """Return the command that asks a question in a folder, or goes on there."""
    asks = [sys.executable, "-m", "rlexp", "ask", name, "threads=1", "logger=none"]
    return [*asks, *overrides, "--folder", str(folder)]


def keep(folder: Path, place: Path) -> None:
    """Copy what an answer rests on."""
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "question.json", place)
    for file in [*(folder / "answer" / name for name in KEPT), *(folder / "answer").glob(FIGURES)]:
        shutil.copy(file, place)


def stored() -> dict[str, dict[str, Any]]:
    """Return the answers that are kept, by name, in the order of their remarks."""
    remarks = yaml.safe_load(REMARKS.read_text(encoding="utf-8"))
    return {
        name: {
            "remark": remark,
            "answer": json.loads((ASKED / name / "answer.json").read_text(encoding="utf-8")),
            "said": (ASKED / name / "answer.md").read_text(encoding="utf-8"),
        }
        for name, remark in remarks.items()
        if (ASKED / name / "answer.json").is_file()
    }


def page(answers: dict[str, dict[str, Any]]) -> str:
    """Return the page: a line a question, then a section for each."""
    lines = ["| question | answer |", "|---|---|"]
    for found in answers.values():
        title, short = found["remark"]["title"], found["remark"]["short"]
        words = "; ".join(dict.fromkeys(each["word"] for each in found["answer"]["assertions"]))
        lines.append(f"| [{title}](#{anchor(title)}) | {short} ({words}) |")
    return "\n".join([INTRODUCTION, *lines, "", *(section(name, found) for name, found in answers.items())])


def anchor(title: str) -> str:
    """Return the name that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def section(name: str, found: dict[str, Any]) -> str:
    """Return what was asked, what came out with its table and figure, and what it does not say."""
    remark, declared = found["remark"], found["answer"]["declared"]
    blocks = re.split(r"\n\n+", found["said"].strip())
    outcomes = [block.removeprefix("What came out: ") for block in blocks if block.startswith("What came out: ")]
    tables = [block for block in blocks if block.startswith("| condition | n |")]
    dropped = [block for block in blocks if block.startswith("| condition | why |")]
    parts = [f"## {remark['title']}", remark["text"].strip()]
    parts.append(f"`rlexp ask {name}`: {declared['question']} Source: {remark.get('source', declared['source'])}.")
    for number, (outcome, table) in enumerate(zip(outcomes, tables, strict=True), 1):
        source = f'src="asked/{name}/assertion_{number}.svg"'
        figure = f'<img {source} width="420" alt="The effect in each condition, and pooled">'
        parts += [f"> {outcome}", table, figure]
    return "\n\n".join([*parts, *dropped, f"[All that was said](asked/{name}/answer.md)", ""])


if __name__ == "__main__":
    main()
