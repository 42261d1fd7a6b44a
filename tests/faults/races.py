"""Start commands twice in the same folder, a random time apart: one writes, the other is refused, every line is right.

python -m tests.faults.races --number 100 --seed 0
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults import commands, common, forked
from tests.faults.kills import SECONDS_TO_END, Whole, differences, leftovers, lines_in, undisturbed

TWICE = ("one run", "memories", "starts", "two processes")
REFUSED = 2


def race(name: str, whole: Whole, folder: Path, chance: random.Random) -> tuple[str, list[str]]:
    """Start a command twice; return what became of the two, and what was wrong."""
    words = commands.arguments(name, folder)
    first = forked.start(words, folder, said="first.txt")
    first.join(chance.choice((0.0, chance.uniform(0, whole.seconds))))
    together = first.exitcode is None
    second = forked.start(words, folder, said="second.txt")
    codes = [forked.wait(each, SECONDS_TO_END) for each in (first, second)]
    texts = [forked.said(folder, f"{each}.txt") for each in ("first", "second")]
    found = differences(whole.lines, lines_in(folder / "x")) + leftovers(folder / "x")
    found += [f"a traceback: {text[-1500:]}" for text in texts if "Traceback" in text]
    found += codes_problem(codes, texts, together)
    return f"exit codes {' and '.join(map(str, sorted(codes, key=str)))}", found


def codes_problem(codes: list[int | None], texts: list[str], together: bool) -> list[str]:
    """Say what is wrong with the exit codes: one completes, the other is refused in a line, or comes later."""
    if sorted(codes, key=str) == [0, 0]:
        return []
    if not together or sorted(codes, key=str) != [0, REFUSED]:
        return [f"exit codes {codes}: {[text[-500:] for text in texts]}"]
    lines = texts[codes.index(REFUSED)].splitlines()
    refused = len(lines) == 1 and "is being written by process" in lines[0]
    return [] if refused else [f"the second was refused with {lines}"]


def main() -> None:
    """Run the races, print the table, write the numbers down."""
    chosen = common.options(__doc__, number=100, seed=0, workers=2)
    place, started = Path(tempfile.mkdtemp(prefix="races-")), time.monotonic()
    wholes = {name: undisturbed(name, place / "whole" / name, place) for name in TWICE}

    def one(count: int) -> tuple[str, list[str]]:
        name = TWICE[count % len(TWICE)]
        outcome, found = race(name, wholes[name], place / str(count), random.Random(f"{chosen.seed} {count}"))
        print("." if not found else f"\n{count} {name} {outcome} {found}\n", end="", flush=True)
        return outcome, found

    with ThreadPoolExecutor(chosen.workers) as threads:
        races = [*threads.map(one, range(chosen.number))]
    found = {
        "races": len(races),
        "findings": [finding for _, findings in races for finding in findings],
        "outcomes": dict(Counter(outcome for outcome, _ in races).most_common()),
        "seconds": round(time.monotonic() - started, 1),
    }
    common.finish("races", found, chosen.results, place)


if __name__ == "__main__":
    main()
