"""The command line in processes that are forked from one that has imported everything: a start costs milliseconds."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

PRELOADED = ["rlexp.train", "rlexp.sweep.engine", "rlexp.launch.launcher"]
PRELOADED += [
    "rlexp.launch.executors.local",
    "rlexp.launch.hooks",
    "rlexp.analysis.compare",
    "rlexp.analysis.report",
    "torch._dynamo",
]
SECONDS_BETWEEN_NOTES = 0.001
# Functions by which a process is known to be at something; the innermost counts.
PHASES = {
    "check_sweep": "composition",
    "check_run": "composition",
    "plan_jobs": "composition",
    "compose_config": "composition",
    "with_files": "opening",
    "open": "opening",
    "build": "opening",
    "restore": "opening",
    "apply_starts": "starts",
    "train_judges": "starts",
    "prefill_buffer": "starts",
    "gather_groups": "rollout",
    "tensors_of_rollout": "rollout",
    "compute_advantages": "rollout",
    "update": "update",
    "evaluate": "evaluation",
    "save": "checkpoint",
    "put": "checkpoint",
    "record": "rows",
    "write_samples": "rows",
    "finish": "summary",
    "finish_batch": "summary",
    "on_multirun_end": "analysis",
    "on_run_end": "analysis",
    "events": "waiting for processes",
    "stop": "waiting for processes",
}
LONGEST_PHASE = 32

forks = multiprocessing.get_context("forkserver")


def start(
    words: list[str], folder: Path, quick: bool = True, said: str = "said.txt", prepare: Callable = bool
) -> multiprocessing.process.BaseProcess:
    """Start the command in a folder; what it says goes to a file there. ``quick`` leaves the analysis out.

    prepare: what is done in the process before that, a function of a module.
    """
    forks.set_forkserver_preload(PRELOADED)
    folder.mkdir(parents=True, exist_ok=True)
    process = forks.Process(target=command, args=(words, folder, quick, said, prepare))
    process.start()
    started = folder / f"started {process.pid}"
    while process.is_alive() and not started.exists():
        time.sleep(0.001)
    started.unlink(missing_ok=True)
    return process


def command(words: list[str], folder: Path, quick: bool, said: str, prepare: Callable) -> None:
    """Run it as the leader of a session, as a terminal would, noting what it is at."""
    os.setsid()
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which a campaign below nohup ignores
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))
    threading.Thread(target=note_phase, args=(folder / "phase",), daemon=True).start()
    from rlexp import train
    from rlexp.sweep.interrupt import end_undisturbed

    if quick:
        from rlexp.launch import hooks

        hooks.compare = hooks.write_page = lambda *_, **__: None
    Path(f"started {os.getpid()}").touch()
    prepare()
    sys.argv = ["rlexp", *words]
    try:
        train.main()
    finally:
        end_undisturbed()  # as ``python -m rlexp.train`` does


def note_phase(path: Path) -> None:
    """Keep a file saying what the main thread is at."""
    file, main, last = os.open(path, os.O_WRONLY | os.O_CREAT), threading.main_thread().ident, ""
    while True:
        if (now := phase_of(sys._current_frames().get(main))) != last:
            os.pwrite(file, now.ljust(LONGEST_PHASE).encode(), 0)
            last = now
        time.sleep(SECONDS_BETWEEN_NOTES)


def phase_of(frame: FrameType | None) -> str:
    """Return what a stack is at."""
    while frame is not None:
        if frame.f_code.co_name in PHASES and ("rlexp" in frame.f_code.co_filename):
            return PHASES[frame.f_code.co_name]
        frame = frame.f_back
    return "between"


def phase(folder: Path) -> str:
    """Return what the last command in a folder was at."""
    with suppress(OSError):
        return (folder / "phase").read_text().strip()
    return "between"


def said(folder: Path, name: str = "said.txt") -> str:
    """Return what the commands in a folder have said."""
    return (folder / name).read_text(errors="replace")


def wait(process: multiprocessing.process.BaseProcess, seconds: float) -> int | None:
    """Return the exit code; None for one that did not end in time, which is killed."""
    process.join(seconds)
    if process.exitcode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return None
    return process.exitcode


def survivors(group: int, seconds: float) -> bool:
    """Whether processes of a group are still there after so long; they are killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    return True
