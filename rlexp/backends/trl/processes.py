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
from rlexp.record.resume import inspect
from rlexp.sweep.interrupt import Interrupt
from rlexp.sweep.job import Job

CHILD = "rlexp.backends.trl.run"
SECONDS_BETWEEN_LOOKS = 0.2


def rank() -> int:
    """Which of the processes that train a run together this is; 0 for the one that writes."""
    return int(os.environ.get("RANK", "0"))


def train_in_processes(job: Job, saved: Mapping[str, Any]) -> float | Exception:
    """Train a job from its saved state in processes of its own; return its score, or the error that ended it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "job.pickle")
        path.write_bytes(pickle.dumps((job, dict(saved))))
        wanted = job.config.backend.accelerate  # so many processes, or a file of Accelerate that says how many
        if isinstance(wanted, str):
            how = ["--config_file", wanted]
        else:
            with socket.socket() as opened:  # of several runs side by side on a machine each needs a port of its own
                opened.bind(("127.0.0.1", 0))
                how = ["--num_processes", str(wanted), "--main_process_port", str(opened.getsockname()[1])]
        how += ["--cpu"] if job.config.device == "cpu" else []
        launch = [sys.executable, "-m", "accelerate.commands.launch", "--quiet", *how, "--module", CHILD, str(path)]
        with Interrupt() as interrupt:
            code = exit_code(launch, interrupt)
        if interrupt.requested:
            raise KeyboardInterrupt
    ended = inspect(job.folder, job.config.model_dump(mode="json")).result
    if ended is not None:
        return ended
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return RunFailed(f"its processes ended with exit code {code} (see {job.folder / 'train.log'})")


def exit_code(command: Sequence[str], interrupt: Interrupt) -> int:
    """Run a command that starts processes which train; hand a signal to each of these once, and wait for them to save.

    They are a group of their own, to which a terminal sends nothing: a second signal would end them unsaved. They
    import what this process has imported.
    """
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process, signaled = subprocess.Popen(command, env=variables, process_group=0), set()
    try:
        while process.poll() is None:
            for trainer in trainers(process.pid) if interrupt.requested else []:
                if trainer.pid not in signaled:
                    signaled.add(trainer.pid)
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
