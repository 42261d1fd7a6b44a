"""``python -m benchmarks.site`` builds the docs site, without network; a link that leads nowhere ends it.

The builder (Zensical) reads Markdown, so the pages are first written to ``build/docs`` with links among each other, and
then built to ``build/site``, whose ``index.html`` opens without a server.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from benchmarks.parts.common import ROOT
from benchmarks.site.markdown import title
from benchmarks.site.stage import BrokenLinkError, Site, collect
from rlexp import PUBLIC

HERE = Path(__file__).parent
OFFERED = {"rlexp.api.sweep": "rlexp.sweep", "rlexp.training.train": "rlexp.train"}  # functions that modules answer for
ASSETS = ("site.css", "iframe-worker.js")


def made() -> dict[str, str]:
    """Return the pages that are no files of docs/, by their name there."""
    from benchmarks.site import keys, papers, schemas

    return {
        "papers.md": papers.page(),
        "keys.md": keys.page(),
        "json.md": schemas.page(),
        "api.md": api((HERE / "api.md").read_text(encoding="utf-8")),
    }


def api(text: str) -> str:
    """Return the page of the Python API with the names by which ``import rlexp`` offers what it lists."""
    offered = {f"{module}.{name}": f"rlexp.{name}" for name, module in PUBLIC.items()} | OFFERED

    def titled(found: re.Match) -> str:
        options = f"heading: {offered[found[1]]}, toc_label: {offered[found[1]]}" if found[1] in offered else ""
        return f"::: {found[1]}\n    options: {{{options}}}" if options else found[0]

    return re.sub(r"^::: (\S+)$", titled, text, flags=re.MULTILINE)


def expanded(entries: list, site: Site) -> Iterator[Any]:
    """Yield the entries of a navigation with pages in place of patterns."""
    for entry in entries:
        if isinstance(entry, dict):
            (name, below), *_ = entry.items()
            yield {name: list(expanded(below, site)) if isinstance(below, list) else below}
        else:
            found = [place for place in site.pages if fnmatchcase(place, entry)]
            yield from ({title(site.pages[place].text) or place: place} for place in found)


def named(entries: list) -> Iterator[str]:
    """Yield the pages that a navigation names."""
    for entry in entries:
        (below,) = entry.values()
        yield from named(below) if isinstance(below, list) else [below]


def settings(site: Site, text: str) -> str:
    """Return the builder's settings, with the navigation of a site.

    Args:
        site: The pages.
        text: ``site.yaml``.

    Raises:
        BrokenLinkError: if the navigation names a page that is not there, or leaves a page of docs/ out.
    """
    head, _, listed = text.partition("\nnav:\n")
    nav = list(expanded(yaml.safe_load(listed), site))
    shown = set(named(nav))
    lost = sorted(shown - set(site.pages))
    if lost:
        raise BrokenLinkError(f"benchmarks/site/site.yaml: no such page: {', '.join(lost)}")
    left_out = sorted(place for place in set(site.pages) - shown if "/" not in place)
    if left_out:
        raise BrokenLinkError(f"benchmarks/site/site.yaml: nav has no place for docs/{', docs/'.join(left_out)}")
    return head + "\n" + yaml.safe_dump({"nav": nav}, allow_unicode=True, sort_keys=False)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="where docs/ and site/ are written")
    out = parser.parse_args(argv).out.resolve()
    if not find_spec("zensical"):
        print("zensical is not installed: pip install '.[docs]', or make docs", file=sys.stderr)
        return 2
    try:
        site = collect(ROOT, made())
        site.files |= {f"assets/{name}": HERE / name for name in ASSETS}
        site.write(out / "docs")
        text = settings(site, (HERE / "site.yaml").read_text(encoding="utf-8"))
    except BrokenLinkError as error:
        print(error, file=sys.stderr)
        return 2
    (out / "mkdocs.yml").write_text(text.replace("[ROOT]", f"[{ROOT}]"), encoding="utf-8")
    build = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(out / "mkdocs.yml")]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))  # slug() is of this project
    code = subprocess.run(build, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}).returncode
    if not code:
        print(out / "site/index.html")
    return code


if __name__ == "__main__":
    sys.exit(main())
