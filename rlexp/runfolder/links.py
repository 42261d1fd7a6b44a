"""What lies outside of a folder is neither read nor written by what is in it, whatever its links and names say."""

from __future__ import annotations

import os
from pathlib import Path

NEVER_WRITTEN = "wandb"  # what is in that folder of a run; its library makes a new one for each run


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a path, by its links or its name, is of something that is not in the folder."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def link_out(folder: Path) -> Path | None:
    """Return a link in a folder, at any depth, that leads out of it; None if there is none."""
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            if path.is_symlink() and leads_out(path, folder):
                return path
        folders[:] = [name for name in folders if name != NEVER_WRITTEN]
    return None


def is_foreign(file: Path) -> bool:
    """Whether a file is a link to one that lies outside of the folder that it is in."""
    return os.path.islink(file) and leads_out(file, file.parent)
