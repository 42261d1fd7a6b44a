"""Runs whose policy others take as their teacher or reference: whether the folder fits, and the policy in the stack."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rlexp.axes import teacher
from rlexp.core.errors import format_value
from rlexp.core.exits import RunFailed
from rlexp.core.registry import requested_names
from rlexp.record import checkpoint
from rlexp.record.disk.identity import foreign
from rlexp.record.disk.states import read_state
from rlexp.runfolder.files import CONFIG_FILE, read_yaml

REWARDED = {"weights", "metric", "floor"}  # what the task of a teacher can have had otherwise


def has_teacher(config: Any) -> bool:
    """Whether the chosen ``teacher`` asks for a teacher's log-probabilities."""
    return "teacher_log_probs" in requested_names(teacher.FUNCTIONS[config.teacher.name])


def problems(config: Any) -> Iterator[str]:
    """Say what is wrong with the runs that a config names as its teacher and as its reference."""
    if has_teacher(config):
        yield from problems_of_run(config, "teacher.run", config.teacher.run)
    if config.reference.begin == "run":
        yield from problems_of_run(config, "reference.run", config.reference.run)


def problems_of_run(config: Any, key: str, run: str | None) -> Iterator[str]:
    """Say what is wrong with a run whose last policy is wanted."""
    folder = Path(run or "")
    if not run or not (folder / CONFIG_FILE).is_file() or not (folder / checkpoint.LATEST).is_file():
        there = f"{CONFIG_FILE} and {checkpoint.LATEST}"
        yield f"{key}={format_value(run)}: must be the folder of a run, with its {there}"
        return
    try:
        theirs = read_yaml(folder / CONFIG_FILE) or {}
        wrong = [*differences(config, theirs, f"{key}={run}")] or [*filter(None, [of_another_run(folder, theirs, key)])]
    except RunFailed as error:
        wrong = [f"{key}={run}: {error}"]
    yield from wrong[:1]


def of_another_run(folder: Path, theirs: Mapping[str, Any], key: str) -> str | None:
    """Say that the checkpoint in a folder is not that of its config, if so."""
    other = foreign((read_state(folder / checkpoint.LATEST) or {}).get("identity"), theirs)
    return other and f"{key}={folder}: {checkpoint.LATEST} {other}"


def differences(config: Any, theirs: Mapping[str, Any], key: str) -> Iterator[str]:
    """Name the knobs of task and model in which a run differs from those who take its policy."""
    for part in ("task", "model"):
        ours = config.model_dump(mode="json", include={part})[part]
        there_of = theirs.get(part) if isinstance(theirs.get(part), Mapping) else {}
        for knob in sorted(ours.keys() - REWARDED, key=lambda knob: (knob != "name", knob)):
            there, here = format_value(there_of.get(knob)), format_value(ours[knob])
            if there != here:
                yield f"{key}: {part}.{knob} is {there} there and {here} here; must be the same"


@torch.no_grad()
def load_teachers(policy: nn.Module, configs: Sequence[Any]) -> nn.Module:
    """Return a stack of the runs' teachers; the rows of runs without one hold anything."""
    stack = copy.deepcopy(policy).requires_grad_(False)
    for replica, config in enumerate(configs):
        if has_teacher(config):
            load_policy(stack, replica, "teacher.run", config.teacher.run)
    return stack


def load_policy(stack: nn.Module, replica: int, key: str, run: str) -> None:
    """Copy the last policy of the run in a folder, which a key of the config names, into a row of the stack."""
    folder = Path(run)
    saved, theirs = read_state(folder / checkpoint.LATEST), read_yaml(folder / CONFIG_FILE)  # no earlier policy instead
    if saved is None:
        raise RunFailed(f"{key}={run}: has no {checkpoint.LATEST}")
    if other := foreign(saved.get("identity"), theirs or {}):
        raise RunFailed(f"{key}={run}: {checkpoint.LATEST} {other}")
    checkpoint.load_parameters(stack, replica, saved["networks"]["policy"]["parameters"], f"{key}={run}")
