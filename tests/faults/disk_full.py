"""Fill a disk at the moment when a file of a kind is opened for writing; make room again; go on; compare every line.

    python -m tests.faults.disk_full --number 60 --seed 0

The disk is a tmpfs of its own, which only root can mount. It stays full until the command has ended, for every file.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from tests.faults import commands, common, forked
from tests.faults.kills import SECONDS_TO_END, Whole, differences, leftovers, lines_in, undisturbed

SIZE = "16m"
WRITING = os.O_WRONLY | os.O_RDWR
DRAFT = r"([.][^/]*)?$"  # of a name, too
# Of each kind the files, and how many of them are opened before the command ends, about.
KINDS = {
    "config": (rf"seed=\d/config\.yaml{DRAFT}", 4),
    "code": (rf"code\.jsonl{DRAFT}", 4),
    "metrics": (rf"metrics\.jsonl{DRAFT}", 40),
    "samples": (rf"samples\.jsonl{DRAFT}", 8),
    "checkpoint": (rf"checkpoint\.pt{DRAFT}", 16),
    "summary": (rf"summary\.json{DRAFT}", 4),
    "jobs": (rf"jobs\.jsonl{DRAFT}", 2),
    "start cache": (r"starts/", 2),
    "Hydra's files": (r"(\.hydra/|multirun\.yaml)", 9),
    "log": (r"train\.log$", 20),
    "lock": (r"\.lock$", 4),
    "analysis": (r"x/analysis/", 6),
}


@contextmanager
def small_disk(place: Path):
    """Context with a file system of its own at a place."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill_at(pattern: str, count: int, filler: Path) -> None:
    """Fill the disk when a file whose name has the pattern is opened for writing for so many times."""
    left = [count]

    def hook(event: str, arguments: tuple) -> None:
        if event != "open" or not left[0] or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path, flags = os.fsdecode(arguments[0]), arguments[2] or 0
        if flags & WRITING and re.search(pattern, path):
            left[0] -= 1
            if not left[0]:
                fill(filler)

    sys.addaudithook(hook)


def fill(filler: Path) -> None:
    """Leave no byte free."""
    with suppress(OSError), open(filler, "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def attempt(kind: str, whole: Whole, folder: Path, disk: Path, chance: random.Random) -> tuple[int | None, list[str]]:
    """Run a command on a disk that becomes full, then on one with room; return its first exit code, what is wrong."""
    pattern, most = KINDS[kind]
    words = commands.arguments("starts", folder, str(disk / "x"))
    prepare = partial(fill_at, pattern, chance.randint(1, most), disk / "filler")
    code = forked.wait(forked.start(words, folder, kind != "analysis", prepare=prepare), SECONDS_TO_END)
    filled, text = (disk / "filler").exists(), forked.said(folder)
    found = [f"a traceback: {text.partition('Traceback')[2][:1500]}"] if "Traceback" in text else []
    if filled and code == 0:  # then everything had been written, and still is
        found += differences(whole.lines, lines_in(disk / "x")) + leftovers(disk / "x")
    elif filled and (code is None or "No space left on device" not in text):
        found += [f"exit code {code}, saying {text[-1000:]}"]
    found += [f"jobs.jsonl says {row}" for row in index(disk / "x") if row["status"] == "running"]
    (disk / "filler").unlink(missing_ok=True)
    again = forked.wait(forked.start([*words, "resume=failed"], folder, said="again.txt"), SECONDS_TO_END)
    if again != 0:
        found += [f"then exit code {again}: {forked.said(folder, 'again.txt')[-1500:]}"]
    found += differences(whole.lines, lines_in(disk / "x")) + leftovers(disk / "x")
    return code if filled else -1, found


def index(sweep: Path) -> list[dict]:
    """Return the rows of jobs.jsonl."""
    path = sweep / "jobs.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    """Fill the disk so many times, print the table, write the numbers down."""
    chosen = common.options(__doc__, number=60, seed=0, only="")
    place, started = Path(tempfile.mkdtemp(prefix="disk-full-")), time.monotonic()
    whole = undisturbed("starts", place / "whole", place)
    codes, findings = Counter(), []
    kinds = [kind for kind in KINDS if not chosen.only or kind in chosen.only.split(",")]
    for count in range(chosen.number):
        kind, folder = kinds[count % len(kinds)], place / str(count)
        folder.mkdir()
        with small_disk(folder / "disk"):
            code, found = attempt(kind, whole, folder, folder / "disk", random.Random(f"{chosen.seed} {count}"))
        codes[f"{kind}: {'not reached' if code == -1 else f'exit code {code}'}"] += 1
        findings += [f"{count} {kind}: {each}" for each in found]
        print("." if not found else f"\n{count} {kind}: {found}\n", end="", flush=True)
    seconds = round(time.monotonic() - started, 1)
    found = {"times": chosen.number, "findings": findings, "by kind": dict(codes), "seconds": seconds}
    common.finish("disk_full", found, chosen.results, place)


if __name__ == "__main__":
    main()
