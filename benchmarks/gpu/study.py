"""A declared study, question or ablation, trained in slices of some minutes that go on where the one before stopped."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.parts.common import ROOT, environment_here

GRACE = 60  # seconds in which what is trained saves itself; then it is killed, and loses what is behind its checkpoint
DONE = ("completed", "diverged")


def slice_of(name: str, overrides: Sequence[str], device: str, seconds: float, runs: Path | None) -> int:
    """Train for so many seconds; say how many runs are done, and return 0 unless something is wrong.

    Args:
        name: of conf/study or conf/study/questions, a question's file, or the arguments of ``rlexp ablate``.
        overrides: what all runs share.
        device: on which they train.
        seconds: after which the runs save themselves and end; a slice must be longer than it takes to make a start.
        runs: their folder, runs/gpu/<name> unless given.

    Returns:
        0 if all runs are done or the time is up, else what the command exits with: 2 for bad input, 1 for failed runs.
    """
    words = shlex.split(name)
    if not words:
        print("--study '': name a study or a question", file=sys.stderr)
        return 2
    folder = (runs or ROOT / "runs" / "gpu" / Path(words[0]).stem).absolute()
    if (command := command_of(words, [f"device={device}", *overrides], folder)) is None:
        return 2
    folder.parent.mkdir(parents=True, exist_ok=True)
    environment = environment_here()
    process = subprocess.Popen([sys.executable, "-m", *command], env=environment, start_new_session=True)
    up = threading.Event()

    def stop() -> None:
        up.set()
        with suppress(ProcessLookupError):
            process.terminate()

    def kill() -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timers = [threading.Timer(seconds, stop), threading.Timer(seconds + GRACE, kill)]
    try:
        for timer in timers:
            timer.start()
        code = process.wait()
    except KeyboardInterrupt:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        up.set()
        code = 130
    finally:
        for timer in timers:
            timer.cancel()
        kill()
    if code and not up.is_set():
        return code
    done, known = counted(folder)
    more = "; run the same command again" if code else ""
    print(f"{done} of {known} runs done in {folder}{more}", flush=True)
    return 0


def command_of(words: Sequence[str], overrides: Sequence[str], folder: Path) -> list[str] | None:
    """Return the module that trains what the words name, with its arguments; None, and a line, for what is not known.

    What is no study is taken for a question, of which the command itself says whether it can be read.
    """
    from rlexp.config.choices import choices_of
    from rlexp.question.spec import SHIPPED

    name = words[0]
    if name == "ablate":
        given = list(words)
        at = given.index("--with") + 1 if "--with" in given else len(given)
        with_ = [*overrides] if at < len(given) else ["--with", *overrides]
        return ["rlexp", *given[:at], *with_, *given[at:], "--folder", str(folder)]
    known = sorted(file.stem for file in SHIPPED.glob("*.yaml"))
    if len(words) > 1:
        print(f"--study {shlex.join(words)}: must be one name, or begin with ablate", file=sys.stderr)
    elif name != "none" and name in choices_of("study"):
        return ["rlexp.train", f"study={name}", *overrides, f"hydra.sweep.dir={folder}"]
    elif name in known or Path(name).is_file():
        return ["rlexp", "ask", name, *overrides, "--folder", str(folder)]
    else:
        said = f"--study {name}: no such study, question or file; rlexp explain study has the studies"
        print(f"{said}, the questions are {', '.join(known)}", file=sys.stderr)
    return None


def counted(folder: Path) -> tuple[int, int]:
    """Return how many runs of a sweep are done, and how many are known so far: a question may add to them."""
    from rlexp.analysis.data.errors import AnalysisError
    from rlexp.analysis.data.read import read_object
    from rlexp.analysis.data.runs import find_jobs
    from rlexp.runfolder.files import SUMMARY_FILE

    try:
        names = [job["name"] for job in find_jobs(folder, [])]
    except AnalysisError:  # there are none yet
        return 0, 0
    states = [read_object(folder / name / SUMMARY_FILE)[0].get("status") for name in names]
    return sum(state in DONE for state in states), len(names)
