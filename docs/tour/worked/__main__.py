"""The worked examples of the source documents: `rlexp worked four_pillars` prints tables, all without a name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import four_pillars
import grpo_tcr
import lecture17
import rl_chapter
import trl_notes
from rich.console import Console
from table import show

from rlexp.core.exits import shortened, silent_without_reader

DOCUMENTS = {each.__name__: each.EXAMPLES for each in (four_pillars, grpo_tcr, lecture17, trl_notes, rl_chapter)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the examples of the documents that are named."""
    parser = argparse.ArgumentParser(prog="rlexp worked", description=__doc__)
    parser.add_argument("documents", nargs="*", metavar="document", help=f"of {', '.join(DOCUMENTS)}; none for all")
    chosen = parser.parse_args(arguments).documents
    if unknown := [name for name in chosen if name not in DOCUMENTS]:
        print(f"{shortened(unknown[0], unknown)}: no such document; there are {', '.join(DOCUMENTS)}", file=sys.stderr)
        return 2
    with silent_without_reader():
        for name in chosen or DOCUMENTS:
            show([example() for example in DOCUMENTS[name]], Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
