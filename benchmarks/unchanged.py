"""Did a refactoring change a number? Train the same runs with two revisions and compare every bit of what they wrote.

``python -m benchmarks.unchanged --old main`` compares the working tree as it stands with ``main``. What it trains is in
benchmarks/parts/unchanged_runs.py: every choice of every axis that ``--old`` has, for a few steps, by the command line
alone. Compared are metrics.jsonl without its times, samples.jsonl and the score. Ends with 0 if nothing differs, with 1
and a list of what does or of what failed, with 2 for bad input. Both revisions run with this Python and its packages.

``--keep FOLDER`` keeps what was written, and the next call with it does not train ``--old`` again. Take another folder
on another machine or with other packages: bits may differ there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.parts.common import ROOT, environment_of
from benchmarks.parts.unchanged_compare import Comparison
from benchmarks.parts.unchanged_runs import TAUGHT, Sweep, choices, sweeps

# Without the .pth files of an editable installation, whose plugins Hydra would find beside those of the revision.
PYTHON = [sys.executable, "-S"]
PACKAGES = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


class BadInput(Exception):
    """Something that the user has to change, said in one line."""


def main() -> None:
    """Compare two revisions; exit with 0, 1 or 2."""
    arguments = read_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it leaves no worktree behind either
    try:
        sys.exit(compare(arguments))
    except BadInput as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument("--old", metavar="REVISION", default="HEAD", help="what the numbers should be (HEAD)")
    parser.add_argument("--new", metavar="REVISION", help="what they should be still (the working tree as it stands)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only what has this in its name, such as norm=local")
    parser.add_argument("--steps", type=int, default=3, help="of each run (3)")
    parser.add_argument("--workers", type=int, default=cores, help=f"processes at a time ({cores})")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="keep what the runs write, reuse what --old wrote")
    return parser.parse_args()


def compare(arguments: argparse.Namespace) -> int:
    """Train everything with both revisions, print what differs; return the exit code."""
    if min(arguments.steps, arguments.workers) < 1:
        raise BadInput("--steps and --workers must be at least 1")
    with ExitStack() as stack:
        trees = {
            "old": stack.enter_context(checkout(arguments.old)),
            "new": stack.enter_context(checkout(arguments.new)) if arguments.new else ROOT,
        }
        keep = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folders = {"old": keep.resolve() / f"old-{commit_of(arguments.old)[:12]}", "new": keep.resolve() / "new"}
        old, new = choices(trees["old"]), choices(trees["new"])
        missing, added = absent(old, new), absent(new, old)
        common = {axis: [name for name in names if name in new.get(axis, ())] for axis, names in old.items()}
        planned = sweeps(common, arguments.steps, arguments.only)
        if not planned:
            raise BadInput(f"--only {arguments.only}: nothing that is trained has this in its name")
        failures = train_all(planned, trees, folders, arguments.workers)
        whole = [sweep.name for sweep in planned if not any((side, sweep.name) in failures for side in trees)]
        comparison = Comparison.of(folders["old"], folders["new"], whole)
    problems = [f"{choice}: missing in new" for choice in missing]
    problems += [f"{side}: {name}: {reason}" for (side, name), reason in failures.items()] + comparison.problems
    print("\n".join([*(f"only in new: {choice}" for choice in added), *problems, comparison.summary(len(problems))]))
    return int(bool(problems))


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """Check a revision out into a temporary worktree."""
    try:
        if Path(git("rev-parse", "--show-toplevel")) != ROOT:
            raise BadInput(f"{ROOT}: not a git checkout of its own")
    except (OSError, subprocess.CalledProcessError):
        raise BadInput(f"{ROOT}: not a git checkout") from None
    commit = commit_of(revision)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def commit_of(revision: str) -> str:
    """Return the commit that a revision is."""
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")
    except subprocess.CalledProcessError:
        raise BadInput(f"{revision}: no such revision") from None


def git(*arguments: str) -> str:
    """Return what git prints about this checkout."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def absent(ours: dict, theirs: dict) -> list[str]:
    """Return the choices that only one side has."""
    return [f"{axis}={name}" for axis, names in ours.items() for name in names if name not in theirs.get(axis, ())]


def train_all(planned: Sequence[Sweep], trees: dict[str, Path], folders: dict[str, Path], workers: int) -> dict:
    """Train all sweeps with both revisions, the teacher first; return why some failed, by side and name."""
    failures, left = {}, 2 * len(planned)
    first = [sweep for sweep in planned if sweep.name == TAUGHT]
    others = sorted((sweep for sweep in planned if sweep.name != TAUGHT), key=lambda sweep: -sweep.runs)
    with ThreadPoolExecutor(workers) as pool:
        for part in (first, others):
            jobs = {
                pool.submit(train, trees[side], folders[side], sweep, reuse=side == "old"): (side, sweep.name)
                for sweep in part
                for side in trees
            }
            try:
                for job in as_completed(jobs):
                    left -= 1
                    print(f"{' '.join(jobs[job])}: {left} commands to go", file=sys.stderr)
                    if reason := job.result():
                        failures[jobs[job]] = reason
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
                raise
    return failures


def train(tree: Path, folder: Path, sweep: Sweep, reuse: bool = False) -> str:
    """Run one command with the code of a tree, unless it has been; return the last line of what went wrong, or ""."""
    environment = environment_of(tree, *PACKAGES, threads=1) | {"WANDB_SILENT": "true"}
    command = [*PYTHON, "-m", "rlexp.train", *sweep.arguments()]
    log, head = folder / f"{sweep.name}.log", f"{' '.join(command)}\n"
    if reuse and log.exists() and log.read_text(encoding="utf-8").startswith(head):
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    shutil.rmtree(folder / sweep.name, ignore_errors=True)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    log.write_text(f"{'failed: ' * bool(done.returncode)}{head}{done.stdout}{done.stderr}", encoding="utf-8")
    lines = done.stderr.strip().splitlines() or ["no reason given"]
    return f"exit code {done.returncode}: {lines[-1]}" if done.returncode else ""


if __name__ == "__main__":
    main()
