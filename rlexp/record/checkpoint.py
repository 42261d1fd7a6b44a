"""A run's state on disk: its networks by name, memory, position. Random numbers need no state.

Each run has a file of its own, so that it can be resumed alone or beside others. The file is replaced at once and the
one before it is kept; it holds tensors and numbers only and is read without executing code:

    step, tokens, completions, verdicts
    networks    name -> parameters: name -> tensor; optimizer, where there is one: updates, moments: name -> tensor
    memory      name -> tensor
    buffer      name -> tensor, where the data are not fresh
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rlexp.core.exits import RunFailed
from rlexp.loop.state import Network, TrainState

LOG = logging.getLogger(__name__)
LATEST, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"
Saved = Mapping[str, Any]


def save(state: TrainState, replica: int, folder: Path, step: int, sampled: Mapping[str, int]) -> None:
    """Write the state of one replica after ``step`` steps, and how much it has sampled."""
    networks = {name: network for name, network in state.networks.items() if has(network, replica)}
    saved = {
        "step": step,
        **sampled,
        "networks": {name: saved_network(network, replica) for name, network in networks.items()},
        "memory": {name: row(tensor, replica) for name, tensor in state.memory.items()},
    }
    if state.buffer is not None:
        saved["buffer"] = {name: row(tensor, replica) for name, tensor in state.buffer._asdict().items()}
    draft = folder / (LATEST + ".tmp")
    torch.save(saved, draft)
    if (folder / LATEST).exists():
        os.replace(folder / LATEST, folder / PREVIOUS)
    os.replace(draft, folder / LATEST)


def saved_network(network: Network, replica: int) -> dict[str, Any]:
    """Return one replica's parameters by name, and what its optimiser knows."""
    saved = {"parameters": {name: row(values, replica) for name, values in network.module.named_parameters()}}
    if network.optimizer is not None:
        moments = {name: copied(values) for name, values in network.optimizer.kept_of(replica).items()}
        saved["optimizer"] = {"updates": network.optimizer.updates, "moments": moments}
    return saved


def load(folder: Path) -> dict[str, Any] | None:
    """Read the last state that is whole, with a warning for one that is not; None if there is none."""
    for path in filter(Path.exists, (folder / LATEST, folder / PREVIOUS)):
        try:
            return torch.load(path, weights_only=True)
        except Exception:  # a damaged file makes the unpickler raise anything
            LOG.warning("%s is damaged: the run goes on from before it", path)
    return None


@torch.no_grad()
def restore(state: TrainState, states: Sequence[Saved]) -> None:
    """Put saved states, one a replica and all after the same number of updates, into a fresh state.

    A memory that a run was saved without is one that only its new neighbours have: it stays empty. RunFailed, with what
    differs, if a saved state has other networks, names or shapes.
    """
    for replica, saved in enumerate(states):
        networks = {name: network for name, network in state.networks.items() if has(network, replica)}
        refuse_differences("networks", saved.get("networks", {}).keys(), networks.keys(), "checkpoint")
        for name, network in networks.items():
            restore_network(network, replica, saved["networks"][name], f"checkpoint: {name}")
        for name, tensor in state.memory.items():
            tensor[replica] = saved["memory"].get(name, tensor[replica])
        if state.buffer is not None:
            copy_rows(state.buffer._asdict(), replica, saved["buffer"], "checkpoint: buffer")


def restore_network(network: Network, replica: int, saved: Saved, place: str) -> None:
    """Put one replica of a network, and what its optimiser knew, back."""
    load_parameters(network.module, replica, saved["parameters"], place)
    if network.optimizer is not None:
        kept, moments = network.optimizer.kept_of(replica), saved["optimizer"]["moments"]
        refuse_differences("moments", moments.keys(), kept.keys(), place)
        copy_rows({name: values.unsqueeze(0) for name, values in kept.items()}, 0, moments, place)
        network.optimizer.updates = saved["optimizer"]["updates"]


def load_parameters(module: nn.Module, replica: int, saved: Mapping[str, Tensor], place: str) -> None:
    """Copy saved parameters into a replica's rows; RunFailed, with what differs, for other names or shapes."""
    stacks = dict(module.named_parameters())
    refuse_differences("parameters", saved.keys(), stacks.keys(), place)
    copy_rows(stacks, replica, saved, place)


def copy_rows(stacks: Mapping[str, Tensor], replica: int, saved: Mapping[str, Tensor], place: str) -> None:
    """Copy saved tensors into a replica's rows of stacks ``[R, ...]``; RunFailed for another shape."""
    for name, stack in stacks.items():
        if saved[name].shape != stack.shape[1:]:
            there, here = list(saved[name].shape), list(stack.shape[1:])
            raise RunFailed(f"{place}: {name} is {there} there and {here} here")
        stack.data[replica] = saved[name]


def refuse_differences(kind: str, there: Iterable[str], here: Iterable[str], place: str) -> None:
    """RunFailed if the names that were saved are not those that are wanted."""
    missing, unknown = sorted({*here} - {*there}), sorted({*there} - {*here})
    if missing or unknown:
        lacks = [f"lacks the {kind} {', '.join(missing)}"] if missing else []
        has_others = [f"has {kind} that are not here: {', '.join(unknown)}"] if unknown else []
        raise RunFailed(f"{place} {' and '.join(lacks + has_others)}")


def has(network: Network, replica: int) -> bool:
    """Whether a replica has this network."""
    return network.replicas is None or replica in network.replicas


def row(stack: Tensor, replica: int) -> Tensor:
    """Return a replica's own part of a stack as it can be saved."""
    return copied(stack[replica])


def copied(values: Tensor) -> Tensor:
    """Return values as they can be saved."""
    return values.detach().clone().cpu()
