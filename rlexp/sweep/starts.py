"""Runs put at their start: each distinct start is trained once and kept on disk for the other variants of its seed."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from rlexp.config.schema import Config
from rlexp.core.exits import RunFailed
from rlexp.core.registry import bind_choice, call_with, required_inputs
from rlexp.loop.start import STARTS
from rlexp.loop.state import TrainState
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.record.disk import read_state, replace, serialize
from rlexp.record.policies import TrainedPolicy, copy_policy
from rlexp.runfolder.files import Damaged, Unreadable
from rlexp.tasks import TASKS

LOG = logging.getLogger(__name__)
DEPENDS_ON = ("start", "task", "model", "matmul_precision")  # and on the seed
PACKAGE = Path(__file__).parents[1]
ROOMS = ("axes", "core", "loop", "models", "tasks")  # in which the numbers of a start are made
Weights = dict[str, Tensor]


@torch.no_grad()
def apply_starts(state: TrainState, configs: Sequence[Config], folder: Path | None) -> list[str]:
    """Give every run of a fresh state its start, reference and critic too; return what went wrong for each, or "".

    Starts are read from ``folder`` and written there; None keeps nothing.
    """
    begins = [*configs]  # by what the reference of each run begins at
    for replica, config in enumerate(configs):
        if config.reference.begin == "halfway":  # the same start, ended at half its accuracy
            half = config.start.model_copy(update={"accuracy": config.start.accuracy / 2})
            begins[replica] = config.model_copy(update={"start": half})
    weights, problems = trained_starts([*configs, *begins], folder)
    networks = [state.networks[name].module for name in ("policy", "critic") if name in state.networks]
    wrong = []
    for replica, (config, begin) in enumerate(zip(configs, begins, strict=True)):
        key, begin_key = start_key(config), start_key(begin)
        problem = problems.get(key) or problems.get(begin_key) or ""
        for network in networks if key in weights else ():
            copy_weights(network, replica, weights[key])
        try:  # the reference is the fresh policy so far
            if config.reference.begin == "run":
                copy_policy(state.reference, replica, "reference.run", config.reference.run)
            elif config.reference.begin != "random" and begin_key in weights:
                copy_weights(state.reference, replica, weights[begin_key])
        except RunFailed as error:
            problem = problem or str(error)
        wrong.append(problem)
    return wrong


def trained_starts(configs: Sequence[Config], folder: Path | None) -> tuple[dict[str, Weights], dict[str, str]]:
    """Read or train the starts of configs; return the weights of each by its key, and what went wrong.

    A run whose start asks for no policy keeps the weights that it is made with.
    """
    weights: dict[str, Weights] = {}
    problems: dict[str, str] = {}
    missing: dict[str, list[str]] = {}  # the keys of those that differ in their seeds only
    wanted = {start_key(each): each for each in configs if "policy" in required_inputs(STARTS[each.start.name])}
    for key, config in wanted.items():
        try:
            found = load(folder, key) if folder else None
        except Unreadable as error:
            problems[key] = str(error)
            continue
        if found is None:
            missing.setdefault(start_settings(config), []).append(key)
        else:
            weights[key] = found
    for keys in missing.values():
        for key, trained, problem in zip(keys, *train_starts([wanted[key] for key in keys]), strict=True):
            weights[key], problems[key] = trained, problem
            if folder and not problem:
                save(folder, key, trained)
    return weights, problems


def copy_weights(network: nn.Module, replica: int, weights: Weights) -> None:
    """Give a replica of a network the weights of a start; a critic keeps its head, which has another shape."""
    for name, parameter in network.named_parameters():
        if parameter.shape[1:] == weights[name].shape:  # nothing is broadcast
            parameter[replica] = weights[name]


@torch.enable_grad()
def train_starts(configs: Sequence[Config]) -> tuple[list[Weights], list[str]]:
    """Make the starts of configs that differ in their seeds only, as one stack; on the CPU, whatever trains on them."""
    seeds, first = [config.start_seed for config in configs], configs[0]
    task = bind_choice(TASKS, without_set(first.task))()
    policy = bind_choice(MODELS, first.model)(Init(seeds), task)
    problems = call_with(bind_choice(STARTS, first.start), {"policy": policy, "task": task, "seeds": seeds})
    stack = {name: parameter.detach() for name, parameter in policy.named_parameters()}
    return [{name: values[i].clone() for name, values in stack.items()} for i in range(len(seeds))], problems


def started_policy(config: Config) -> TrainedPolicy:
    """Make the start of one run; return its policy before the first step. RunFailed where it is not reached."""
    (weights,), (problem,) = train_starts([config])
    if problem:
        raise RunFailed(problem)
    task = bind_choice(TASKS, config.task)()
    network = bind_choice(MODELS, config.model)(Init([config.start_seed]), task).requires_grad_(False)
    copy_weights(network, 0, weights)
    return TrainedPolicy(network, task, 0, config.seed, config.temperature)


def start_settings(config: Config) -> str:
    """Return what a start depends on, but for the seed that it belongs to."""
    config, seeds = config.model_copy(update={"task": without_set(config.task)}), {"start": {"seed"}, "model": {"seed"}}
    return json.dumps(config.model_dump(mode="json", include={*DEPENDS_ON}, exclude=seeds), sort_keys=True)


def without_set(task: BaseModel) -> BaseModel:
    """Return a task without the prompts that a run is trained on again and again: a start has seen any others."""
    return task.model_copy(update={"prompt_set": None}) if getattr(task, "prompt_set", None) else task


def start_key(config: Config) -> str:
    """Return the name of a start: a hash of everything that it depends on, the code that makes it included."""
    settings = start_settings(config)
    return sha256(f"{settings} {config.start_seed} {code_hash(PACKAGE)}".encode()).hexdigest()[:16]


@cache
def code_hash(folder: Path) -> str:
    """Return a hash of the Python files in a package's rooms that make numbers, and of the version of torch.

    Of all files there, as whatever a start imports may change it; one that is trained again without need is the same.
    """
    digest = sha256(torch.__version__.encode())
    for file in sorted(file for room in ROOMS for file in (folder / room).rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def save(folder: Path, key: str, weights: Weights) -> None:
    """Write a start; others who write the same one at the same time write the same bits."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace(folder / f"{key}.pt", serialize({"start": key, "weights": weights}))
    except OSError as error:
        LOG.warning("%s: the start is not kept, other runs make it again (%s)", folder, error.strerror or error)


def load(folder: Path, key: str) -> Weights | None:
    """Read a start; None if there is none that is whole and this one: it is then made again. Unreadable."""
    path = folder / f"{key}.pt"
    try:
        saved = read_state(path)
    except Damaged as error:
        LOG.warning("%s: the start is made again", error)
        return None
    if saved is not None and saved.get("start") != key:
        LOG.warning("%s is another start than its name says: the start is made again", path)
        return None
    return saved and saved["weights"]
