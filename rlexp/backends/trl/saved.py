"""TRL's checkpoints in the folder of a run: which is the last one that is whole, and what belongs to it.

``checkpoint.pt`` is what it is for every run (``record.checkpoint``): the step, what the variant remembers, how the
rows began; here without networks. In their place it names the folder that TRL wrote the model, the optimiser and the
states of random numbers to, with a digest of each file. It is written last: a folder without it does not count.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from rlexp.core.exits import RunFailed
from rlexp.record import checkpoint
from rlexp.record.disk.seals import read_state
from rlexp.record.disk.troubles import unwritable
from rlexp.sweep.run import Run


class Saver(TrainerCallback):
    """Finishes what TRL has saved; ``counts`` are the step, and how much has been sampled by then."""

    def __init__(self, run: Run, trainer: Any):
        self.run, self.trainer, self.counts = run, trainer, {}
        trainer.add_callback(self)

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Name the folder in the run's checkpoint, and remove those that no checkpoint names."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        saved = {**self.counts, "networks": {}, "memory": memory_of(self.trainer), "model": described(folder)}
        (error,) = checkpoint.save([(self.run.recorder, saved)])
        if error is not None:
            self.run.fail(unwritable(error, self.run.job.folder / checkpoint.LATEST))
            control.should_training_stop = True
            return
        remove_others(self.run.job.folder, folder.parent)


def memory_of(trainer: Any) -> dict[str, Any]:
    """Return what the variant remembers, as it can be saved."""
    return {name: values.detach().clone().cpu() for name, values in trainer.objective.memory.items()}


def described(folder: Path) -> dict[str, Any]:
    """Return the name of a folder and the digests of its files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {"folder": folder.name, "files": {str(path.relative_to(folder)): digest_of(path) for path in files}}


def digest_of(path: Path) -> str:
    """Return a checksum of a file, which need not fit into memory."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def remove_others(run: Path, models: Path) -> None:
    """Remove TRL's folders that neither of the run's two checkpoints names."""
    states = [read_state(run / name) for name in (checkpoint.LATEST, checkpoint.PREVIOUS)]
    named = {state["model"]["folder"] for state in states if state}
    for folder in models.glob("checkpoint-*"):
        if folder.name not in named:
            shutil.rmtree(folder, ignore_errors=True)


def continued_from(run: Path, saved: Mapping[str, Any]) -> str | None:
    """Return the folder that TRL goes on from, None for the beginning; RunFailed if a file of it is damaged."""
    if "model" not in saved:
        return None
    folder = run / "model" / saved["model"]["folder"]
    for name, expected in saved["model"]["files"].items():
        path = folder / name
        if not path.is_file() or digest_of(path) != expected:
            state = "is damaged" if path.is_file() else "is missing"
            raise RunFailed(f"{path} {state}: remove {run} and start the run again")
    return str(folder)
