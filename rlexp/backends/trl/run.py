"""One run of a language model, from its config to its folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset

from rlexp.backends.trl import settings
from rlexp.backends.trl.evaluation import evaluate
from rlexp.backends.trl.objective import Objective, Scored
from rlexp.backends.trl.processes import rank, train_in_processes
from rlexp.backends.trl.rows import step_row, text_samples
from rlexp.backends.trl.saved import Saver, restore_reference, whole_state
from rlexp.backends.trl.trainer import AxesTrainer
from rlexp.core.exits import RunFailed
from rlexp.core.streams import Purpose
from rlexp.language import text_task
from rlexp.language.made import load
from rlexp.language.models import language_model, quiet
from rlexp.loop.metrics import Row as Metrics
from rlexp.loop.state import Experience
from rlexp.sweep.build import variant
from rlexp.sweep.engine import OpenProgress, close, open_run, show
from rlexp.sweep.events import COUNTED, Cadence, Ended, Event, Row, Samples, Step, divergence
from rlexp.sweep.interrupt import Interrupt
from rlexp.sweep.job import Job, Results
from rlexp.sweep.machine import is_out_of_memory, prepare
from rlexp.sweep.recording import Recording, Run

# What Transformers says of each update, by the names of docs/metrics.md: means over a step are written.
LOGGED = {"grad_norm": "optim/grad_norm", "learning_rate": "optim/lr"}
REMEDIES = "backend.micro_batch=1, backend.gradient_checkpointing=true, model.dtype=bfloat16 and model.lora=16"


def train_jobs(jobs: Sequence[Job], *shown: Any) -> Results:
    """Train jobs one after another, each as ``train_job`` does."""
    return [train_job(job, *shown) for job in jobs]


def train_job(job: Job, title: str = "rlexp", open_progress: OpenProgress = show) -> float | Exception:
    """Train one job; return its score, or the error that ended it."""
    with ExitStack() as locks:
        saved = whole_state(job, locks)
        if not isinstance(saved, dict):
            return saved
        if job.config.backend.accelerate is not None:
            return train_in_processes(job, saved)
        with open_progress([job], job.config.steps, title) as progress:
            return train_locked(job, saved, progress)


def train_locked(job: Job, saved: Mapping[str, Any], progress: Any = None) -> float | Exception:
    """Train a job from its saved state; its folder is this process's, or that of the first of several."""
    run = None if rank() else open_run(job, saved)
    if isinstance(run, Exception):
        return run
    try:
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of Transformers, about names that TRL uses
            Session(job, run, saved, progress).train()
    except BaseException as error:
        full = is_out_of_memory(error)
        if run:
            close([run], RunFailed(f"{job.name} does not fit into memory; less take {REMEDIES}") if full else error)
        if not isinstance(error, Exception):
            raise
    return run.result if run else 0.0


