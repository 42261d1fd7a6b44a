"""One run while it trains: its files, its logger and its end."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rlexp.core.errors import format_value
from rlexp.core.exits import RunFailed
from rlexp.core.registry import bind_choice
from rlexp.loop.metrics import BOUNDED
from rlexp.record.disk.io_errors import unwritable
from rlexp.record.files import Recorder, collapsed
from rlexp.record.gradient import gradient_curves
from rlexp.record.loggers import LOGGERS
from rlexp.record.provenance import change_note
from rlexp.record.resume import FAILED
from rlexp.runfolder.files import METRICS_FILE, SAMPLES_FILE, SUMMARY_FILE, Extent
from rlexp.runfolder.rows import score
from rlexp.sweep.events import Ended, Samples
from rlexp.sweep.job import Job

LOG = logging.getLogger(__name__)


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
    ended: bool = False

    @classmethod
    def open(cls, job: Job, step: int, extents: Mapping[str, Extent] | None = None) -> Run:
        """Start the files and the logger of a run, or go on with them after ``step`` steps, where they ended then."""
        study = {"study_hash": job.config.study.hash} if job.config.study else {}
        facts = {"name": job.name, "variant": job.variant, "seed": job.config.seed, **study}
        recorder = Recorder(job.folder, job.config.model_dump(mode="json"), facts, step, extents)
        run = cls(job, recorder, bind_choice(LOGGERS, job.config.logger)(job))
        for row in recorder.earlier_rows:
            run.log(row.pop("step"), {key: math.nan if value is None else value for key, value in row.items()})
        if recorder.damage:
            LOG.warning("%s %s", job.name, recorder.damage, extra={"job": job.name})
        if note := change_note(recorder.code, step):
            LOG.warning("%s %s", job.name, note, extra={"job": job.name})
        begins = "starts" if step < 0 else f"goes on after step {step}"
        run.log_line(begins, f"{job.config.steps} steps in {job.folder}")
        return run

    def log_line(self, *words: str) -> None:
        """Write a line to the run's own log."""
        LOG.info(" · ".join([self.job.name, *words]), extra={"job": self.job.name})

    @property
    def alive(self) -> bool:
        """Whether nothing has ended the run so far."""
        return self.error is None and not self.ended

    def log(self, step: int, row: dict[str, float]) -> None:
        """Hand on a row that is in the run's file, and remember what the summary needs of it."""
        self.logger.log(step, row)
        self.last, self.step = self.last | row, step
        if any(key.startswith("eval/") for key in row):
            self.evaluations.append(row)

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Context in which it ends the run, and only this one, that a file of it cannot be written."""
        try:
            yield
        except (OSError, RunFailed) as error:
            self.fail(unwritable(error, self.job.folder / name))

    def take(self, event: Samples | Ended) -> None:
        """Write down what training says of the run beside its rows and checkpoints."""
        if isinstance(event, Samples):
            with self.writing(SAMPLES_FILE):
                self.recorder.write_samples(event.completions)
        elif event.status in FAILED:
            self.fail(event.error, event.status)
        else:
            self.error = event.error
            self.finish(event.status)

    def record(self, step: int, row: dict[str, float]) -> None:
        """Write a row everywhere."""
        with self.writing(METRICS_FILE):
            self.recorder.write_row(step, row)
        if not self.alive:
            return
        self.log(step, row)
        if evaluated := [f"{key} {value:.3f}" for key, value in row.items() if key.startswith("eval/")]:
            self.log_line(f"step {step}", *evaluated)

    def fail(self, error: Exception, status: str = "failed") -> None:
        """End the run, and only this one."""
        self.error = error
        LOG.error("%s %s", self.job.name, error, extra={"job": self.job.name})
        self.finish(status)

    def finish(self, status: str) -> None:
        """Write the summary and close everything. A run without summary has not ended: it can be gone on with."""
        self.ended = True
        if BOUNDED in self.last:
            bound = f"log_ratio_bound={format_value(self.job.config.log_ratio_bound)}"
            said = f"had log-ratios beyond {bound}, last of {self.last[BOUNDED]:.2%} of the tokens: {BOUNDED} says when"
            LOG.warning("%s %s", self.job.name, said, extra={"job": self.job.name})
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
            "gradient": gradient_curves(self.job.config.clip, self.job.config.log_ratio_bound),
        }
        try:
            self.recorder.finish(status, str(self.error) if self.error else None, **summary)
        except (OSError, RunFailed) as error:
            self.error = self.error or unwritable(error, self.job.folder / SUMMARY_FILE)
            LOG.error("%s %s", self.job.name, unwritable(error, self.job.folder / SUMMARY_FILE))
        self.log_line(status, f"step {self.step}", f"{settings.metric} {final}", f"{summary['wall_time_s']:.1f} s")
        self.logger.finish(status, summary)

    @property
    def result(self) -> float | Exception:
        """The score, or why there is none."""
        settings = self.job.config.score
        return self.error or score(self.evaluations, settings.metric, settings.share)
