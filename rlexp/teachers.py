"""Which run is a teacher: whether its folder fits, and its policy in the stack of those whom it teaches."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from rlexp import checkpoint
from rlexp.errors import shown
from rlexp.exits import RunFailed
from rlexp.recorder import CONFIG_FILE

REWARDED = {"weights", "metric", "floor"}  # what the task of a teacher can have had otherwise


def problems(config: Any) -> Iterator[str]:
    """Say what is wrong with the run that a config names as its teacher."""
    if config.teacher.name == "none":
        return
    run, folder = config.teacher.run, Path(config.teacher.run or "")
    if not run or not (folder / CONFIG_FILE).is_file() or not (folder / checkpoint.LATEST).is_file():
        there = f"{CONFIG_FILE} and {checkpoint.LATEST}"
        yield f"teacher.run={shown(run)}: must be the folder of a run, with its {there}"
        return
    theirs = yaml.safe_load((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    yield from islice(differences(config, theirs, f"teacher.run={run}"), 1)


def differences(config: Any, theirs: Mapping[str, Any], key: str) -> Iterator[str]:
    """Name the knobs of task and model in which a teacher differs from those whom it is to teach."""
    for part in ("task", "model"):
        ours = config.model_dump(mode="json", include={part})[part]
        for knob in sorted(ours.keys() - REWARDED, key=lambda knob: (knob != "name", knob)):
            there, here = shown(theirs[part].get(knob)), shown(ours[knob])
            if there != here:
                yield f"{key}: {part}.{knob} is {there} there and {here} here; must be the same"


@torch.no_grad()
def teachers(policy: nn.Module, configs: Sequence[Any]) -> nn.Module | None:
    """Return a stack of the runs' teachers, anything in the rows of those without one; None if there is none at all."""
    if all(config.teacher.name == "none" for config in configs):
        return None
    stack = copy.deepcopy(policy).requires_grad_(False)
    for replica, config in enumerate(configs):
        if config.teacher.name != "none":
            put(stack, replica, config.teacher.run)
    return stack


def put(stack: nn.Module, replica: int, run: str) -> None:
    """Copy the last policy of the run in a folder into a row of the stack."""
    state = checkpoint.load(Path(run))
    if state is None:
        raise RunFailed(f"teacher.run={run}: its checkpoint cannot be read")
    for parameter, values in zip(stack.parameters(), state["policy"], strict=True):
        parameter[replica] = values
