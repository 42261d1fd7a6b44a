"""Training a batch: jobs that share a bucket, from their configs to their folders."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from typing import Any

from rlexp.core import exact
from rlexp.core.exits import RunFailed
from rlexp.record.checkpoint import LATEST, PREVIOUS
from rlexp.record.disk import unwritable
from rlexp.record.lock import LOCK_FILE, locked
from rlexp.record.progress import Progress
from rlexp.record.resume import inspect, last_good_state
from rlexp.sweep.buckets import variant_order
from rlexp.sweep.events import FRESH, Step
from rlexp.sweep.interrupt import Interrupt
from rlexp.sweep.job import Job, Results
from rlexp.sweep.machine import is_out_of_memory, release_memory
from rlexp.sweep.recording import Recording, Run, open_run
from rlexp.sweep.training import train_batch

LOG = logging.getLogger(__name__)
SMALLER = "take a smaller group_size, model or eval.prompts, or more minibatches; resume=failed then goes on"
Saved = Mapping[str, Any]
OpenProgress = Callable[[Sequence[Job], int, str], AbstractContextManager]


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

    If memory does not hold that, as two halves, which go on from where it came to. Returns for each its score or its
    error. KeyboardInterrupt if it is to stop.
    """
    runs: dict[int, Run] = {}
    try:
        opened = {i: open_run(jobs[i], saved[i]) for i in variant_order([job.config for job in jobs])}
        runs |= {i: run for i, run in opened.items() if isinstance(run, Run)}
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
        close([*runs.values()], error)
        if not isinstance(error, Exception):
            raise
        if not is_out_of_memory(error):
            return [error] * len(jobs)
    events = event = recording = None  # nor what these still hold
    release_memory()  # not above, where the error holds what was made
    if len(jobs) == 1:
        return [RunFailed(f"{jobs[0].name} does not fit into memory, even alone: {SMALLER}")]
    LOG.warning("%d runs do not fit into memory at once: they are trained as two batches", len(jobs))
    middle = (len(jobs) + 1) // 2
    return [*train_jobs(jobs[:middle], title, open_progress), *train_jobs(jobs[middle:], title, open_progress)]


def close(runs: Sequence[Run], error: BaseException) -> None:
    """Close the runs that an error of the whole batch, or the user, has interrupted."""
    by_user = not isinstance(error, Exception)
    halved = is_out_of_memory(error) and len(runs) > 1
    for run in runs:
        if run.alive:
            run.error = RuntimeError("interrupted by the user") if by_user else error
            run.finish("interrupted" if by_user or halved else "failed")
