"""What a worker gets: runs that train as one batch, in plain values that any process can read."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.utils import env_override
from omegaconf import OmegaConf

from hydra_plugins.rlexp_launcher._logs import logging_of, logs_of
from rlexp.exits import INTERRUPTED, RunFailed, reason
from rlexp.plan import Planned, hydra_config

LOST = "its worker ended without a result (killed, or out of memory or time)"


@dataclass(frozen=True)
class PlainJob:
    """A job of the engine, its config as plain values."""

    config: dict[str, Any]
    folder: Path
    name: str
    variant: str
    logging: dict[str, Any]


@dataclass(frozen=True)
class Part:
    """A batch, what its progress is called, and where it trains: settings of logs and environment variables."""

    title: str
    jobs: tuple[PlainJob, ...]
    verbose: Any
    environment: dict[str, str]

    @classmethod
    def of(cls, bucket: Sequence[Planned], title: str) -> Part:
        """Make a part of planned jobs; their folders must be known to Hydra (``hydra.runtime.output_dir``)."""
        jobs = [PlainJob(job.config.model_dump(), job.folder, job.name, job.variant, logging_of(job)) for job in bucket]
        with hydra_config(bucket[0].settings):
            node = bucket[0].settings.hydra
            environment = OmegaConf.to_container(node.job.env_set, resolve=True)
            verbose = OmegaConf.to_container(OmegaConf.masked_copy(node, ["verbose"]), resolve=True)["verbose"]
        return cls(title, tuple(jobs), verbose, environment)

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """Log to the files of the jobs, with their environment variables."""
        with logs_of({job.name: job.logging for job in self.jobs}, self.verbose), env_override(self.environment):
            yield


def train(part: Part) -> list[float | Exception]:
    """Train a part; what stops the whole of it is the result of each of its jobs."""
    from rlexp import engine
    from rlexp.config import read

    with part.surroundings():
        try:
            jobs = [
                engine.Job(read(job.config), job.folder, job.name, job.variant, job.folder.parent / "starts")
                for job in part.jobs
            ]
            results = list(engine.train_jobs(jobs, part.title))
            if len(results) != len(jobs):
                raise RuntimeError(f"{len(results)} results for {len(jobs)} jobs")
        except Exception as error:
            return [error] * len(part.jobs)
    return results


def train_in_worker(part: Part, cores: int) -> list[float | Exception]:
    """Train a part in a process of its own that may use so many cores; its errors can be sent back."""
    from rlexp import threads

    threads.limit(cores)
    return [sendable(result) if isinstance(result, Exception) else result for result in train(part)]


def train_until_told(part: Part, cores: int) -> list[float | Exception]:
    """Do the same, but take being told to end (of ``scancel``, too) as an interrupt: runs then note it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return train_in_worker(part, cores)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def sendable(error: Exception) -> RunFailed:
    """Return what is left of an error in another process: its reason, and its traceback as a note."""
    failed = RunFailed(reason(error))
    failed.add_note("".join(traceback.format_exception(error)).rstrip())
    return failed


def lost(part: Part, why: str) -> list[Exception]:
    """Return the results of a part that nobody will send."""
    return [RunFailed(why) for _ in part.jobs]
