"""A run's state on disk: its networks by name, memory, position. Random numbers need no state.

Each run has a file of its own, so that it can be resumed alone or beside others. The file is replaced at once and the
one before it is kept; it holds tensors and numbers only, is read without executing code, and has a checksum:

    step, tokens, completions, verdicts
    networks    name -> parameters: name -> tensor; optimizer, where there is one: updates, moments: name -> tensor
    memory      name -> tensor
    buffer      name -> tensor, where the data are not fresh
    identity    whose state it is
    files       name -> bytes, digest: how the run's rows began when it was saved
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rlexp.core.exits import RunFailed
from rlexp.loop.state import Network, TrainState
from rlexp.record.disk import Recorder, put, read_state, serialize, write_draft
from rlexp.runfolder.files import Damaged

LOG = logging.getLogger(__name__)
LATEST, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"
AT_ONCE = 32  # files that are synced side by side: a disk takes them together, one by one each waits for the last
Saved = Mapping[str, Any]


def content(state: TrainState, replica: int, step: int, sampled: Mapping[str, int]) -> dict[str, Any]:
    """Return the state of one replica after ``step`` steps, and how much it has sampled, as it is saved."""
    networks = {}
    for name, network in networks_of(state, replica).items():
        saved = {"parameters": rows(dict(network.module.named_parameters()), replica)}
        if network.optimizer is not None:
            moments = {name: copied(values) for name, values in network.optimizer.kept_of(replica).items()}
            saved["optimizer"] = {"updates": network.optimizer.updates, "moments": moments}
        networks[name] = saved
    saved = {"step": step, **sampled, "networks": networks, "memory": rows(state.memory, replica)}
    if state.buffer is not None:
        saved["buffer"] = rows(state.buffer._asdict(), replica)
    return saved


def save(saved: Iterable[tuple[Recorder, Saved]]) -> list[Exception | None]:
    """Write the states of runs, some side by side, each once its rows are on the disk; return what went wrong.

    ``saved`` is drawn from as they are written: not all of them need be in memory.
    """

    def write(recorder: Recorder, whole: bytes) -> None:
        recorder.sync()
        replace_latest(recorder.folder, whole)

    states, problems = iter(saved), []
    with ThreadPoolExecutor(AT_ONCE) as threads:
        while some := [
            (by, serialize({**state, "identity": by.identity, "files": by.extents()}))
            for by, state in islice(states, AT_ONCE)
        ]:
            problems += [done.exception() for done in [threads.submit(write, *each) for each in some]]
    return problems


def replace_latest(folder: Path, whole: bytes) -> None:
    """Make bytes the latest checkpoint, and the latest the previous one."""
    draft = write_draft(folder / LATEST, whole)
    if (folder / LATEST).exists():
        put(folder / LATEST, folder / PREVIOUS)
    put(draft, folder / LATEST)


def load(folder: Path) -> dict[str, Any] | None:
    """Read the latest state that is whole; None if there is none. Unreadable where that cannot be known."""
    for path in (folder / LATEST, folder / PREVIOUS):
        try:
            saved = read_state(path)
        except Damaged as error:
            LOG.warning("%s: the one before it is taken", error)
            continue
        if saved is not None:
            return saved
    return None


@torch.no_grad()
def restore(state: TrainState, states: Sequence[Saved]) -> list[str]:
    """Put saved states, one a replica and all after the same number of updates, into a fresh state.

    A memory that a run was saved without is one that only its new neighbours have: it stays empty. Returns for each
    what differs if it has other networks, names or shapes, or "".
    """
    problems = [""] * len(states)
    for replica, saved in enumerate(states):
        try:
            restore_run(state, replica, saved)
        except RunFailed as error:
            problems[replica] = str(error)
    return problems


def restore_run(state: TrainState, replica: int, saved: Saved) -> None:
    """Put one saved state into a replica; RunFailed, with what differs, if it is of another kind."""
    networks = networks_of(state, replica)
    refuse_differences("networks", saved.get("networks", {}).keys(), networks.keys(), "checkpoint")
    for name, network in networks.items():
        known, place = saved["networks"][name], f"checkpoint: {name}"
        load_parameters(network.module, replica, known["parameters"], place)
        if network.optimizer is not None:
            kept, moments = network.optimizer.kept_of(replica), known["optimizer"]["moments"]
            refuse_differences("moments", moments.keys(), kept.keys(), place)
            copy_rows({name: values.unsqueeze(0) for name, values in kept.items()}, 0, moments, place)
            network.optimizer.updates = known["optimizer"]["updates"]
    remembered = {name: tensor for name, tensor in state.memory.items() if name in saved["memory"]}
    copy_rows(remembered, replica, saved["memory"], "checkpoint: memory")
    if state.buffer is not None:
        buffer = state.buffer._asdict()
        refuse_differences("columns", saved.get("buffer", {}).keys(), buffer.keys(), "checkpoint: buffer")
        copy_rows(buffer, replica, saved["buffer"], "checkpoint: buffer")


def load_parameters(module: nn.Module, replica: int, saved: Mapping[str, Tensor], place: str) -> None:
    """Copy saved parameters into a replica's rows; RunFailed, with what differs, for other names or shapes."""
    stacks = dict(module.named_parameters())
    refuse_differences("parameters", saved.keys(), stacks.keys(), place)
    copy_rows(stacks, replica, saved, place)


def copy_rows(stacks: Mapping[str, Tensor], replica: int, saved: Mapping[str, Tensor], place: str) -> None:
    """Copy saved tensors into a replica's rows of stacks ``[R, ...]``; RunFailed for another shape or type."""
    for name, stack in stacks.items():
        if saved[name].shape != stack.shape[1:]:
            there, here = list(saved[name].shape), list(stack.shape[1:])
            raise RunFailed(f"{place}: {name} is {there} there and {here} here")
        if saved[name].dtype != stack.dtype:
            raise RunFailed(f"{place}: {name} is {saved[name].dtype} there and {stack.dtype} here")
        stack.data[replica] = saved[name]


def refuse_differences(kind: str, there: Iterable[str], here: Iterable[str], place: str) -> None:
    """RunFailed if the names that were saved are not those that are wanted."""
    missing, unknown = sorted({*here} - {*there}), sorted({*there} - {*here})
    if missing or unknown:
        lacks = [f"lacks the {kind} {', '.join(missing)}"] if missing else []
        has_others = [f"has {kind} that are not here: {', '.join(unknown)}"] if unknown else []
        raise RunFailed(f"{place} {' and '.join(lacks + has_others)}")


def networks_of(state: TrainState, replica: int) -> dict[str, Network]:
    everywhere = state.networks.items()
    return {name: each for name, each in everywhere if each.replicas is None or replica in each.replicas}


def rows(stacks: Mapping[str, Tensor], replica: int) -> dict[str, Tensor]:
    return {name: copied(stack[replica]) for name, stack in stacks.items()}


def copied(values: Tensor) -> Tensor:
    return values.detach().clone().cpu()
