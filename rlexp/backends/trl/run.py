"""One run of a language model, from its config to its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from datasets import Dataset

from rlexp.backends.trl import settings
from rlexp.backends.trl.evaluation import evaluate
from rlexp.backends.trl.objective import Objective, Scored
from rlexp.backends.trl.rows import step_row, text_samples
from rlexp.backends.trl.saved import Saver, continued_from
from rlexp.backends.trl.trainer import AxesTrainer
from rlexp.core.exits import RunFailed
from rlexp.core.streams import Purpose
from rlexp.language import text_task
from rlexp.language.models import load, peft_config, prompt_of
from rlexp.loop.metrics import Row
from rlexp.loop.state import Experience
from rlexp.record.files import SAMPLES_FILE
from rlexp.record.samples import moments
from rlexp.sweep.build import variant
from rlexp.sweep.engine import OpenProgress, close, show
from rlexp.sweep.interrupt import Clock, Interrupt
from rlexp.sweep.job import Job
from rlexp.sweep.machine import is_out_of_memory
from rlexp.sweep.opening import COUNTED, checkpoint_of, locked_outcome, opened_run
from rlexp.sweep.run import Run

SMALLER = "take a smaller backend.micro_batch, backend.gradient_checkpointing=true, model.dtype=bfloat16, model.lora=16"


def train_job(job: Job, title: str = "rlexp", open_progress: OpenProgress = show) -> float | Exception:
    """Train one job; return its score, or the error that ended it."""
    with ExitStack() as locks:
        ended = locked_outcome(job, locks)
        if ended is not None:
            return ended
        saved = checkpoint_of(job)
        run = saved if isinstance(saved, Exception) else opened_run(job, saved)
        if isinstance(run, Exception):
            return run
        try:
            with open_progress([job], job.config.steps, title) as progress:
                Session(run, saved, progress).train()
        except Exception as error:
            full = is_out_of_memory(error)
            close([run], RunFailed(f"{job.name} does not fit into memory: {SMALLER}") if full else error)
        except BaseException as error:
            close([run], error)
            raise
    return run.result


class Session:
    """A run while TRL trains it: what is asked of the trainer, and what is written down after each step."""

    def __init__(self, run: Run, saved: Mapping[str, Any], progress: Any):
        self.run, self.saved, self.progress = run, saved, progress
        self.config, self.done = run.job.config, saved["step"]
        self.counts = {name: saved.get(name, 0) for name in COUNTED}
        self.task = text_task(self.config.task)
        self.clock = Clock(run.last.get("time/total", 0.0))
        self.interrupt = Interrupt()
        self.trainer = self.make_trainer()
        self.saver = Saver(run, self.trainer)

    def make_trainer(self) -> AxesTrainer:
        """Load the model and hand everything to TRL."""
        config, folder = self.config, self.run.job.folder
        model, tokenizer = load(config, self.task, self.run.job.starts)
        examples = [
            example
            for step in range(1, config.steps + 1)
            for example in self.task.examples(
                config.seed, Purpose.PROMPTS, step, config.group_size.prompts, held_out=False
            )
        ]
        bound = variant(config)
        memory = self.saved.get("memory", {})
        processes = settings.processes()
        parts = settings.cut(config, processes).accumulated * processes
        group, weights = config.group_size.completions, dict(self.task.weights)
        objective = Objective(bound, weights, config.seed, group, config.minibatches, parts, dict(memory))
        reference = objective.asks_for("ref_log_probs")
        rows = [
            {"prompt": prompt_of(config.model, each.prompt), "number": number} for number, each in enumerate(examples)
        ]
        return AxesTrainer(
            objective=objective,
            task=self.task,
            examples=examples,
            schedule=settings.schedule(config),
            measures=self.measures,
            on_step=self.on_step,
            optimizer=settings.optimizer(config),
            model=model,
            processing_class=tokenizer,
            args=settings.grpo_config(config, folder / "model", processes, [*weights.values()], reference),
            train_dataset=Dataset.from_list(rows),
            peft_config=peft_config(config.model),
        )

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
            if self.run.alive:
                self.trainer.train(resume_from_checkpoint=continued_from(self.run.job.folder, self.saved))
        if self.run.alive and self.done >= self.config.steps:
            self.run.finish("completed")
        if self.interrupt.requested:
            raise KeyboardInterrupt

    def on_step(
        self, step: int, scored: Scored, experience: Experience, rows: Sequence[Row], logged: Sequence[Mapping]
    ) -> None:
        """Write down what a step was worth; save and stop where that is due."""
        self.done = step
        tokens, completions = int(scored.rollout.mask.sum()), scored.rollout.mask[..., 0].numel()
        for name, number in (("tokens", tokens), ("completions", completions)):
            self.counts[name] += number
        if self.measures(step):
            row = step_row(self.trainer.objective, scored, experience, rows, self.config.reward_range) | of_log(logged)
            row |= self.evaluation(step) if self.evaluates(step) else {}
            self.record(step, row)
            self.progress.update(step, [self.run.alive], [row["reward/mean"]])
        if step - 1 in moments(self.config.steps) or step == self.config.steps:
            self.write_samples(step - 1, scored, experience)
        stopping = self.interrupt.requested or not self.run.alive
        control = self.trainer.control
        control.should_training_stop |= stopping
        if step % self.config.checkpoint_every == 0 or step == self.config.steps or stopping:
            control.should_save = self.run.alive
            self.saver.counts = {"step": step, **self.counts}

    def evaluation(self, step: int) -> dict[str, float]:
        """Judge the model as it is on held-out prompts."""
        trainer = self.trainer
        model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
        asked = partial(prompt_of, self.config.model)
        return evaluate(model, trainer.processing_class, self.task, self.config, step, asked)

    def record(self, step: int, row: Mapping[str, float]) -> None:
        """Write a row with how far the run has come."""
        elapsed = self.clock.elapsed()
        progress = {f"progress/{name}": self.counts[name] for name in ("tokens", "completions")}
        self.run.record(step, {**row, **progress, "time/total": elapsed, "time/step": elapsed / max(step, 1)})

    def write_samples(self, step: int, scored: Scored, experience: Experience) -> None:
        """Keep a few completions as text."""
        tokenizer, rollout = self.trainer.processing_class, scored.rollout
        ids = [
            tokens[present].tolist()
            for tokens, present in zip(rollout.completions[0].flatten(0, 1), rollout.mask[0].flatten(0, 1), strict=True)
        ]
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        first = step * self.config.group_size.prompts
        prompts = [example.prompt for example in self.trainer.examples[first : first + len(ids)]]
        with self.run.writing(SAMPLES_FILE):
            self.run.recorder.write_samples([*text_samples(scored, experience, step, prompts, texts)])


def of_log(logged: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What Transformers says of the updates of a step: mean norm of the gradient, mean learning rate."""
    names = {"grad_norm": "optim/grad_norm", "learning_rate": "optim/lr"}
    found = {ours: [row[name] for row in logged if name in row] for name, ours in names.items()}
    return {name: sum(values) / len(values) for name, values in found.items() if values}
