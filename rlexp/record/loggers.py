"""Where rows go beside metrics.jsonl: ``open_x(job, *, knobs)`` → ``.log(step, row)``, ``.finish(status, summary)``.

Nothing reads these logs back, and a run does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from rlexp.record.logged import LoggedJob
from rlexp.record.trackio_logger import open_trackio
from rlexp.record.wandb_logger import open_wandb


class NullLogger:
    """Logs nowhere."""

    def log(self, step: int, row: Mapping[str, int | float]) -> None:
        """Forget the row."""

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        """Forget the summary."""


def open_none(job: LoggedJob) -> NullLogger:
    """Log nowhere: a run's own files are complete."""
    return NullLogger()


LOGGERS = {"wandb": open_wandb, "trackio": open_trackio, "none": open_none}


def problems(config: Any) -> Iterator[str]:
    """Say that the logger of a config is not installed, if so."""
    name = config.logger.name
    if name != "none" and find_spec(name) is None:
        yield f"logger={name}: needs the package {name}, which is not installed: pip install {name}"
