"""What Hydra would write into the folder of a job: its log, and ``.hydra/``, of which nothing stops a run."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rlexp.launch.hydra_private import configure_logging
from rlexp.record.disk import NEVER_FOLLOWED, replace_unsynced
from rlexp.runfolder.files import NEVER_WAITING
from rlexp.sweep.job import Job


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
