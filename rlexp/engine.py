"""Training a bucket: the jobs of a sweep that fit into one batch, from their configs to their folders."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rlexp import checkpoint
from rlexp.begin import begin
from rlexp.build import build, variant_key
from rlexp.evaluate import evaluate
from rlexp.exits import RunFailed
from rlexp.fleet import Fleet
from rlexp.interrupt import Clock, Interrupt
from rlexp.metrics import Row
from rlexp.progress import Progress
from rlexp.resume import outcome, restarts
from rlexp.run import Job, Run
from rlexp.samples import moments, samples
from rlexp.step import train_step
from rlexp.threads import Threads

LOG = logging.getLogger(__name__)
SAMPLED = ("tokens", "completions")


def train_jobs(jobs: Sequence[Job], title: str = "rlexp") -> list[float | Exception]:
    """Train jobs of one bucket; return for each its score, or the error that ended it.

    Jobs whose folder says that they have ended are not trained again, those that were interrupted go on from their
    checkpoint; jobs that stand at the same step train as one batch. ``title`` is what their progress is called.
    """
    results = {place: outcome(job.config, job.folder) for place, job in enumerate(jobs)}
    states = {place: checkpoint_of(jobs[place]) for place, result in results.items() if result is None}
    for step in sorted({state["step"] for state in states.values()}):
        places = [place for place, state in states.items() if state["step"] == step]
        try:
            trained = train_batch([jobs[place] for place in places], [states[place] for place in places], title)
        except Exception as error:
            trained = [error] * len(places)
        results |= dict(zip(places, trained, strict=True))
    return [results[place] for place in range(len(jobs))]


def checkpoint_of(job: Job) -> dict[str, Any]:
    """Return the saved state of a job, or that of one that has not begun (step −1: nothing, not even evaluated)."""
    state = None if restarts(job.folder) else checkpoint.load(job.folder)
    return state or {"step": -1, **dict.fromkeys(SAMPLED, 0)}


def train_batch(jobs: Sequence[Job], states: Sequence[Mapping[str, Any]], title: str) -> list[float | Exception]:
    """Train jobs that stand at the same step as one batch; return for each its score or its error."""
    keys = [variant_key(job.config) for job in jobs]
    order = sorted(range(len(jobs)), key=lambda i: (keys.index(keys[i]), i))
    runs = [Run.open(jobs[i], states[i]["step"]) for i in order]
    try:
        fleet = build([run.job.config for run in runs])
        if states[0]["step"] >= 0:
            checkpoint.restore(fleet, [states[i] for i in order])
        else:
            start(fleet, runs)
        sampled = {name: torch.tensor([states[i][name] for i in order]) for name in SAMPLED}
        train(fleet, runs, states[0]["step"], sampled, title)
    except BaseException as error:
        end(runs, error)
        raise
    results = dict(zip(order, (run.result for run in runs), strict=True))
    return [results[i] for i in range(len(jobs))]


def start(fleet: Fleet, runs: Sequence[Run]) -> None:
    """Put fresh runs at their starts; a run that does not get there has failed, and only this one."""
    problems = begin(fleet, [run.job.config for run in runs], runs[0].job.starts)
    for run, problem in zip(runs, problems, strict=True):
        if problem:
            run.error = RunFailed(problem)
            LOG.error("%s %s", run.job.name, problem, extra={"job": run.job.name})
            run.finish("failed")


def end(runs: Sequence[Run], error: BaseException) -> None:
    """Close the runs that an error of the whole batch, or the user, has interrupted."""
    status = "failed" if isinstance(error, Exception) else "interrupted"
    for run in runs:
        if run.error is None:
            run.error = error if isinstance(error, Exception) else RuntimeError("interrupted by the user")
            run.finish(status)


def train(fleet: Fleet, runs: Sequence[Run], done: int, sampled: Row, title: str) -> None:
    """Run the loop from after step ``done``: step, and now and then measure, evaluate, record, save."""
    config = runs[0].job.config
    clock = Clock(runs[0].last.get("time/total", 0.0))
    threads = Threads(len(runs), config.threads)
    held_out = config.eval.model_dump(exclude={"every"})
    if done < 0:
        record(runs, 0, evaluate(fleet, 0, **held_out), sampled, clock)
        keep_samples(fleet, runs, 0)
    with Progress([run.job for run in runs], config.steps, title) as progress, Interrupt() as interrupt:
        for step in range(max(done, 0) + 1, config.steps + 1):
            evaluating = step % config.eval.every == 0 or step == config.steps
            measuring = evaluating or step % config.log_every == 0
            row = threads.run(step, train_step, fleet, step, measuring)
            for name in SAMPLED:
                sampled[name] += row.pop(name).cpu()
            if measuring:
                row |= evaluate(fleet, step, **held_out) if evaluating else {}
                record(runs, step, row, sampled, clock)
                progress.update(step, [run.error is None for run in runs], row["reward/mean"].tolist())
            keep_samples(fleet, runs, step)
            if step % config.checkpoint_every == 0 or step == config.steps or interrupt.asked:
                save(fleet, runs, step, sampled)
            if all(run.error for run in runs):
                break
            if interrupt.asked and step < config.steps:
                raise KeyboardInterrupt
    for run in runs:
        if run.error is None:
            run.finish("completed")


def keep_samples(fleet: Fleet, runs: Sequence[Run], step: int) -> None:
    """At the moments for it, write a few completions for every run that is alive."""
    if step not in moments(runs[0].job.config.steps):
        return
    for run, rows in zip(runs, samples(fleet, step), strict=True):
        if run.error is None:
            run.recorder.samples(rows)


def save(fleet: Fleet, runs: Sequence[Run], step: int, sampled: Row) -> None:
    """Write a checkpoint for every run that is alive."""
    for replica, run in enumerate(runs):
        if run.error is None:
            numbers = {name: int(counts[replica]) for name, counts in sampled.items()}
            checkpoint.save(fleet, replica, run.job.folder, step, numbers)


def record(runs: Sequence[Run], step: int, row: Row, sampled: Row, clock: Clock) -> None:
    """Hand every run that is alive its column of the metrics."""
    progress = {f"progress/{name}": counts for name, counts in sampled.items()}
    columns = {name: values.tolist() for name, values in (row | progress).items()}
    elapsed = clock.elapsed()
    for i, run in enumerate(runs):
        if run.error is None:
            own_row = {name: values[i] for name, values in columns.items()}
            times = {"time/total": elapsed, "time/step": elapsed / max(step, 1)}
            run.record(step, own_row | times)
