"""Training a bucket: the jobs of a sweep that fit into one batch, from their configs to their folders."""

from __future__ import annotations

import copy
import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlexp import (
    agg,
    checkpoint,
    clip,
    filter,
    kl,
    kl_control,
    memory,
    mismatch,
    norm,
    reference,
    sampler,
    shaping,
    teacher,
)
from rlexp.begin import begin
from rlexp.choose import choose
from rlexp.config import Config
from rlexp.evaluate import evaluate
from rlexp.exits import RunFailed
from rlexp.fleet import Fleet, Variant
from rlexp.interrupt import Clock, Interrupt
from rlexp.loggers import LOGGERS
from rlexp.machine import bytes_a_run, compiled, prepare
from rlexp.metrics import Row
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.progress import Progress
from rlexp.recorder import Recorder, collapsed, score
from rlexp.resume import outcome, restarts
from rlexp.rollout import distributions, sample
from rlexp.samples import moments, samples
from rlexp.step import train_step
from rlexp.tasks import TASKS
from rlexp.teachers import teachers
from rlexp.threads import Threads
from rlexp.update import Adam, Schedule

LOG = logging.getLogger(__name__)
LOSS = ("clip", "agg", "kl", "kl_control", "reference", "mismatch", "entropy_coef")
VARIANT = ("shaping", "filter", "norm", "teacher", "sampler", *LOSS)
REPLICA = ("seed", "lr", "lr_final", "warmup_steps", "grad_clip", "temperature", "start")
OUTSIDE = ("logger", "score", "baseline", "study", "resume")
SAMPLED = ("tokens", "completions")
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


def bucket_key(config: Config) -> str:
    """What jobs must share to train as one batch: everything that fixes tensor shapes or the course of the loop."""
    return json.dumps(config.model_dump(mode="json", exclude={*VARIANT, *REPLICA, *OUTSIDE}), sort_keys=True)


def variant_key(config: Config) -> str:
    """What replicas must share to go through the objective together."""
    return json.dumps(config.model_dump(mode="json", include=set(VARIANT)), sort_keys=True)


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


def build(configs: Sequence[Config]) -> Fleet:
    """Make the fleet of configs that share a bucket and are ordered by variant."""
    first, seeds = configs[0], [config.seed for config in configs]
    device = prepare(first)
    task = choose(TASKS, first.task)()
    policy = choose(MODELS, first.model)(Init(seeds), task).to(device)
    total = first.steps * first.inner_steps * first.minibatches
    variants = blocks(configs)
    rates = (own(configs, key, device) for key in ("lr", "warmup_steps", "lr_final"))
    return Fleet(
        task=task,
        policy=policy,
        reference=copy.deepcopy(policy).requires_grad_(False),
        teacher=teachers(policy, configs),
        adam=Adam(policy, Schedule(*rates, total), own(configs, "grad_clip", device)),
        blocks=variants,
        seeds=seeds,
        temperature=own(configs, "temperature", device),
        memory={name: values.to(device) for name, values in memory.begin(variants).items()},
        prompts=first.group_size.prompts,
        group=first.group_size.completions,
        inner_steps=first.inner_steps,
        minibatches=first.minibatches,
        sample=compiled(sample, first),
        distributions=compiled(distributions, first),
    )


def most_runs(config: Config, memory: float) -> int:
    """How many runs of a config one batch can hold in so many bytes, at least 1."""
    task = choose(TASKS, config.task)()
    policy = choose(MODELS, config.model)(Init([config.seed]), task)
    return max(1, int(memory / bytes_a_run(policy, config, task.prompt_length, task.cap)))


def own(configs: Sequence[Config], key: str, device: torch.device) -> Tensor:
    """Each run's own number, ``[R]``; null is infinity."""
    numbers = (getattr(config, key) for config in configs)
    return torch.tensor([math.inf if n is None else n for n in numbers], dtype=torch.float32, device=device)


def blocks(configs: Sequence[Config]) -> list[tuple[Variant, int]]:
    """Return the variants in order and how many replicas each owns."""
    keys = [variant_key(config) for config in configs]
    return [(variant(configs[keys.index(key)]), keys.count(key)) for key in dict.fromkeys(keys)]


def variant(config: Config) -> Variant:
    """Bind the axis functions that a config chooses."""
    weight = {config.kl.place: config.kl.coef}
    return Variant(
        shaping=choose(shaping.FUNCTIONS, config.shaping),
        filter_loss=choose(filter.FUNCTIONS, config.filter.loss),
        filter_statistics=choose(filter.FUNCTIONS, config.filter.statistics),
        refill=choose(filter.GROUPS, config.filter.refill),
        rounds=config.filter.refill.rounds,
        norm=choose(norm.FUNCTIONS, config.norm),
        teacher=choose(teacher.FUNCTIONS, config.teacher),
        clip=choose(clip.FUNCTIONS, config.clip),
        agg=choose(agg.FUNCTIONS, config.agg),
        kl=choose(kl.FUNCTIONS, config.kl),
        follow=choose(reference.FUNCTIONS, config.reference),
        memories=memories(config),
        sampler=choose(sampler.FUNCTIONS, config.sampler),
        mismatch=choose(mismatch.FUNCTIONS, config.mismatch),
        inexact=config.sampler.name != "exact",
        kl_in_loss=weight.get("loss", 0.0),
        kl_in_reward=weight.get("reward", 0.0),
        entropy_bonus=config.entropy_coef,
    )


def memories(config: Config) -> dict[str, memory.Memory]:
    """Return what a config's choices remember from step to step."""
    return memory.chosen(norm.MEMORIES, config.norm) | memory.chosen(kl_control.MEMORIES, config.kl_control)


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
