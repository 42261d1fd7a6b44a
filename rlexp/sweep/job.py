"""What is passed from the plan of a sweep to the process that trains it: jobs, and batches of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlexp.config import plugins
from rlexp.config.schema import Config, read

Results = list[float | Exception]  # of the jobs of a batch: the score, or why there is none


@dataclass(frozen=True)
class LogSettings:
    """``config`` as ``logging.config.dictConfig`` takes it, and ``verbose`` as ``hydra.verbose`` is written."""

    config: Mapping[str, Any]
    verbose: bool | str | Sequence[str] = False


@dataclass(frozen=True)
class Job:
    """One run: its config, folder, name in the sweep, and variant (its overrides without the seed).

    ``starts`` is the folder in which the runs of a sweep keep the weights that they start from, for each other. Without
    ``logs`` a run logs where its process does. ``ended`` is the score of a run that was finished when it was planned,
    or why it is not trained; None for one that is.
    """

    config: Config
    folder: Path
    name: str
    variant: str
    number: int = 0
    overrides: tuple[str, ...] = ()
    starts: Path | None = None
    logs: LogSettings | None = None
    ended: float | Exception | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The config as plain values, which any process can read, and what was registered in this one."""
        return vars(self) | {"config": self.config.model_dump(), "registered": plugins.as_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Register the same choices, read the config again; ConfigError if it is not valid where this is read."""
        plugins.from_bytes(state.pop("registered"))
        vars(self).update(state, config=read(state["config"]))


@dataclass(frozen=True)
class Batch:
    """Jobs that train together, what their progress is called, and the environment variables that they see.

    A worker ends when the lock of the folder ``sweep`` no longer says ``owner``.
    """

    jobs: tuple[Job, ...]
    title: str = "rlexp"
    environment: Mapping[str, str] = field(default_factory=dict)
    sweep: Path | None = None
    owner: str = ""
