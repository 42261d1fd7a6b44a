"""Training a batch, in the launcher's own process or in a worker's, with the logs and files that its jobs have.

A worker whose sweep has ended without it, killed or lost with its machine, saves what it trains and ends too. Whoever
has started the sweep holds the lock of its folder, and its text names one process at one time: workers on any machine
that shares the folder look there now and then.
"""

from __future__ import annotations

import copy
import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rlexp.core.exits import INTERRUPTED, RunFailed, describe_error, safe_stdio
from rlexp.launch.hydra_private import configure_logging, env_override
from rlexp.record import lock
from rlexp.record.disk import NEVER_FOLLOWED, replace_unsynced
from rlexp.runfolder.files import NEVER_WAITING
from rlexp.sweep.interrupt import signals_as_ctrl_c
from rlexp.sweep.job import Batch, Job, Results

NO_RESULT = "its worker ended without a result (killed, or out of memory or time)"
SECONDS_TO_SAVE = 10.0  # of who is told to stop; then nothing is waited for
SECONDS_BETWEEN_LOOKS, LOOKS = 1.0, 3  # a shared folder may show a new lock late


class BatchLog(logging.Handler):
    """Writes a record to the files of all jobs, or of the one that it names (``extra={"job": name}``).

    Files are opened for each record: a batch can hold more runs than a process may hold files.
    """

    def __init__(self, paths: Mapping[str, str]):
        super().__init__()
        self.paths = paths
        for path in paths.values():
            open(path, "a").close()

    def emit(self, record: logging.LogRecord) -> None:
        """Append the record."""
        job = getattr(record, "job", None)
        for path in [self.paths[job]] if job in self.paths else self.paths.values():
            with suppress(OSError), open(path, "a", encoding="utf-8") as file:  # logs stop no run
                file.write(self.format(record) + "\n")


@contextmanager
def logging_to(jobs: Sequence[Job]) -> Iterator[None]:
    """Configure logging for a batch: as for its first job, with one handler for all files in place of the file handler.

    Nothing is changed if a job has no logs, no root logger or no file.
    """
    settings = [job.logs.config for job in jobs if job.logs]
    files = [each["handlers"].get("file") for each in settings]
    if not jobs or len(files) < len(jobs) or not settings[0].get("root") or not all(files):
        yield
        return
    config = copy.deepcopy(dict(settings[0]))
    del config["handlers"]["file"]
    config["root"]["handlers"].remove("file")
    configure_logging(config, jobs[0].logs.verbose)
    handler = BatchLog({job.name: file["filename"] for job, file in zip(jobs, files, strict=True)})
    formatter = config.get("formatters", {}).get(files[0].get("formatter"), {})
    handler.setFormatter(logging.Formatter(formatter.get("format"), formatter.get("datefmt")))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def write_files(files: Mapping[Path, str], over: bool) -> str | None:
    """Write files, ``over`` those that are there or beside them; return what is wrong with the first that cannot be."""
    problems = []
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if over or not os.path.lexists(path):
                replace_unsynced(path, text)
        except OSError as error:
            problems.append(without(path, error))
    return next(iter(problems), None)


def unwritable_file(paths: Sequence[Path]) -> str | None:
    """Return what is wrong with the first of the files that cannot be opened to write; links are not followed."""
    for path in paths:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | NEVER_FOLLOWED | NEVER_WAITING, 0o666))
        except OSError as error:
            return without(path, error)
    return None


def without(path: Path, error: OSError) -> str:
    """Say that a run does without a file."""
    return f"{path} cannot be written ({error.strerror or error}): the run is trained without it"


@contextmanager
def job_context(batch: Batch) -> Iterator[None]:
    """Log to the files of the jobs, with their environment variables."""
    with logging_to(batch.jobs), env_override(batch.environment):
        yield


def train_batch(batch: Batch, *progress: Any) -> Results:
    """Train a batch; what stops the whole of it is the result of each of its jobs.

    ``progress`` is the engine's ``open_progress``, if it is to be shown elsewhere.
    """
    from rlexp.backends.dispatch import trainer

    with job_context(batch):
        try:
            results = list(trainer(batch.jobs[0].config.backend.name)(batch.jobs, batch.title, *progress))
            if len(results) != len(batch.jobs):
                raise RuntimeError(f"{len(results)} results for {len(batch.jobs)} jobs")
        except Exception as error:
            return [error] * len(batch.jobs)
    return results


def train_in_worker(batch: Batch, cores: int, *progress: Any) -> Results:
    """Train a batch in a process of its own that may use so many cores; its errors can be pickled."""
    import torch

    from rlexp.sweep.machine import allow_open_files

    torch.set_num_threads(cores)
    allow_open_files()
    with safe_stdio(), parent_watchdog(batch):
        results = train_batch(batch, *progress)
    return [picklable(result) if isinstance(result, Exception) else result for result in results]


def train_until_terminated(batch: Batch, cores: int) -> Results:
    """Do the same, but take a SIGTERM (of ``scancel``, too) as a Ctrl-C: runs then save and record that."""
    try:
        with signals_as_ctrl_c():
            return train_in_worker(batch, cores)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def picklable(error: Exception) -> RunFailed:
    """Return what is left of an error in another process: its reason, and its traceback as a note."""
    failed = RunFailed(describe_error(error))
    failed.add_note("".join(traceback.format_exception(error)).rstrip())
    return failed


def failed_results(batch: Batch, reason: str) -> Results:
    """Return the results of a batch whose worker sends none."""
    return [RunFailed(reason) for _ in batch.jobs]


@contextmanager
def parent_watchdog(batch: Batch) -> Iterator[None]:
    """Context that a Ctrl-C ends when nobody holds the sweep's lock any more, or another process does."""
    if batch.sweep is None:
        yield
        return
    if is_orphan(batch):
        raise KeyboardInterrupt
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(SECONDS_BETWEEN_LOOKS):
            if is_orphan(batch):
                return interrupt_main_thread(signal.SIGINT, ended)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def is_orphan(batch: Batch) -> bool:
    """Whether the process that started a batch has ended: repeatedly nobody held the lock, or somebody else did."""
    for look in range(LOOKS):
        if lock.text(batch.sweep) == batch.owner and lock.is_held(batch.sweep, unsure=True):
            return False
        if look + 1 < LOOKS:
            time.sleep(SECONDS_BETWEEN_LOOKS)
    return True


def interrupt_main_thread(number: int, ended: threading.Event) -> None:
    """Send the thread that trains a signal: a first lets it save. Who has not ended in time is ended."""
    signal.pthread_kill(threading.main_thread().ident, number)
    if not ended.wait(SECONDS_TO_SAVE):
        os._exit(INTERRUPTED)
