"""Where rows go beside metrics.jsonl: ``open_x(job, *, knobs)`` → ``.log(step, row)``, ``.finish(status, summary)``.

Nothing reads these logs back, and a run does not depend on them.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

LOG = logging.getLogger(__name__)
SECONDS_TO_CONNECT = 10.0

# Quiet, nothing collected that the run's own files do not have, and rows in the file within a second: by default
# wandb 0.31 writes each 32 KiB or 15 s, and a killed process leaves an empty file.
SETTINGS = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "disable_code": True,
    "disable_job_creation": True,
    "x_disable_stats": True,
    "x_disable_meta": True,
    "x_save_requirements": False,  # reading them takes two thirds of the time to open a run
    "x_transaction_log_flush_interval": 1.0,
    "init_timeout": SECONDS_TO_CONNECT,
    "finish_timeout": 60.0,
}


@runtime_checkable
class Job(Protocol):
    """What a logger needs to know about a run."""

    folder: Path
    variant: str
    config: Any


class Nothing:
    """Logs nowhere."""

    def log(self, step: int, row: Mapping[str, int | float]) -> None:
        """Forget the row."""

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        """Forget the summary."""


@dataclass(frozen=True)
class Wandb:
    """One run of Weights & Biases, beside others in the same process."""

    run: Any

    def log(self, step: int, row: Mapping[str, int | float]) -> None:
        """Log a row; the step is passed on, as wandb's own count starts at 0 again in each offline run."""
        finite = {key: value if math.isfinite(value) else None for key, value in row.items()}  # as in metrics.jsonl
        with _surviving():
            self.run.log({"step": step, **finite}, step=step, commit=True)  # else the row waits for the next one

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        """Add the numbers and words of the summary (wandb knows the last row by itself) and close the run."""
        plain = {key: value for key, value in summary.items() if not isinstance(value, Mapping)}
        with _surviving():
            self.run.summary.update({**plain, "status": status})
            self.run.finish(exit_code=int(status != "completed"))


def open_none(job: Job) -> Nothing:
    """Log nowhere: a run's own files are complete."""
    return Nothing()


def open_wandb(
    job: Job, *, mode: Literal["offline", "online", "disabled"], project: str, entity: str | None, tags: list[str]
) -> Wandb:
    """Log to Weights & Biases; without a key or a server, ``online`` turns into ``offline`` for the whole process."""
    seed = job.config.seed
    run = _open(
        mode,
        project=project,
        entity=entity,
        tags=tags,
        dir=str(job.folder),
        id=run_id(job),
        name=f"{job.variant}-s{seed}",
        group=job.variant,
        job_type="train",
        config={
            **job.config.model_dump(mode="json"),
            "variant": job.variant,
            "seed": seed,
            "sweep_name": job.folder.resolve().parent.name,
        },
    )
    run.define_metric("step")
    run.define_metric("*", step_metric="step")
    return Wandb(run)


def run_id(job: Job) -> str:
    """Variant and seed in the characters that wandb allows, and a hash of the folder, which tells sweeps apart."""
    words = re.sub(r"[^\w.=-]+", "_", job.variant, flags=re.ASCII)[:60]
    return f"{words}-s{job.config.seed}-{hashlib.sha256(str(job.folder.resolve()).encode()).hexdigest()[:8]}"


def _open(mode: str, **options: Any) -> Any:
    """Open a wandb run; a connection that fails is tried once per process, as the try takes ten seconds."""
    import wandb  # half a second that only its users should wait

    known = {name: value for name, value in SETTINGS.items() if name in wandb.Settings.model_fields}
    options |= {"settings": wandb.Settings(**known), "reinit": "create_new"}
    wandb.setup(settings=options["settings"])  # silent before the first run, or wandb asks for a missing key
    if mode == "online" and not _unreachable:
        try:
            return wandb.init(mode="online", **options)
        except wandb.errors.Error as error:
            _unreachable.append(error)
            _warn_once(f"wandb is not reachable ({_first_line(error)}): logging offline; `wandb sync` uploads later")
            options["id"] += "-offline"  # the id itself stays taken by the run that did not connect
    return wandb.init(mode="offline" if mode == "online" else mode, **options)


_unreachable: list[Exception] = []


@contextmanager
def _surviving() -> Iterator[None]:
    """Train on without wandb when its process has died (as when memory runs out): the run's own files are complete."""
    try:
        yield
    except ConnectionError as error:
        _warn_once(f"wandb has stopped ({_first_line(error)}): training goes on, metrics.jsonl has all rows")


@cache
def _warn_once(message: str) -> None:
    LOG.warning(message)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


LOGGERS = {"wandb": open_wandb, "none": open_none}
