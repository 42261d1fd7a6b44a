"""Is a step faster than it was? Two revisions in alternation, so that what else the machine does meets both.

``python -m benchmarks.revisions --old main`` compares the working tree as it stands with ``main``: a process of each
stays alive, builds the same runs, and the two train a few steps in turn. Neighbours change the seconds of a chunk by
half and more, but those of two chunks next to each other hardly: what counts is the median of the quotients of such
pairs, with its 95 % bootstrap interval. Below 1 the new revision is faster. Ends with 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.parts.common import RESULTS, ROOT, environment_of, publish, ratios, shown
from benchmarks.trl import OURS
from benchmarks.unchanged import PACKAGES, PYTHON, BadInput, checkout

CRITIC = ("norm=gae", "critic=value")  # a head of one number
# name: runs, overrides, threads, steps of a chunk
CASES = {
    "TRL's recipe, 1 run": (1, OURS, 1, 10),
    "1 run": (1, (), 1, 10),
    "10 runs": (10, (), 1, 3),
    "10 runs, 2 threads": (10, (), 2, 3),
    "30 runs": (30, (), 1, 2),
    "30 runs, 2 threads": (30, (), 2, 2),
    "critic, 1 run": (1, CRITIC, 1, 10),
    "critic, 10 runs": (10, CRITIC, 1, 3),
}
DRAWS = 2000
SERVER = Path(__file__).parent / "parts" / "revisions_serve.py"


class Revision:
    """A process that trains with the code of a tree."""

    def __init__(self, tree: Path):
        command = [*PYTHON, "-c", SERVER.read_text(encoding="utf-8")]  # as text: the tree may not have it
        environment, pipe = environment_of(tree, *PACKAGES), subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, cwd=tree, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> Revision:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, *request: object) -> float:
        """Send a request, wait for its answer."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self.process.args)} ended with {self.process.wait()}")
        return json.loads(line)


def measure(case: str, pairs: int, revisions: Mapping[str, Revision]) -> dict[str, list[float]]:
    """Return the seconds a step of each revision, chunk by chunk; which one goes first alternates."""
    runs, overrides, threads, steps = CASES[case]
    for revision in revisions.values():
        revision.ask("build", runs, overrides, threads)
    seconds: dict[str, list[float]] = {name: [] for name in revisions}
    for pair in range(pairs):
        for name in sorted(revisions, reverse=bool(pair % 2)):
            seconds[name].append(revisions[name].ask("train", steps, threads))
    return seconds


def interval(values: Sequence[float]) -> str:
    """Median and its 95 % bootstrap interval."""
    chance = random.Random(0)
    medians = sorted(median(chance.choices(values, k=len(values))) for _ in range(DRAWS))
    low, high = medians[DRAWS // 40], medians[-DRAWS // 40]
    return f"{median(values):.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", metavar="REVISION", default="HEAD", help="what is compared with (HEAD)")
    parser.add_argument("--new", metavar="REVISION", help="what is compared (the working tree as it stands)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only cases with this in their name")
    parser.add_argument("--pairs", type=int, default=40, help="chunks of each revision (40)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON file")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only in case]
    try:
        if not cases or arguments.pairs < 1:
            raise BadInput(f"--pairs must be at least 1, --only one of {'; '.join(CASES)}")
        with ExitStack() as stack:
            trees = {"old": stack.enter_context(checkout(arguments.old)), "new": ROOT}
            if arguments.new:
                trees["new"] = stack.enter_context(checkout(arguments.new))
            revisions = {name: stack.enter_context(Revision(tree)) for name, tree in trees.items()}
            seconds = {case: measure(case, arguments.pairs, revisions) for case in cases}
    except BadInput as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)
    rows = [
        {"case": case}
        | {f"{name}, ms a step": shown([1e3 * value for value in values]) for name, values in both.items()}
        | {"new / old [95 %]": interval(ratios(both["new"], both["old"]))}
        for case, both in seconds.items()
    ]
    publish("revisions", rows, arguments, seconds=seconds)


if __name__ == "__main__":
    main()
