"""One run of a sweep: what it is asked to do, and its files, its logger and its end while it trains."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.choose import choose
from rlexp.config import Config
from rlexp.loggers import LOGGERS
from rlexp.recorder import Recorder, collapsed, score

LOG = logging.getLogger(__name__)
HEALTH = ("loss/total", "optim/grad_norm")


@dataclass(frozen=True)
class Job:
    """One run: its config, its folder, its name in the sweep, and its variant (its choices without the seed).

    ``starts`` is where the runs of a sweep keep what they start from, for each other.
    """

    config: Config
    folder: Path
    name: str
    variant: str
    starts: Path | None = None


@dataclass
class Run:
    """What the engine knows of a job while it trains."""

    job: Job
    recorder: Recorder
    logger: object
    evaluations: list[dict[str, float]] = field(default_factory=list)
    last: dict[str, float] = field(default_factory=dict)
    step: int = 0
    error: Exception | None = None

    @classmethod
    def open(cls, job: Job, step: int) -> Run:
        """Start the files and the logger of a run, or go on with them after ``step`` steps."""
        facts = {"name": job.name, "variant": job.variant, "seed": job.config.seed}
        recorder = Recorder(job.folder, job.config.model_dump(mode="json"), facts, step)
        run = cls(job, recorder, choose(LOGGERS, job.config.logger)(job))
        for row in recorder.kept:
            run.note(row.pop("step"), {key: math.nan if value is None else value for key, value in row.items()})
        return run

    def note(self, step: int, row: dict[str, float]) -> None:
        """Take note of a row that is in the run's file, and mirror it."""
        self.logger.log(step, row)
        self.last, self.step = self.last | row, step
        if any(key.startswith("eval/") for key in row):
            self.evaluations.append(row)

    def record(self, step: int, row: dict[str, float]) -> None:
        """Write a row everywhere; a loss that is not a number ends the run, and only this one."""
        self.recorder.row(step, row)
        self.note(step, row)
        sick = [f"{key} is {row[key]}" for key in HEALTH if key in row and not math.isfinite(row[key])]
        if sick:
            self.error = FloatingPointError(f"diverged by step {step}: {', '.join(sick)}")
            LOG.error("%s %s", self.job.name, self.error, extra={"job": self.job.name})
            self.finish("diverged")

    def finish(self, status: str) -> None:
        """Write the summary and close everything."""
        settings = self.job.config.score
        final = score(self.evaluations, settings.metric, settings.share) if status == "completed" else None
        summary = {
            "score": final,
            "score_metric": settings.metric,
            "collapsed": True if status == "diverged" else collapsed(final, settings.floor),
            "steps": self.step,
            "completions": self.last.get("progress/completions", 0),
            "tokens": self.last.get("progress/tokens", 0),
            "wall_time_s": self.last.get("time/total", 0.0),
            "final": self.last,
        }
        self.recorder.finish(status, str(self.error) if self.error else None, **summary)
        self.logger.finish(status, summary)

    @property
    def result(self) -> float | Exception:
        """The score, or why there is none."""
        settings = self.job.config.score
        return self.error or score(self.evaluations, settings.metric, settings.share)