class Session:
    """A run while TRL trains it: what is asked of the trainer, and the events that come of each step.

    Where several processes train a run, the first has ``run`` and the others None: their events are dropped.
    """

    def __init__(self, job: Job, run: Run | None, saved: Mapping[str, Any], progress: Any):
        self.job, self.run, self.saved = job, run, saved
        self.recording = run and Recording({0: run}, progress)
        self.config, self.done = job.config, saved["step"]
        self.cadence = Cadence(job.config)
        self.counts = {name: saved.get(name, 0) for name in COUNTED}
        self.task = text_task(self.config.task)
        self.take(Step((0,), self.done))
        self.interrupt = Interrupt()
        prepare(self.config)
        torch.set_num_threads(self.config.threads or 1)  # with more the same run has other bits
        self.trainer = self.make_trainer()
        self.saver = Saver(job.folder, self.recording, self.trainer)

    def make_trainer(self) -> AxesTrainer:
        """Load the model and hand everything to TRL."""
        config, group = self.config, self.config.group_size
        model, tokenizer = load(config, self.task, self.job.starts)
        folder = self.job.folder / "model"
        if not model.config._name_or_path:  # it was just made: TRL reads the reference from where the model is from
            if not rank():
                model.save_pretrained(folder / "start")
            model.config._name_or_path = str(folder / "start")
        prompts = partial(self.task.examples, config.seed, Purpose.PROMPTS, count=group.prompts, held_out=False)
        examples = [example for step in range(1, config.steps + 1) for example in prompts(step=step)]
        prompt_of = language_model(config.model).prompt_of
        rows = [{"prompt": prompt_of(example.prompt), "number": number} for number, example in enumerate(examples)]
        weights, processes = dict(self.task.weights), settings.world_size()
        objective = Objective(
            variant=variant(config),
            weights=weights,
            seed=config.seed,
            group=group.completions,
            minibatches=config.minibatches,
            parts=settings.micro_batches(config, processes).accumulated * processes,
            memory=dict(self.saved.get("memory", {})),
        )
        reference = objective.requires("ref_log_probs")
        trainer = AxesTrainer(
            objective=objective,
            task=self.task,
            examples=examples,
            schedule=settings.schedule(config),
            measures=self.cadence.measures,
            on_step=self.on_step,
            optimizer=settings.optimizer(config),
            model=model,
            processing_class=tokenizer,
            args=settings.grpo_config(config, folder, processes, [*weights.values()], reference),
            train_dataset=Dataset.from_list(rows),
        )
        restore_reference(trainer, folder, self.saved)
        return trainer

    def take(self, event: Event) -> None:
        """Hand an event to the recorder of the run; a row that shows that it has diverged ends it."""
        if not self.recording:
            return
        self.recording.take(event)
        if isinstance(event, Row) and (error := divergence(event)):
            self.recording.take(Ended(0, event.step, "diverged", error))

    def train(self) -> None:
        """Train to the end, or to the step in which it is interrupted."""
        with self.interrupt:
            if self.done < 0:
                self.take(self.row(0, self.evaluation(0)))
            begun = "model" in self.saved
            folder = self.job.folder / "model" / self.saved["model"]["folder"] if begun else None
            self.trainer.train(resume_from_checkpoint=str(folder) if begun else None)
        if self.run and self.run.alive and self.done >= self.config.steps:
            self.take(Ended(0, self.done, "completed"))
        if self.interrupt.requested:
            raise KeyboardInterrupt

    def on_step(
        self, step: int, scored: Scored, experience: Experience, rows: Sequence[Metrics], logged: Sequence[Mapping]
    ) -> None:
        """Say what a step was worth; save and stop where that is due."""
        cadence, self.done = self.cadence, step
        self.counts["tokens"] += int(scored.rollout.mask.sum())
        self.counts["completions"] += scored.rollout.mask[..., 0].numel()
        if cadence.measures(step):
            rows = gather_object(list(rows)) if settings.world_size() > 1 else rows
            row = step_row(self.trainer.objective, scored, experience, rows, self.config.reward_range)
            for name, ours in LOGGED.items():
                if values := [each[name] for each in logged if name in each]:
                    row[ours] = sum(values) / len(values)
            self.take(self.row(step, row | (self.evaluation(step) if cadence.evaluates(step) else {})))
        if self.recording and (cadence.samples(step - 1) or step == self.config.steps):
            self.take(self.samples(step - 1, scored, experience))
        self.take(Step((0,), step))
        failed = self.run is not None and not self.run.alive
        stopping, failed = self.any_process(self.interrupt.requested, failed)
        control = self.trainer.control
        control.should_training_stop |= stopping or failed
        if cadence.saves(step) or stopping:
            control.should_save = not failed
            self.saver.counts = {"step": step, **self.counts}

    def any_process(self, *flags: bool) -> list[bool]:
        """Whether each holds in any of the processes."""
        every = gather_object([flags]) if settings.world_size() > 1 else [flags]
        return [any(column) for column in zip(*every, strict=True)]

    def evaluation(self, step: int) -> dict[str, float]:
        """Judge the model as it is on held-out prompts, which the processes share."""
        trainer, processes = self.trainer, settings.world_size()
        model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
        asked = language_model(self.config.model).prompt_of
        share = slice(rank(), None, processes)
        gather = gather_object if processes > 1 else list
        return evaluate(model, trainer.processing_class, self.task, self.config, step, asked, share, gather)

    def row(self, step: int, metrics: Mapping[str, float]) -> Row:
        """Return metrics with how far the run has come."""
        progress = {f"progress/{name}": self.counts[name] for name in COUNTED if name != "verdicts"}
        return Row(0, step, {**metrics, **progress})

    def samples(self, step: int, scored: Scored, experience: Experience) -> Samples:
        """Return a few completions as text."""
        completions, mask = scored.rollout.completions[0].flatten(0, 1), scored.rollout.mask[0].flatten(0, 1)
        ids = [tokens[present].tolist() for tokens, present in zip(completions, mask, strict=True)]
        texts = self.trainer.processing_class.batch_decode(ids, skip_special_tokens=True)
        first = step * self.config.group_size.prompts
        prompts = [example.prompt for example in self.trainer.examples[first : first + len(ids)]]
        return Samples(0, step, [*text_samples(scored, experience, step, prompts, texts)])
