"""A log file for each job of a bucket, as Hydra's job logging would write it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hydra.core.utils import configure_log
from omegaconf import OmegaConf

from rlexp.plan import Planned, hydra_config


class BucketLog(logging.Handler):
    """Writes a record to the files of all jobs, or of the one that it names (``extra={"job": name}``).

    Files are opened for each record: a bucket can hold more runs than a process may hold files.
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
            with open(path, "a", encoding="utf-8") as file:
                file.write(self.format(record) + "\n")


@contextmanager
def logs_of(settings: Mapping[str, dict], verbose: Any) -> Iterator[None]:
    """Configure logging for a bucket: Hydra's settings, with one handler in place of a file handler for each job.

    ``settings`` has the logging settings of each job by its name, in plain values.
    """
    files = {name: each["handlers"].get("file") for name, each in settings.items()}
    first = copy.deepcopy(next(iter(settings.values())))
    if not first.get("root") or not all(files.values()):
        yield
        return
    file = first["handlers"].pop("file")
    first["root"]["handlers"].remove("file")
    configure_log(OmegaConf.create(first), OmegaConf.create({"verbose": verbose}).verbose)
    handler = BucketLog({name: file["filename"] for name, file in files.items()})
    formatter = first.get("formatters", {}).get(file.get("formatter"), {})
    handler.setFormatter(logging.Formatter(formatter.get("format"), formatter.get("datefmt")))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def logging_of(job: Planned) -> dict:
    """Return a job's logging settings, resolved."""
    with hydra_config(job.settings):
        settings = OmegaConf.to_container(job.settings.hydra.job_logging, resolve=True)
    return {"handlers": {}} | settings
