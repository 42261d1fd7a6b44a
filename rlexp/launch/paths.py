"""How folders are called in what the user reads."""

from __future__ import annotations

from pathlib import Path

from rlexp.core.exits import printable


def relative(folder: str | Path) -> str:
    """Return a path relative to the current folder if it is below it, else as it is; nothing a terminal would obey."""
    folder = Path(folder)
    return printable(str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder))
