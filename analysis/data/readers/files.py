"""Names of runs by their files."""

from collections.abc import Sequence
from pathlib import Path


def run_name(file: Path, root: Path, generic: Sequence[str] = ()) -> str:
    """The name of a file's run: its path below the root, or that of its folder if the file is called as all are."""
    stem = file.name.split(".")[0]
    place = file.parent if stem in generic else file.with_name(stem)
    if place == root or not place.is_relative_to(root):
        return place.resolve().name
    return place.relative_to(root).as_posix()
