"""What lies outside of the folder that was named is neither read nor written, whatever its links and names say."""

import os
from pathlib import Path

from analysis.data.errors import AnalysisError


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a path, by its links or its name, is of something that is not in the folder."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def is_foreign(file: Path) -> bool:
    """Whether a file is a link to one that lies outside of the folder that it is in."""
    return file.is_symlink() and leads_out(file, file.parent)


def inner(folder: str | Path, *names: str) -> Path:
    """A path in a folder; AnalysisError if a link leads out of there."""
    path = Path(folder, *names)
    if leads_out(path, Path(folder)):
        raise AnalysisError(f"'{path}' leads out of '{folder}': remove the link, or name where to write (--out)")
    return path


def unlinked(file: Path) -> Path:
    """The file, no longer as a link to another one, which would be written instead."""
    if file.is_symlink():
        file.unlink()
    return file
