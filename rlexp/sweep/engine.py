"""Training a batch: jobs that share a bucket, from their configs to their folders."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from rlexp.core import exact
from rlexp.core.errors import format_value
from rlexp.core.exits import RunFailed
from rlexp.core.registry import bind_choice
from rlexp.loop.metrics import BOUNDED
from rlexp.record import checkpoint
from rlexp.record.checkpoint import LATEST, PREVIOUS
from rlexp.record.disk import Recorder, collapsed, unwritable
from rlexp.record.gradient import gradient_curves
from rlexp.record.lock import LOCK_FILE, locked
from rlexp.record.loggers import LOGGERS
from rlexp.record.progress import Progress
from rlexp.record.resume import FAILED, inspect, last_good_state
from rlexp.runfolder.files import METRICS_FILE, SAMPLES_FILE, SUMMARY_FILE
from rlexp.runfolder.rows import score
from rlexp.sweep.build import policy_shape, variant_order, weights_of
from rlexp.sweep.interrupt import Interrupt
from rlexp.sweep.job import Job, Results
from rlexp.sweep.machine import is_out_of_memory
from rlexp.sweep.training import FRESH, Checkpoint, Ended, Event, Row, Samples, Step, train_batch

LOG = logging.getLogger(__name__)
SMALLER = "take a smaller group_size, model or eval.prompts, or more minibatches; resume=failed then goes on"
TOO_LARGE = f"does not fit into memory, even alone: {SMALLER}"
WAS_TOO_LARGE = "do not fit into memory at once: they are trained as two batches"
OF_ONE = "failed as one batch ({error}): each of the {parts} variants is trained apart, to see whose error it is"
Saved = Mapping[str, Any]
OpenProgress = Callable[[Sequence[Job], int, str], AbstractContextManager]


@dataclass
class Run:
    """One run while it trains: its files, its logger and its end."""

    job: Job
    recorder: Recorder
    logger: object
    evaluations: list[dict[str, float]] = field(default_factory=list)
    last: dict[str, float] = field(default_factory=dict)
    step: int = 0
    error: Exception | None = None
    score: float | None = None
    ended: bool = False

    @property
    def alive(self) -> bool:
        return self.error is None and not self.ended

    @property
    def result(self) -> float | Exception:
        return self.error or self.score

    def say(self, *words: str, level: int = logging.INFO) -> None:
        LOG.log(level, " · ".join(words), extra={"job": self.job.name})

    def log(self, step: int, row: dict[str, float]) -> None:
        """Hand on a row that is in the run's file, and remember what the summary needs of it."""
        self.logger.log(step, row)
        self.last, self.step = self.last | row, step
        if any(key.startswith("eval/") for key in row):
            self.evaluations.append(row)

    def take(self, event: Row | Samples | Ended) -> None:
        """Write down what training says of the run. That a file cannot be written ends it, and only it."""
        if isinstance(event, Ended):
            return self.end(event.status, event.error)
        try:
            if isinstance(event, Samples):
                return self.recorder.write_samples(event.completions)
            self.recorder.write_row(event.step, event.metrics)
        except (OSError, RunFailed) as error:
            name = SAMPLES_FILE if isinstance(event, Samples) else METRICS_FILE
            return self.end("failed", unwritable(error, self.job.folder / name))
        self.log(event.step, event.metrics)
        if evaluated := [f"{key} {value:.3f}" for key, value in event.metrics.items() if key.startswith("eval/")]:
            self.say(self.job.name, f"step {event.step}", *evaluated)

    def end(self, status: str, error: Exception | None) -> None:
        """End the run, and only this one; an error that is its own is logged."""
        self.error = error
        if status in FAILED:
            self.say(f"{self.job.name} {error}", level=logging.ERROR)
        self.finish(status)

    def finish(self, status: str) -> None:
        """Write the summary and close everything. A run without summary has not ended: it can be gone on with."""
        self.ended = True
        if BOUNDED in self.last:
            bound = f"log_ratio_bound={format_value(self.job.config.log_ratio_bound)}"
            said = f"had log-ratios beyond {bound}, last of {self.last[BOUNDED]:.2%} of the tokens: {BOUNDED} says when"
            self.say(f"{self.job.name} {said}", level=logging.WARNING)
        settings = self.job.config.score
        if status == "completed":
            self.score = score(self.evaluations, settings.metric, settings.share)
        summary = {
            "score": self.score,
            "score_metric": settings.metric,
            "collapsed": status == "diverged" or collapsed(self.score, settings.floor),
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
            failure = unwritable(error, self.job.folder / SUMMARY_FILE)
            self.error = self.error or failure
            LOG.error("%s %s", self.job.name, failure)
        words = status, f"step {self.step}", f"{settings.metric} {self.score}", f"{summary['wall_time_s']:.1f} s"
        self.say(self.job.name, *words)
        self.logger.finish(status, summary)


def open_run(job: Job, saved: Mapping[str, Any]) -> Run | Exception:
    """Start the files and the logger of a run, or go on with them where they ended in a saved state.

    Returns why that cannot be done.
    """
    step, study = saved["step"], {"study_hash": job.config.study.hash} if job.config.study else {}
    facts = {"name": job.name, "variant": job.variant, "seed": job.config.seed, **study}
    if job.config.backend.name == "replicas":
        facts["weights"] = weights_of(policy_shape(job.config))
    try:
        recorder = Recorder(job.folder, job.config.model_dump(mode="json"), facts, step, saved.get("files"))
        run = Run(job, recorder, bind_choice(LOGGERS, job.config.logger)(job))
        for row in recorder.earlier_rows:
            run.log(row.pop("step"), {key: math.nan if value is None else value for key, value in row.items()})
        for note in recorder.notes:
            run.say(f"{job.name} {note}", level=logging.WARNING)
        begins = "starts" if step < 0 else f"goes on after step {step}"
        run.say(job.name, begins, f"{job.config.steps} steps in {job.folder}")
    except OSError as error:
        return unwritable(error, job.folder / METRICS_FILE)
    except Exception as error:
        return error
    return run


class Recording:
    """Writes down what training says of runs. ``active`` are those that train: one that cannot be written is not."""

    def __init__(self, runs: Mapping[int, Run], progress: Any = None):
        self.runs, self.progress = runs, progress
        self.active = set(runs)
        self.started: float | None = None  # the time of training counts on after an interruption
        self.rewards = dict.fromkeys(runs, math.nan)
        self.unsaved: list[Checkpoint] = []
        self.unshown = False

    def take(self, event: Event) -> None:
        """Write down an event; checkpoints are written side by side, at the latest at the end of their step."""
        if isinstance(event, Step):
            if self.started is None:
                self.started = time.perf_counter() - next(iter(self.runs.values())).last.get("time/total", 0.0)
            self.save()
            if self.progress and self.unshown:
                self.progress.update(event.step, [run.alive for run in self.runs.values()], [*self.rewards.values()])
                self.unshown = False
        elif isinstance(event, Checkpoint):
            self.unsaved.append(event)
            if len(self.unsaved) == checkpoint.AT_ONCE:
                self.save()
        elif (run := self.runs[event.run]).alive:
            if isinstance(event, Row):
                elapsed = time.perf_counter() - self.started
                times = {"time/total": elapsed, "time/step": elapsed / max(event.step, 1)}
                self.rewards[event.run], self.unshown = event.metrics.get("reward/mean", math.nan), event.step > 0
                event = replace(event, metrics=event.metrics | times)
            run.take(event)
            if not run.alive:
                self.active.discard(event.run)

    def save(self) -> None:
        """Write the checkpoints that are not on the disk; one that cannot be written ends its run."""
        states = [(self.runs[event.run].recorder, event.state) for event in self.unsaved]
        for event, error in zip(self.unsaved, checkpoint.save(states), strict=True):
            if error is not None:
                run = self.runs[event.run]
                run.end("failed", unwritable(error, run.job.folder / LATEST))
                self.active.discard(event.run)
        self.unsaved = []


def show(jobs: Sequence[Job], steps: int, title: str) -> Progress:
    return Progress([job.variant for job in jobs], steps, title)


def train_jobs(jobs: Sequence[Job], title: str = "rlexp", open_progress: OpenProgress = show) -> Results:
    """Train jobs of one bucket; return for each its score, or the error that ended it.

    Jobs whose folder says that they have ended are not trained again, those that were interrupted go on from their
    checkpoint; jobs that stand at the same step train as one batch. ``title`` is what their progress is called, which
    ``open_progress`` shows.
    """
    with ExitStack() as locks:
        results = {place: state_or_result(job, locks) for place, job in enumerate(jobs)}
        saved = {place: state for place, state in results.items() if isinstance(state, dict)}
        for step in sorted({state["step"] for state in saved.values()}):
            places = [place for place, state in saved.items() if state["step"] == step]
            batch, states = [jobs[place] for place in places], [saved[place] for place in places]
            results |= dict(zip(places, train_together(batch, states, title, open_progress), strict=True))
    return [results[place] for place in range(len(jobs))]


def state_or_result(job: Job, locks: ExitStack) -> dict[str, Any] | float | Exception:
    """Lock the folder of a run and return the state that this process trains it on from.

    A fresh run's is that of step −1: nothing, not even evaluated. Of a run that is not trained its score, or why not.
    """
    if job.ended is not None:
        return job.ended
    try:
        locks.enter_context(locked(job.folder))
    except (RunFailed, OSError) as error:
        return unwritable(error, job.folder / LOCK_FILE)
    try:
        config = job.config.model_dump(mode="json")
        status = inspect(job.folder, config)  # once more: another process may have trained it since it was planned
        if status.result is not None:
            return status.result
        if status.diverged:
            return dict(FRESH)
        state, path, notes = last_good_state(job.folder, config, status)
        for line in notes:
            LOG.warning(line, extra={"job": job.name})
        if path == job.folder / PREVIOUS:  # a latest one that cannot be used must not become the previous one
            os.replace(path, job.folder / LATEST)
    except Exception as error:
        return error
    return state or dict(FRESH)


def train_together(jobs: Sequence[Job], saved: Sequence[Saved], title: str, open_progress: OpenProgress) -> Results:
    """Train jobs that stand at the same step as one batch, and write down what training says.

    If memory does not hold that, or an error may be that of one variant, in parts (`train_apart`), which go on from
    where it came to. Returns for each its score or its error. KeyboardInterrupt if it is to stop.
    """
    runs: dict[int, Run] = {}
    try:
        with Interrupt() as opening:  # a run whose files are open is one that is closed, with a summary
            opened = {i: open_run(jobs[i], saved[i]) for i in variant_order(jobs)}
            runs |= {i: run for i, run in opened.items() if isinstance(run, Run)}
        if opening.requested:
            raise KeyboardInterrupt
        if not runs:
            return [error for _, error in sorted(opened.items())]
        configs, first = {i: run.job.config for i, run in runs.items()}, next(iter(runs.values())).job
        recording, interrupt = Recording(runs), Interrupt()
        states = {i: saved[i] for i in runs}
        events = train_batch(configs, recording.active, states, lambda: interrupt.requested, first.starts)
        with ExitStack() as shown, closing(events):
            for event in events:
                recording.take(event)
                if not isinstance(event, Step) or event.step < 0:
                    continue
                if recording.progress is None:
                    display = open_progress([run.job for run in runs.values()], first.config.steps, title)
                    recording.progress = shown.enter_context(display)
                    shown.enter_context(interrupt)
                if event.step == first.config.steps:
                    shown.close()
        if said := exact.paths_taken():
            LOG.info(said)
        if interrupt.requested:
            raise KeyboardInterrupt
        return [run.result if isinstance(run, Run) else run for _, run in sorted(opened.items())]
    except BaseException as error:
        parts = train_apart(jobs, error)
        close([*runs.values()], error, goes_on=bool(parts))
        if not isinstance(error, Exception):
            raise
        if not parts:
            return [RunFailed(f"{jobs[0].name} {TOO_LARGE}") if is_out_of_memory(error) else error] * len(jobs)
        said = WAS_TOO_LARGE if is_out_of_memory(error) else OF_ONE.format(error=error, parts=len(parts))
        LOG.warning("%d runs %s", len(jobs), said)
    events = event = recording = None  # nor what these still hold
    torch.cuda.empty_cache()  # not above, where the error holds what was made
    results: dict[int, float | Exception] = {}
    for places in parts:
        results |= dict(zip(places, train_jobs([jobs[i] for i in places], title, open_progress), strict=True))
    return [results[i] for i in range(len(jobs))]


def train_apart(jobs: Sequence[Job], error: BaseException) -> list[list[int]]:
    """Return the places of the jobs that train again apart after an error of their batch; none if all have failed.

    Two halves if memory does not hold the batch. Each variant else, as the error may be that of one: of a function of
    the user's that returns a wrong shape, say. Their bits are the same.
    """
    if not isinstance(error, Exception) or len(jobs) == 1:
        return []
    if is_out_of_memory(error):
        middle = (len(jobs) + 1) // 2
        return [[*range(middle)], [*range(middle, len(jobs))]]
    variants: dict[str, list[int]] = {}
    for place, job in enumerate(jobs):
        variants.setdefault(job.variant, []).append(place)
    return [] if len(variants) == 1 or isinstance(error, OSError | RunFailed) else [*variants.values()]


def close(runs: Sequence[Run], error: BaseException, goes_on: bool = False) -> None:
    """Close runs that an error of the whole batch, or the user, has interrupted; those that go on have not failed."""
    by_user = not isinstance(error, Exception)
    for run in runs:
        if run.alive:
            run.error = RuntimeError("interrupted by the user") if by_user else error
            run.finish("interrupted" if by_user or goes_on else "failed")
