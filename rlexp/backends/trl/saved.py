"""TRL's checkpoints in the folder of a run: which is the last one that is whole, and what belongs to it.

``checkpoint.pt`` is what it is for every run (``record.checkpoint``): the step, what the variant remembers, how the
rows began; here without networks. In their place it names the folder that TRL wrote the model, the optimizer and the
states of random numbers to, with a digest of each file. It is written last: a folder without it does not count.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from rlexp.record import checkpoint
from rlexp.record.disk import read_state
from rlexp.sweep.engine import state_or_result
from rlexp.sweep.events import Checkpoint
from rlexp.sweep.job import Job
from rlexp.sweep.recording import Recording

LOG = logging.getLogger(__name__)
REFERENCE = "reference"  # in a checkpoint's folder, where the reference moves


class Saver(TrainerCallback):
    """Finishes what TRL has saved; ``counts`` are the step, and how much has been sampled by then."""

    def __init__(self, folder: Path, recording: Recording | None, trainer: Any):
        self.folder, self.recording, self.trainer, self.counts = folder, recording, trainer, {}
        trainer.add_callback(self)

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Name the folder in the run's checkpoint, and remove those that neither of its two checkpoints names."""
        if self.recording is None:
            return
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self.trainer.reference_moves:
            self.trainer.accelerator.unwrap_model(self.trainer.ref_model).save_pretrained(folder / REFERENCE)
        memory = {name: values.detach().clone().cpu() for name, values in self.trainer.objective.memory.items()}
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        digests = {str(path.relative_to(folder)): digest_of(path) for path in files}
        model = {"folder": folder.name, "files": digests}
        saved = {**self.counts, "networks": {}, "memory": memory, "model": model}
        self.recording.take(Checkpoint(0, saved["step"], saved))
        self.recording.save()
        if not self.recording.active:
            control.should_training_stop = True
            return
        states = [read_state(self.folder / name) for name in (checkpoint.LATEST, checkpoint.PREVIOUS)]
        named = {state["model"]["folder"] for state in states if state}
        for other in folder.parent.glob("checkpoint-*"):
            if other.name not in named:
                shutil.rmtree(other, ignore_errors=True)


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


def restore_reference(trainer: Any, models: Path, saved: Mapping[str, Any]) -> None:
    """Put a reference that moves where it had come to."""
    if not trainer.reference_moves or "model" not in saved:
        return
    from safetensors.torch import load_model

    network = trainer.accelerator.unwrap_model(trainer.ref_model)
    load_model(network, models / saved["model"]["folder"] / REFERENCE / "model.safetensors")
