"""One run of a language model, from its config to its folder, with TRL's checkpoints in it.

``checkpoint.pt`` is what it is for every run (``record.checkpoint``): the step, what the variant remembers, how the
rows began; here without networks. In their place it names the folder that TRL wrote the model, the optimizer and the
states of random numbers to, with a digest of each file. It is written last: a folder without it does not count.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import TrainerCallback

from rlexp.backends.trl.objective import Objective, Scored
from rlexp.backends.trl.processes import rank, train_in_processes
from rlexp.backends.trl.rows import evaluate, step_row, text_samples
from rlexp.backends.trl.trainer import AxesTrainer, grpo_config, micro_batches, optimizer, schedule, world_size
from rlexp.core.exits import INTERRUPTED, RunFailed
from rlexp.core.streams import Purpose
from rlexp.language import text_task
from rlexp.language.made import load
from rlexp.language.models import language_model, quiet
from rlexp.loop.metrics import Row as Metrics
from rlexp.loop.state import Experience
from rlexp.record import checkpoint
from rlexp.record.disk import read_state
from rlexp.sweep.build import variant
from rlexp.sweep.engine import OpenProgress, Recording, Run, close, open_run, show, state_or_result
from rlexp.sweep.interrupt import Interrupt, signals_as_ctrl_c
from rlexp.sweep.job import Job, Results
from rlexp.sweep.machine import is_out_of_memory, prepare
from rlexp.sweep.training import COUNTED, Cadence, Checkpoint, Ended, Event, Row, Samples, Step, divergence

LOG = logging.getLogger(__name__)
REFERENCE = "reference"  # in a checkpoint's folder, where the reference moves
# What Transformers says of each update, by the names of docs/metrics.md: means over a step are written.
LOGGED = {"grad_norm": "optim/grad_norm", "learning_rate": "optim/lr"}
REMEDIES = "backend.micro_batch=1, backend.gradient_checkpointing=true, model.dtype=bfloat16 and model.lora=16"


def train_jobs(jobs: Sequence[Job], *shown: Any) -> Results:
    return [train_job(job, *shown) for job in jobs]


def train_job(job: Job, title: str = "rlexp", open_progress: OpenProgress = show) -> float | Exception:
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


class Session(TrainerCallback):
    """A run while TRL trains it: what is asked of the trainer, the events that come of each step, and what it saves.

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
        self.models = job.folder / "model"
        self.trainer = self.make_trainer()
        self.trainer.add_callback(self)

    def make_trainer(self) -> AxesTrainer:
        config, group = self.config, self.config.group_size
        model, tokenizer = load(config, self.task, self.job.starts)
        if not model.config._name_or_path:  # it was just made: TRL reads the reference from where the model is from
            if not rank():
                model.save_pretrained(self.models / "start")
            model.config._name_or_path = str(self.models / "start")
        prompts = partial(self.task.examples, config.seed, Purpose.PROMPTS, count=group.prompts, held_out=False)
        examples = [example for step in range(1, config.steps + 1) for example in prompts(step=step)]
        prompt_of = language_model(config.model).prompt_of
        rows = [{"prompt": prompt_of(example.prompt), "number": number} for number, example in enumerate(examples)]
        weights, processes = dict(self.task.weights), world_size()
        objective = Objective(
            variant=variant(config),
            weights=weights,
            seed=config.seed,
            group=group.completions,
            minibatches=config.minibatches,
            parts=micro_batches(config, processes)[1] * processes,
            memory=dict(self.saved.get("memory", {})),
        )
        reference = objective.requires("ref_log_probs")
        trainer = AxesTrainer(
            objective=objective,
            task=self.task,
            examples=examples,
            schedule=schedule(config),
            measures=self.cadence.measures,
            on_step=self.on_step,
            optimizer=optimizer(config),
            model=model,
            processing_class=tokenizer,
            args=grpo_config(config, self.models, processes, [*weights.values()], reference),
            train_dataset=Dataset.from_list(rows),
        )
        if trainer.reference_moves and "model" in self.saved:  # it goes on where it had come to
            from safetensors.torch import load_model

            network = trainer.accelerator.unwrap_model(trainer.ref_model)
            load_model(network, self.models / self.saved["model"]["folder"] / REFERENCE / "model.safetensors")
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
            begun = self.saved.get("model")
            self.trainer.train(resume_from_checkpoint=str(self.models / begun["folder"]) if begun else None)
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
            rows = gather_object(list(rows)) if world_size() > 1 else rows
            row = step_row(self.trainer.objective, scored, experience, rows, self.config.reward_range)
            for name, ours in LOGGED.items():
                if values := [each[name] for each in logged if name in each]:
                    row[ours] = sum(values) / len(values)
            self.take(self.row(step, row | (self.evaluation(step) if cadence.evaluates(step) else {})))
        if self.recording and (cadence.samples(step - 1) or step == self.config.steps):
            examples = self.trainer.examples[(step - 1) * self.config.group_size.prompts :]
            prompts, tokenizer = [example.prompt for example in examples], self.trainer.processing_class
            self.take(Samples(0, step - 1, [*text_samples(scored, experience, step - 1, prompts, tokenizer)]))
        self.take(Step((0,), step))
        flags = self.interrupt.requested, self.run is not None and not self.run.alive
        every = gather_object([flags]) if world_size() > 1 else [flags]
        stopping, failed = (any(column) for column in zip(*every, strict=True))  # of all processes
        control = self.trainer.control
        control.should_training_stop |= stopping or failed
        if cadence.saves(step) or stopping:
            control.should_save = not failed

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Name TRL's folder in the run's checkpoint, and remove those that neither of its two checkpoints names."""
        if self.recording is None:
            return
        folder = self.models / f"checkpoint-{state.global_step}"
        if self.trainer.reference_moves:
            self.trainer.accelerator.unwrap_model(self.trainer.ref_model).save_pretrained(folder / REFERENCE)
        memory = {name: values.detach().clone().cpu() for name, values in self.trainer.objective.memory.items()}
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        digests = {str(path.relative_to(folder)): digest_of(path) for path in files}
        model = {"folder": folder.name, "files": digests}
        saved = {"step": self.done, **self.counts, "networks": {}, "memory": memory, "model": model}
        self.recording.take(Checkpoint(0, self.done, saved))
        self.recording.save()
        if not self.recording.active:
            control.should_training_stop = True
            return
        states = [read_state(self.job.folder / name) for name in (checkpoint.LATEST, checkpoint.PREVIOUS)]
        named = {state["model"]["folder"] for state in states if state}
        for other in self.models.glob("checkpoint-*"):
            if other.name not in named:
                shutil.rmtree(other, ignore_errors=True)

    def evaluation(self, step: int) -> dict[str, float]:
        """Judge the model as it is on held-out prompts, which the processes share."""
        trainer, processes = self.trainer, world_size()
        model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
        asked = language_model(self.config.model).prompt_of
        share = slice(rank(), None, processes)
        gather = gather_object if processes > 1 else list
        return evaluate(model, trainer.processing_class, self.task, self.config, step, asked, share, gather)

    def row(self, step: int, metrics: Mapping[str, float]) -> Row:
        """Return metrics with how far the run has come."""
        progress = {f"progress/{name}": self.counts[name] for name in COUNTED if name != "verdicts"}
        return Row(0, step, {**metrics, **progress})


def digest_of(path: Path) -> str:
    """Return a checksum of a file, which need not fit into memory."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def whole_state(job: Job, locks: ExitStack) -> dict[str, Any] | float | Exception:
    """Lock the folder of a job; return the last saved state whose model is whole, or why it is not trained.

    A state whose model is damaged gives way to the one before it.
    """
    while True:
        saved = state_or_result(job, locks)
        if not isinstance(saved, dict) or "model" not in saved:
            return saved
        damaged = damage(job.folder / "model" / saved["model"]["folder"], saved["model"]["files"])
        if damaged is None:
            return saved
        LOG.warning("%s: the state before it is taken", damaged, extra={"job": job.name})
        latest, previous = job.folder / checkpoint.LATEST, job.folder / checkpoint.PREVIOUS
        os.replace(previous, latest) if previous.exists() else latest.unlink()


def damage(folder: Path, files: Mapping[str, str]) -> str | None:
    """Say which of the files of a checkpoint is not what was saved, if one is not, or lies elsewhere."""
    if ".." in folder.parts or any(".." in Path(name).parts or Path(name).is_absolute() for name in files):
        return f"{folder} is not in the run's own folder"
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            return f"{path} is missing"
        if digest_of(path) != expected:
            return f"{path} is damaged"
    return None


def main() -> None:
    """Train the job in the file that is named, as one of several processes: see ``backends.trl.processes``."""
    job, saved = pickle.loads(Path(sys.argv[1]).read_bytes())
    try:
        with signals_as_ctrl_c():
            train_locked(job, saved)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
