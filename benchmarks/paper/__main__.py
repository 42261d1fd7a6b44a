"""The report on the claims: ``python -m benchmarks.paper`` writes build/paper/rlexp.pdf.

Its numbers and figures come from the files under docs/, its text is paper.typ beside this file. Needs the extra
``paper``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from benchmarks.cards.texts import Refused
from benchmarks.paper.figures import figures
from benchmarks.paper.numbers import answers, numbers
from benchmarks.parts.common import ROOT
from rlexp.analysis.figures.layout import theme

SOURCES = ("paper.typ", "references.bib")


def main() -> int:
    """Write numbers, figures and the PDF; return 2 where something is missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "paper", help="folder to write (build/paper)")
    place = parser.parse_args().out
    try:
        import typst
    except ModuleNotFoundError:
        print("needs the extra paper: pip install 'rlexp[paper]'", file=sys.stderr)
        return 2
    try:
        rows = [*answers()]
    except Refused as error:
        print(error, file=sys.stderr)
        return 2
    place.mkdir(parents=True, exist_ok=True)
    (place / "numbers.json").write_text(
        json.dumps(numbers(rows), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    with theme():
        for name, figure in figures(rows).items():
            figure.savefig(place / f"{name}.svg", metadata={"Date": None})
    for name in SOURCES:
        shutil.copy(Path(__file__).with_name(name), place)
    typst.compile(str(place / "paper.typ"), output=str(place / "rlexp.pdf"))
    print(place / "rlexp.pdf")
    return 0


if __name__ == "__main__":
    sys.exit(main())
