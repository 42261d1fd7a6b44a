"""Training a batch: jobs that share a bucket, from their configs to their folders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import torch

from rlexp.core import exact
from rlexp.core.exits import RunFailed
from rlexp.loop.data import fill
from rlexp.loop.evaluation import evaluate
from rlexp.loop.judged.bradley_terry import train_judges
from rlexp.loop.judged.metrics import of_judged
from rlexp.loop.metrics import Row, of_others, written
from rlexp.loop.state import TrainState
from rlexp.loop.step import train_step
from rlexp.record import checkpoint
from rlexp.record.disk.troubles import unwritable
from rlexp.record.files import SAMPLES_FILE
from rlexp.record.progress import Progress
from rlexp.record.samples import moments, samples
from rlexp.sweep.build import build, variant_key
from rlexp.sweep.interrupt import Clock, Interrupt
from rlexp.sweep.job import Job, Results
from rlexp.sweep.machine import is_out_of_memory, release_memory
from rlexp.sweep.opening import COUNTED, checkpoint_of, locked_outcome, opened_run
from rlexp.sweep.run import Run
from rlexp.sweep.starts import apply_starts
from rlexp.sweep.threads import Threads

LOG = logging.getLogger(__name__)
SMALLER = "take a smaller group_size, model or eval.prompts, or more minibatches; resume=failed then goes on"
Saved = Mapping[str, Any]
OpenProgress = Callable[[Sequence[Job], int, str], AbstractContextManager]


def show(jobs: Sequence[Job], steps: int, title: str) -> Progress:
    """Return the display of the training of jobs."""
    return Progress([job.variant for job in jobs], steps, title)


def train_jobs(jobs: Sequence[Job], title: str = "rlexp", open_progress: OpenProgress = show) -> Results:
    """Train jobs of one bucket; return for each its score, or the error that ended it.

    Jobs whose folder says that they have ended are not trained again, those that were interrupted go on from their
    checkpoint; jobs that stand at the same step train as one batch. ``title`` is what their progress is called, which
    ``open_progress`` shows.
    """
    with ExitStack() as locks:
        results = {place: locked_outcome(job, locks) for place, job in enumerate(jobs)}
        saved = {place: checkpoint_of(jobs[place]) for place, result in results.items() if result is None}
        results |= {place: state for place, state in saved.items() if isinstance(state, Exception)}
        saved = {place: state for place, state in saved.items() if results[place] is None}
        for step in sorted({state["step"] for state in saved.values()}):
            places = [place for place, state in saved.items() if state["step"] == step]
            batch, states = [jobs[place] for place in places], [saved[place] for place in places]
            results |= dict(zip(places, train_fitting(batch, states, title, open_progress), strict=True))
    return [results[place] for place in range(len(jobs))]


def train_fitting(jobs: Sequence[Job], saved: Sequence[Saved], title: str, open_progress: OpenProgress) -> Results:
    """Train jobs as one batch or, if memory does not hold that, as two halves, which go on from where it came to."""
    try:
        return train_batch(jobs, saved, partial(open_progress, title=title))
    except Exception as error:
        if not is_out_of_memory(error):
            return [error] * len(jobs)
    release_memory()
    if len(jobs) == 1:
        return [RunFailed(f"{jobs[0].name} does not fit into memory, even alone: {SMALLER}")]
    LOG.warning("%d runs do not fit into memory at once: they are trained as two batches", len(jobs))
    middle = (len(jobs) + 1) // 2
    return [*train_jobs(jobs[:middle], title, open_progress), *train_jobs(jobs[middle:], title, open_progress)]


def train_batch(jobs: Sequence[Job], saved: Sequence[Saved], open_progress: Callable) -> Results:
    """Train jobs that stand at the same step as one batch; return for each its score or its error."""
    torch.set_num_threads(1)  # until the steps choose
    exact.forget()  # each batch tries out its own products
    keys = [variant_key(job.config) for job in jobs]
    order = sorted(range(len(jobs)), key=lambda i: (keys.index(keys[i]), i))
    opened = {i: opened_run(jobs[i], saved[i]) for i in order}
    results: dict[int, float | Exception] = {i: run for i, run in opened.items() if isinstance(run, Exception)}
    order = [i for i in order if i not in results]
    if order:
        trained = train_runs([opened[i] for i in order], [saved[i] for i in order], open_progress)
        results |= dict(zip(order, trained, strict=True))
    return [results[i] for i in range(len(jobs))]


def train_runs(runs: Sequence[Run], saved: Sequence[Mapping[str, Any]], open_progress: Callable) -> Results:
    """Train runs, in the order of their variants, from their saved states; return for each its score or its error."""
    try:
        state = build([run.job.config for run in runs])
        counts = {name: torch.tensor([each.get(name, 0) for each in saved]) for name in COUNTED}
        if saved[0]["step"] >= 0:
            fail_those_with(checkpoint.restore(state, saved), runs)
        else:
            start(state, runs)
            counts |= fill(state)
        train(state, runs, saved[0]["step"], counts, open_progress)
    except BaseException as error:
        close(runs, error)
        raise
    return [run.result for run in runs]


def fail_those_with(problems: Sequence[str], runs: Sequence[Run]) -> None:
    """End the runs that have a problem, and only these."""
    for run, problem in zip(runs, problems, strict=True):
        if problem:
            run.fail(RunFailed(problem))


def start(state: TrainState, runs: Sequence[Run]) -> None:
    """Put fresh runs at their starts, train who judges them; where that fails a run has failed, and only this one."""
    problems = apply_starts(state, [run.job.config for run in runs], runs[0].job.starts)
    if state.judging is not None:
        problems = [first or second for first, second in zip(problems, train_judges(state), strict=True)]
    fail_those_with(problems, runs)


def close(runs: Sequence[Run], error: BaseException) -> None:
    """Close the runs that an error of the whole batch, or the user, has interrupted."""
    by_user = not isinstance(error, Exception)
    halved = is_out_of_memory(error) and len(runs) > 1
    for run in runs:
        if run.alive:
            run.error = RuntimeError("interrupted by the user") if by_user else error
            run.finish("interrupted" if by_user or halved else "failed")


def train(state: TrainState, runs: Sequence[Run], done: int, counts: Row, open_progress: Callable) -> None:
    """Run the loop from after step ``done``: step, and now and then measure, evaluate, record, save.

    ``counts`` are the tokens and completions that each run has sampled so far and the verdicts about them; they are
    counted on in place.
    """
    config = runs[0].job.config
    clock = Clock(runs[0].last.get("time/total", 0.0))
    threads = Threads(len(runs), config.threads)
    held_out = config.eval.model_dump(exclude={"every"})
    if done < 0:
        record(state, runs, 0, evaluate(state, 0, **held_out), counts, clock)
        write_samples(state, runs, 0)
    with open_progress([run.job for run in runs], config.steps) as progress, Interrupt() as interrupt:
        for step in range(max(done, 0) + 1, config.steps + 1):
            evaluating = step % config.eval.every == 0 or step == config.steps
            measuring = evaluating or step % config.log_every == 0
            row = threads.run(step, train_step, state, step, measuring)
            for name in COUNTED:
                counts[name] += row.pop(name).cpu()
            if measuring:
                row |= evaluate(state, step, **held_out) if evaluating else {}
                record(state, runs, step, row, counts, clock)
                progress.update(step, [run.alive for run in runs], row["reward/mean"].tolist())
            write_samples(state, runs, step)
            stopping = interrupt.requested  # asked once: a signal from here on is for the next step, which saves
            if step % config.checkpoint_every == 0 or step == config.steps or stopping:
                save(state, runs, step, counts)
            if not any(run.alive for run in runs):
                break
            if stopping and step < config.steps:
                raise KeyboardInterrupt
    if said := exact.paths_taken():
        LOG.info(said)
    finish(state, runs)
    if interrupt.requested:  # in the last step: nothing else is to begin
        raise KeyboardInterrupt


def finish(state: TrainState, runs: Sequence[Run]) -> None:
    """End the runs that are alive after their last step: completed, or diverged in it, which no row shows."""
    for run, problem in zip(runs, blown_up(state), strict=True):
        if run.alive and problem:
            run.fail(FloatingPointError(f"diverged in the last update: {problem}"), "diverged")
        elif run.alive:
            run.finish("completed")


def blown_up(state: TrainState) -> list[str]:
    """Say for each run which of its networks has weights that are no numbers, else ""."""
    problems = [""] * len(state.seeds)
    for name, network in state.networks.items():
        trained = network.module.parameters() if network.optimizer is not None else ()
        for weights in trained:
            for replica in torch.nonzero(~weights.isfinite().flatten(1).all(1)).flatten().tolist():
                problems[replica] = f"weights of the {name} are not finite"
    return problems


def write_samples(state: TrainState, runs: Sequence[Run], step: int) -> None:
    """At the moments for it, write a few completions for every run that is alive."""
    if step not in moments(runs[0].job.config.steps):
        return
    for run, rows in zip(runs, samples(state, step), strict=True):
        if run.alive:
            with run.writing(SAMPLES_FILE):
                run.recorder.write_samples(rows)


def save(state: TrainState, runs: Sequence[Run], step: int, counts: Row) -> None:
    """Write a checkpoint for every run that is alive; one that cannot be written ends its run."""
    alive = [(replica, run) for replica, run in enumerate(runs) if run.alive]
    sampled = [{name: int(count[replica]) for name, count in counts.items()} for replica, _ in alive]
    states = (checkpoint.content(state, replica, step, each) for (replica, _), each in zip(alive, sampled, strict=True))
    recorders = [run.recorder for _, run in alive]
    for (_, run), error in zip(alive, checkpoint.save(zip(recorders, states, strict=True)), strict=True):
        if error is not None:
            run.fail(unwritable(error, run.job.folder / checkpoint.LATEST))


def record(state: TrainState, runs: Sequence[Run], step: int, row: Row, counts: Row, clock: Clock) -> None:
    """Hand every run that is alive its column of the metrics, without those that are of other runs."""
    sampled = counts | of_judged(state, {"verdicts": counts["verdicts"]})
    progress = {f"progress/{name}": count for name, count in sampled.items()}
    columns = {name: values.tolist() for name, values in (row | progress).items()}
    elapsed = clock.elapsed()
    times = {"time/total": elapsed, "time/step": elapsed / max(step, 1)}
    for replica, (run, others) in enumerate(zip(runs, of_others(state.blocks), strict=True)):
        if run.alive:
            known = {name: column[replica] for name, column in columns.items() if name not in others}
            run.record(step, written(known) | times)
