"""Links that lead out of a folder: somebody else's folder must not decide which files outside of it are written."""

from __future__ import annotations

import os
from pathlib import Path

NEVER_WRITTEN = "wandb"  # what is in that folder of a run; its library makes a new one for each run


def link_out(folder: Path) -> Path | None:
    """Return a link in a folder, at any depth, that leads out of it; None if there is none."""
    inside = os.path.realpath(folder)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            if os.path.islink(path) and not is_within(os.path.realpath(path), inside):
                return Path(path)
        folders[:] = [name for name in folders if name != NEVER_WRITTEN]
    return None


def is_within(path: str, folder: str) -> bool:
    """Whether a path is below a folder, or is that folder; both without links."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
