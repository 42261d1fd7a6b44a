"""Write docs/playground.html, a page that needs no network."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from jinja2 import Environment, StrictUndefined

from benchmarks.playground.choices import page_data
from benchmarks.playground.graphs import GROUP, PROMPTS, TIMES

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "playground.html"


def page() -> str:
    """Return the page: template, style, scripts, and what is traced of the library as JSON."""
    about = {"torch": torch.__version__.partition("+")[0], "shape": [PROMPTS, GROUP, TIMES]}
    data = json.dumps(about | page_data(), ensure_ascii=False, separators=(",", ":"))
    parts = {name.replace(".", "_"): (HERE / name).read_text("utf-8") for name in PARTS}
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        (HERE / "page.html").read_text("utf-8")
    )
    return template.render(library=data.replace("</", "<\\/"), torch=about["torch"], **parts)


PARTS = ("style.css", "interpreter.js", "playground.js")


def main() -> None:
    """Write the page and say where, and how large it is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.playground", description=__doc__)
    parser.add_argument("--out", type=Path, default=PAGE, help="the file to write")
    path = parser.parse_args().out
    path.write_text(page(), encoding="utf-8")
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
