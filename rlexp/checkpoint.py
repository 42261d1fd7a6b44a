"""A run's state on disk: weights, reference, both moments of Adam, memory, position. Random numbers need no state.

Each run has a file of its own, so that it can be resumed alone or beside others. The file is replaced at once and the
one before it is kept; it holds tensors and numbers only and is read without executing code.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlexp.fleet import Fleet

LOG = logging.getLogger(__name__)
LATEST, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"


def save(fleet: Fleet, replica: int, folder: Path, step: int, sampled: Mapping[str, int]) -> None:
    """Write the state of one replica after ``step`` steps, and how much it has sampled."""
    state = {"step": step, **sampled, "updates": fleet.adam.updates}
    for name, tensors in stacks(fleet).items():
        state[name] = [tensor[replica].detach().clone().cpu() for tensor in tensors]
    state["memory"] = {name: tensor[replica].clone().cpu() for name, tensor in fleet.memory.items()}
    draft = folder / (LATEST + ".tmp")
    torch.save(state, draft)
    if (folder / LATEST).exists():
        os.replace(folder / LATEST, folder / PREVIOUS)
    os.replace(draft, folder / LATEST)


def load(folder: Path) -> dict[str, Any] | None:
    """Read the last state that is whole, with a warning for one that is not; None if there is none."""
    for path in filter(Path.exists, (folder / LATEST, folder / PREVIOUS)):
        try:
            return torch.load(path, weights_only=True)
        except Exception:  # a damaged file makes the unpickler raise anything
            LOG.warning("%s is damaged: the run goes on from before it", path)
    return None


@torch.no_grad()
def restore(fleet: Fleet, states: Sequence[Mapping[str, Any]]) -> None:
    """Put saved states, one a replica and all after the same number of updates, into a fresh fleet.

    A memory that a run was saved without is one that only its new neighbours have: it stays empty.
    """
    for name, tensors in stacks(fleet).items():
        for place, tensor in enumerate(tensors):
            tensor.copy_(torch.stack([state[name][place] for state in states]))
    for name, tensor in fleet.memory.items():
        for replica, state in enumerate(states):
            tensor[replica] = state["memory"].get(name, tensor[replica])
    fleet.adam.updates = states[0]["updates"]


def stacks(fleet: Fleet) -> dict[str, list[Tensor]]:
    """Everything that changes while a fleet trains, and the reference, as stacks ``[R, ...]``."""
    return {
        "policy": fleet.adam.parameters,
        "reference": list(fleet.reference.parameters()),
        "first_moments": [fleet.adam.first],
        "second_moments": [fleet.adam.second],
    }
