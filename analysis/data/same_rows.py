"""Compare runs that should coincide: the same rows, bit by bit, but for the clock."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.read import read_lines
from rlexp.runfolder.files import METRICS_FILE
from rlexp.runfolder.rows import without_clock
from rlexp.runfolder.variants import split_overrides


class Twins(NamedTuple):
    """Two runs, by their folders, of one seed."""

    seed: int
    folders: tuple[str, str]


def twins(data: SweepData, variant: str, versus: str) -> Iterator[Twins]:
    """Completed runs of which one has `variant` where the other has `versus`, and that are the same otherwise.

    Both are overrides, joined by commas; of what they do not name any value will do, the same in both.
    """
    ours, theirs = ({*split_overrides(name)} for name in (variant, versus))
    completed = data.runs[(data.runs["status"] == "completed") & data.runs["seed"].notna()]
    places = {}
    for folder, text, seed in completed[["folder", "variant", "seed"]].itertuples(index=False):
        places[(frozenset(split_overrides(text)), int(seed))] = folder
    for (overrides, seed), folder in places.items():
        other = places.get(((overrides - ours) | theirs, seed)) if ours <= overrides else None
        if other is not None and other != folder:
            yield Twins(seed, (folder, other))


def first_unlike(pair: Twins) -> str | None:
    """The first difference between the rows of two runs, as `seed 3: step 10, policy/entropy`; None if nowhere."""
    rows = [unclocked_rows(Path(folder)) for folder in pair.folders]
    for one, other in zip(*rows, strict=False):
        if one != other:
            name = next(key for key in {**one, **other} if one.get(key) != other.get(key))
            return f"seed {pair.seed}: step {one.get('step')}, {name}"
    lengths = [len(each) for each in rows]
    return None if lengths[0] == lengths[1] else f"seed {pair.seed}: {lengths[0]} and {lengths[1]} rows"


def unclocked_rows(folder: Path) -> list[dict[str, str]]:
    """The rows of a run as text, without the clock."""
    rows = read_lines(folder / METRICS_FILE, ())[0]
    return [{key: repr(value) for key, value in without_clock(row).items()} for row in rows]  # NaN is equal to NaN
