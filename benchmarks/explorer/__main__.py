"""Write docs/explorer.html, a page that needs no network, from what is stored under docs/."""

from __future__ import annotations

import argparse
import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from benchmarks.explorer.data import page_data
from benchmarks.stored import studies
from benchmarks.stored.study import Study

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "explorer.html"
PARTS = ("style.css", "figures.js", "explorer.js")


def page(stored: Sequence[Study]) -> str:
    """Return the page: template, style, scripts, and a line a study, so that git keeps what a new answer changes."""
    parts = {name.replace(".", "_"): (HERE / name).read_text("utf-8") for name in PARTS}
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        (HERE / "page.html").read_text("utf-8")
    )
    return template.render(stored="\n".join(map(packed, page_data(stored))), **parts)


def packed(part: Any) -> str:
    """Return a part of the data as the page has it: JSON, compressed, in letters."""
    text = json.dumps(part, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def main() -> None:
    """Write the page and say where, and how large it is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explorer", description=__doc__)
    parser.add_argument("--out", type=Path, default=PAGE, help="the file to write")
    path = parser.parse_args().out
    path.write_text(page(studies()), encoding="utf-8")
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
