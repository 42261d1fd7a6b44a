"""Train the studies that docs/studies.md shows and store their tables: ``python -m benchmarks.studies``, about an hour.

For each study docs/studies/ gets the printed comparison, the figure of the effects or, where there is none, of the
curves, and in results.json the command, the seconds and the scores. ``python -m benchmarks.studies clipping`` does one
again and keeps the others.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.common import ROOT, machine
from benchmarks.readme import run

RESULTS = ROOT / "docs" / "studies"
STUDIES = ("clipping", "aggregation", "filtering", "group_size", "model", "four_pillars")
FIGURES = ("effects.svg", "curves.svg")


def main() -> None:
    """Train, compare, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", choices=[*STUDIES, []], help="these alone")
    chosen = parser.parse_args().studies or STUDIES
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "results.json"
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            found = train(name, Path(folder) / name)
        stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        stored = dict(sorted((stored | {name: found}).items()))
        path.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def train(name: str, folder: Path) -> dict[str, object]:
    """Train one study into ``folder``, store its table and figure; return what is said of it elsewhere."""
    started = time.perf_counter()
    run("rlexp.train", f"study={name}", f"hydra.sweep.dir={folder}")
    seconds = time.perf_counter() - started
    printed, _, _ = run("analysis.compare", str(folder)).rpartition("\n\n")  # the last paragraph names the files
    lines = [line.rstrip() for line in printed.splitlines()]
    (RESULTS / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    drawn = next(found for figure in FIGURES if (found := next(folder.glob(f"analysis/**/{figure}"), None)))
    shutil.copy(drawn, RESULTS / f"{name}.svg")
    summaries = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*/summary.json"))]
    return {
        "command": f"python -m rlexp.train study={name}",
        "seconds": round(seconds),
        "scores": {each["name"]: each["score"] for each in summaries},
        "machine": machine(),
    }


if __name__ == "__main__":
    main()
