"""Several processes that train one run together, started by ``accelerate launch``.

The process that asks for them holds the lock of the run's folder; the first of them writes to it.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from rlexp.core.exits import INTERRUPTED, RunFailed
from rlexp.record.resume import outcome
from rlexp.sweep.interrupt import Interrupt
from rlexp.sweep.job import Job

CHILD = "rlexp.backends.trl.child"
SECONDS_BETWEEN_LOOKS = 0.2


def rank() -> int:
    """Which of the processes that train a run together this is; 0 for the one that writes."""
    return int(os.environ.get("RANK", "0"))


def launched(job: Job, saved: Mapping[str, Any]) -> float | Exception:
    """Train a job from its saved state in processes of its own; return its score, or the error that ended it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "job.pickle")
        path.write_bytes(pickle.dumps((job, dict(saved))))
        with Interrupt() as interrupt:
            code = exit_code(command(job.config, path), interrupt)
        if interrupt.requested:
            raise KeyboardInterrupt
    ended = outcome(job.folder, job.config.resume)
    if ended is not None:
        return ended
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return RunFailed(f"its processes ended with exit code {code} (see {job.folder / 'train.log'})")


def exit_code(words: Sequence[str], interrupt: Interrupt) -> int:
    """Run a command that starts processes which train; hand a signal to each of these once, and wait for them to save.

    They are a group of their own, to which a terminal sends nothing: a second signal would end them unsaved.
    """
    process, told = subprocess.Popen(words, env=environment(os.environ), process_group=0), set()
    try:
        while process.poll() is None:
            for trainer in trainers(process.pid) if interrupt.requested else []:
                if trainer.pid not in told:
                    told.add(trainer.pid)
                    trainer.terminate()
            time.sleep(SECONDS_BETWEEN_LOOKS)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return process.returncode


def trainers(launcher: int) -> list[psutil.Process]:
    """Return the processes below a launcher that train; those between them and the launcher only wait."""
    found = []
    with suppress(psutil.Error):
        for each in psutil.Process(launcher).children(recursive=True):
            found += [each] if CHILD in each.cmdline()[:4] else []
    return found


def command(config: Any, path: Path) -> list[str]:
    """Return the command that trains the job in a file: in so many processes, or as a file of Accelerate says."""
    wanted = config.backend.accelerate
    alone = ["--num_processes", str(wanted), "--main_process_port", str(free_port())]
    how = ["--quiet", *(["--config_file", wanted] if isinstance(wanted, str) else alone)]
    if config.device == "cpu":
        how += ["--cpu"]
    return [sys.executable, "-m", "accelerate.commands.launch", *how, "--module", CHILD, str(path)]


def free_port() -> int:
    """Return a port that nobody listens at: several runs may train side by side on a machine."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the processes: they import what this one has imported."""
    return {**variables, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
