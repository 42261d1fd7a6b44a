"""Runs put at their start: each distinct start is trained once and kept on disk for the other variants of its seed."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor

from rlexp.choose import ask, choose, needs
from rlexp.config import Config
from rlexp.fleet import Fleet
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.start import STARTS
from rlexp.tasks import TASKS

DEPENDS_ON = ("start", "task", "model", "matmul_precision", "seed")
PACKAGE = Path(__file__).parent
Weights = dict[str, Tensor]


@torch.no_grad()
def begin(fleet: Fleet, configs: Sequence[Config], folder: Path | None) -> list[str]:
    """Give every run of a fresh fleet its start, its reference too; return what went wrong for each, or "".

    Starts are read from ``folder`` and written there; None keeps nothing.
    """
    starts = {key: config for config, key in zip(configs, map(key_of, configs), strict=True) if is_trained(config)}
    known = {key: weights for key in starts if (weights := load(folder, key))}
    problems = {}
    absent = sorted((key for key in starts if key not in known), key=lambda key: settings_of(starts[key]))
    for _, keys in groupby(absent, key=lambda key: settings_of(starts[key])):
        keys = list(keys)
        for key, weights, problem in zip(keys, *train([starts[key] for key in keys]), strict=True):
            known[key], problems[key] = weights, problem
            if not problem:
                save(folder, key, weights)
    for replica, config in enumerate(configs):
        for policy in (fleet.policy, fleet.reference) if is_trained(config) else ():
            for name, parameter in policy.named_parameters():
                parameter[replica] = known[key_of(config)][name]
    return [problems.get(key_of(config), "") for config in configs]


@torch.enable_grad()
def train(configs: Sequence[Config]) -> tuple[list[Weights], list[str]]:
    """Make the starts of configs that differ in their seeds only, as one stack; on the CPU, whatever trains on them."""
    seeds, first = [config.seed for config in configs], configs[0]
    task = choose(TASKS, first.task)()
    policy = choose(MODELS, first.model)(Init(seeds), task)
    problems = ask(choose(STARTS, first.start), {"policy": policy, "task": task, "seeds": seeds})
    stack = {name: parameter.detach() for name, parameter in policy.named_parameters()}
    return [{name: values[i].clone() for name, values in stack.items()} for i in range(len(seeds))], problems


def is_trained(config: Config) -> bool:
    """Whether a run starts from other weights than those that it is made with."""
    return "policy" in needs(STARTS[config.start.name])


def settings_of(config: Config, without: str = "seed") -> str:
    """Return everything that a start depends on, the seed aside, as text."""
    return json.dumps(config.model_dump(mode="json", include=set(DEPENDS_ON) - {without}), sort_keys=True)


def key_of(config: Config) -> str:
    """Return the name of a start: a hash of everything that it depends on, the code that makes it included."""
    return sha256(f"{settings_of(config, without='')} {code_in(PACKAGE)}".encode()).hexdigest()[:16]


@cache
def code_in(folder: Path) -> str:
    """Return a hash of the Python files below a folder and of the version of torch.

    Of all files, as whatever a start imports may change it; one that is trained again without need is the same.
    """
    digest = sha256(torch.__version__.encode())
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def save(folder: Path | None, key: str, weights: Weights) -> None:
    """Write a start; others who write the same one at the same time write the same bits."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".tmp", delete=False) as draft:
        torch.save(weights, draft)
    os.replace(draft.name, folder / f"{key}.pt")


def load(folder: Path | None, key: str) -> Weights | None:
    """Read a start; None if there is none that is whole."""
    try:
        return torch.load(folder / f"{key}.pt", weights_only=True) if folder else None
    except Exception:  # a damaged file makes the unpickler raise anything, a KeyError for one
        return None
