"""Damage files of finished and interrupted sweeps, one at a time, and see whether anything lies.

Files are deleted, emptied, cut anywhere or at a line's end, lose or double a line, end in zeros as after a power cut,
or have one bit flipped. After each, the comparison, and the same sweep started again, must give the very numbers of an
undisturbed sweep, or a line that names the file; and never a traceback.

    python -m tests.faults.damage --number 1000 --seed 0
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rlexp.analysis.data.errors import AnalysisError
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from tests.faults.common import RESULTS, options, store
from tests.faults.scenes import Outcome, Scene, compared, configs_of, files_of, make_scenes, resumed

TEXT = (".jsonl", ".json", ".yaml")
ONE_LINE = (AnalysisError, ConfigError, RunFailed)


def delete(content: bytes, chance: random.Random) -> bytes | None:
    """Nothing is left, the file neither."""
    return None


def empty(content: bytes, chance: random.Random) -> bytes:
    """Nothing is left in it."""
    return b""


def cut(content: bytes, chance: random.Random) -> bytes:
    """The end is missing."""
    return content[: chance.randrange(max(1, len(content)))]


def flip(content: bytes, chance: random.Random) -> bytes:
    """One bit is another."""
    changed = bytearray(content)
    changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def zeros(content: bytes, chance: random.Random) -> bytes:
    """The end is zeros: the system knew how long the file was, and had not written it yet."""
    kept = chance.randrange(len(content))
    return content[:kept] + bytes(len(content) - kept)


def cut_at_line(content: bytes, chance: random.Random) -> bytes:
    """The last lines are missing."""
    lines = content.splitlines(keepends=True)
    return b"".join(lines[: chance.randrange(len(lines))])


def lose_line(content: bytes, chance: random.Random) -> bytes:
    """A line is missing."""
    lines = content.splitlines(keepends=True)
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def double_line(content: bytes, chance: random.Random) -> bytes:
    """A line is there twice."""
    lines = content.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    return b"".join([*lines[:place], lines[place], *lines[place:]])


ANY: list[Callable] = [delete, empty, cut, zeros, flip, flip, flip]
OF_LINES: list[Callable] = [cut_at_line, lose_line, double_line]


def campaign(number: int, seed: int, only: str = "") -> dict:
    """Damage so many files, all or those of one name; return the counts and the findings."""
    chance, started = random.Random(seed), time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        scenes = make_scenes(folder / "scenes")
        configs, whole = configs_of(scenes[0]), copied(scenes[0], folder / "whole")
        expected = {scene.name: attempt(lambda scene=scene: compared(scene.folder)) for scene in scenes}
        again = resumed(scenes[0], whole, configs)
        counts, findings = Counter(), []
        for _ in range(number):
            scene = chance.choice(scenes)
            path = chance.choice([path for path in files_of(scene.folder) if only in ("", path.name)])
            content = (scene.folder / path).read_bytes()
            way = chance.choice(ANY + (OF_LINES if path.suffix in TEXT else [])) if content else delete
            place = copied(scene, folder / "copy")
            damage(place / path, way(content, chance))
            found = [judged(lambda at=place: compared(at), expected[scene.name].numbers, path)]
            found.append(judged(lambda s=scene, at=place: resumed(s, at, configs), again.numbers, path))
            found.append(judged(lambda at=place: compared(at), expected["finished"].numbers, path, found[1]))
            counts.update(found)
            said = dict(zip(("compare", "resume", "compare again"), found, strict=True))
            if bad := {what: text for what, text in said.items() if text not in ("same", "named")}:
                findings.append({"scene": scene.name, "file": str(path), "damage": way.__name__, **bad})
            counts[f"of {path.suffix or path.name}"] += 1
    seconds = round(time.perf_counter() - started, 1)
    return {"number": number, "seed": seed, "counts": dict(counts), "findings": findings, "seconds": seconds}


def copied(scene: Scene, place: Path) -> Path:
    """A fresh copy of a scene."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(scene.folder, place)
    return place


def damage(path: Path, content: bytes | None) -> None:
    """Leave this in a file; None for no file."""
    path.unlink() if content is None else path.write_bytes(content)


def attempt(act: Callable[[], Outcome]) -> Outcome:
    """What comes out, or the line that it ends with."""
    try:
        return act()
    except ONE_LINE as error:
        return Outcome({"ends": True}, [str(error)])


def judged(act: Callable[[], Outcome], expected: dict, path: Path, before: str = "") -> str:
    """`same` numbers, or `named` the file (or that was done before), or what is wrong."""
    try:
        outcome = attempt(act)
    except Exception:
        return "traceback: " + traceback.format_exc().strip().splitlines()[-1]
    if outcome.numbers == expected:
        return "same"
    if before == "named" or any(path.name in line for line in outcome.said):
        return "named"
    changed = [key for key in expected if outcome.numbers.get(key) != expected[key]]
    return f"silent: {', '.join(changed)}; said: {outcome.said[:3]}"


def main() -> int:
    """Run the campaign; 1 for any finding."""
    chosen = options(__doc__, number=1000, seed=0, only="")
    found = campaign(chosen.number, chosen.seed, chosen.only)
    for key, count in found["counts"].items():
        print(f"{count:6} {key}")
    for finding in found["findings"]:
        print(finding)
    print(f"{len(found['findings'])} findings in {found['number']} damages, {found['seconds']:.0f} s")
    store("damage", found, chosen.results or RESULTS)
    return int(bool(found["findings"]))


if __name__ == "__main__":
    sys.exit(main())
