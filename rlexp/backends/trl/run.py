"""One run of a language model, from its config to its folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset

from rlexp.backends.trl import settings
from rlexp.backends.trl.evaluation import evaluate
from rlexp.backends.trl.objective import Objective, Scored
from rlexp.backends.trl.processes import launched, rank
from rlexp.backends.trl.rows import step_row, text_samples
from rlexp.backends.trl.saved import Saver, restore_reference, whole_state
from rlexp.backends.trl.trainer import AxesTrainer
from rlexp.core.exits import RunFailed
from rlexp.core.streams import Purpose
from rlexp.language import text_task
from rlexp.language.made import load
from rlexp.language.pretrained import prompt_of, quiet
from rlexp.loop.metrics import Row
from rlexp.loop.state import Experience
from rlexp.record.files import SAMPLES_FILE
from rlexp.record.samples import moments
from rlexp.sweep.build import variant
from rlexp.sweep.engine import OpenProgress, close, show
from rlexp.sweep.interrupt import Clock, Interrupt
from rlexp.sweep.job import Job, Results
from rlexp.sweep.machine import is_out_of_memory, prepare
from rlexp.sweep.opening import COUNTED, locked_outcome, opened_run
from rlexp.sweep.run import Run

REMEDIES = "backend.micro_batch=1, backend.gradient_checkpointing=true, model.dtype=bfloat16 and model.lora=16"


def train_jobs(jobs: Sequence[Job], *shown: Any) -> Results:
    """Train jobs one after another, each as ``train_job`` does."""
    return [train_job(job, *shown) for job in jobs]


def train_job(job: Job, title: str = "rlexp", open_progress: OpenProgress = show) -> float | Exception:
    """Train one job; return its score, or the error that ended it."""
    with ExitStack() as locks:
        ended = locked_outcome(job, locks)
        if ended is not None:
            return ended
        saved = whole_state(job)
        if isinstance(saved, Exception):
            return saved
        if job.config.backend.accelerate is not None:
            return launched(job, saved)
        with open_progress([job], job.config.steps, title) as progress:
            return train_locked(job, saved, progress)


def train_locked(job: Job, saved: Mapping[str, Any], progress: Any = None) -> float | Exception:
    """Train a job from its saved state; its folder is this process's, or that of the first of several."""
    run = None if rank() else opened_run(job, saved)
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
    """A run while TRL trains it: what is asked of the trainer, and what is written down after each step.

    Where several processes train a run, the first has ``run`` and the others None: they write nothing.
    """

    def __init__(self, job: Job, run: Run | None, saved: Mapping[str, Any], progress: Any):
        self.job, self.run, self.saved, self.progress = job, run, saved, progress
        self.config, self.done = job.config, saved["step"]
        self.counts = {name: saved.get(name, 0) for name in COUNTED}
        self.task = text_task(self.config.task)
        self.clock = Clock(run.last.get("time/total", 0.0) if run else 0.0)
        self.interrupt = Interrupt()
        prepare(self.config)
        torch.set_num_threads(self.config.threads or 1)  # with more the same run has other bits
        self.trainer = self.make_trainer()
        self.saver = Saver(job.folder, run, self.trainer)

    def make_trainer(self) -> AxesTrainer:
        """Load the model and hand everything to TRL."""
        config, group = self.config, self.config.group_size
        model, tokenizer = load(config, self.task, self.job.starts)
        on_disk(model, self.job.folder / "model" / "start")
        prompts = partial(self.task.examples, config.seed, Purpose.PROMPTS, count=group.prompts, held_out=False)
        examples = [example for step in range(1, config.steps + 1) for example in prompts(step=step)]
        asked = [prompt_of(config.model, example.prompt) for example in examples]
        rows = [{"prompt": prompt, "number": number} for number, prompt in enumerate(asked)]
        weights, processes = dict(self.task.weights), settings.processes()
        objective = Objective(
            variant=variant(config),
            weights=weights,
            seed=config.seed,
            group=group.completions,
            minibatches=config.minibatches,
            parts=settings.cut(config, processes).accumulated * processes,
            memory=dict(self.saved.get("memory", {})),
        )
        reference = objective.asks_for("ref_log_probs")
        folder = self.job.folder / "model"
        trainer = AxesTrainer(
            objective=objective,
            task=self.task,
            examples=examples,
            schedule=settings.schedule(config),
            measures=self.measures,
            on_step=self.on_step,
            optimizer=settings.optimizer(config),
            model=model,
            processing_class=tokenizer,
            args=settings.grpo_config(config, folder, processes, [*weights.values()], reference),
            train_dataset=Dataset.from_list(rows),
        )
        restore_reference(trainer, folder, self.saved)
        return trainer

    def measures(self, step: int) -> bool:
        """Whether a step is written down."""
        return step % self.config.log_every == 0 or self.evaluates(step)

    def evaluates(self, step: int) -> bool:
        """Whether the model is evaluated after a step."""
        return step % self.config.eval.every == 0 or step == self.config.steps

    def train(self) -> None:
        """Train to the end, or to the step in which somebody interrupts."""
        with self.interrupt:
            if self.done < 0:
                self.record(0, self.evaluation(0))
            begun = "model" in self.saved
            folder = self.job.folder / "model" / self.saved["model"]["folder"] if begun else None
            self.trainer.train(resume_from_checkpoint=str(folder) if begun else None)
        if self.run and self.run.alive and self.done >= self.config.steps:
            self.run.finish("completed")
        if self.interrupt.requested:
            raise KeyboardInterrupt

    def on_step(
        self, step: int, scored: Scored, experience: Experience, rows: Sequence[Row], logged: Sequence[Mapping]
    ) -> None:
        """Write down what a step was worth; save and stop where that is due."""
        self.done = step
        self.counts["tokens"] += int(scored.rollout.mask.sum())
        self.counts["completions"] += scored.rollout.mask[..., 0].numel()
        if self.measures(step):
            rows = gather_object(list(rows)) if settings.processes() > 1 else rows
            row = step_row(self.trainer.objective, scored, experience, rows, self.config.reward_range) | of_log(logged)
            row |= self.evaluation(step) if self.evaluates(step) else {}
            self.record(step, row)
        if step - 1 in moments(self.config.steps) or step == self.config.steps:
            self.write_samples(step - 1, scored, experience)
        failed = self.run is not None and not self.run.alive
        stopping, failed = self.anywhere(self.interrupt.requested, failed)
        control = self.trainer.control
        control.should_training_stop |= stopping or failed
        if step % self.config.checkpoint_every == 0 or step == self.config.steps or stopping:
            control.should_save = not failed
            self.saver.counts = {"step": step, **self.counts}

    def anywhere(self, *flags: bool) -> list[bool]:
        """Whether each holds in any of the processes."""
        every = gather_object([flags]) if settings.processes() > 1 else [flags]
        return [any(column) for column in zip(*every, strict=True)]

    def evaluation(self, step: int) -> dict[str, float]:
        """Judge the model as it is on held-out prompts, which the processes share."""
        trainer, processes = self.trainer, settings.processes()
        model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
        asked = partial(prompt_of, self.config.model)
        share = slice(rank(), None, processes)
        gather = gather_object if processes > 1 else list
        return evaluate(model, trainer.processing_class, self.task, self.config, step, asked, share, gather)

    def record(self, step: int, row: Mapping[str, float]) -> None:
        """Write a row with how far the run has come."""
        if self.run is None:
            return
        elapsed = self.clock.elapsed()
        progress = {f"progress/{name}": self.counts[name] for name in COUNTED if name != "verdicts"}
        self.run.record(step, {**row, **progress, "time/total": elapsed, "time/step": elapsed / max(step, 1)})
        if self.progress and step:
            self.progress.update(step, [self.run.alive], [row["reward/mean"]])

    def write_samples(self, step: int, scored: Scored, experience: Experience) -> None:
        """Keep a few completions as text."""
        if self.run is None or not self.run.alive:
            return
        completions, mask = scored.rollout.completions[0].flatten(0, 1), scored.rollout.mask[0].flatten(0, 1)
        ids = [tokens[present].tolist() for tokens, present in zip(completions, mask, strict=True)]
        texts = self.trainer.processing_class.batch_decode(ids, skip_special_tokens=True)
        first = step * self.config.group_size.prompts
        prompts = [example.prompt for example in self.trainer.examples[first : first + len(ids)]]
        with self.run.writing(SAMPLES_FILE):
            self.run.recorder.write_samples([*text_samples(scored, experience, step, prompts, texts)])


def on_disk(model: Any, folder: Path) -> None:
    """Write a model that was just made to a folder: TRL reads the reference from where the model is from."""
    if not model.config._name_or_path and not rank():
        model.save_pretrained(folder)
    model.config._name_or_path = model.config._name_or_path or str(folder)


def of_log(logged: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return what Transformers says of the updates of a step: mean norm of the gradient, mean learning rate."""
    names = {"grad_norm": "optim/grad_norm", "learning_rate": "optim/lr"}
    found = {ours: [row[name] for row in logged if name in row] for name, ours in names.items()}
    return {name: sum(values) / len(values) for name, values in found.items() if values}
