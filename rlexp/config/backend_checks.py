"""What a backend can have of a config, in one line for each key that it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from rlexp.config.nodes import axis_nodes, chosen_facts, chosen_function
from rlexp.core.registry import requested_names
from rlexp.language import LANGUAGE_MODELS
from rlexp.language.backend import NOT_OFFERED, OPTIMIZERS
from rlexp.language.made import MODULES
from rlexp.loop.data import DATA
from rlexp.models import MODELS
from rlexp.tasks import TASKS

ONLY_NEUTRAL = ("reward", "filter.refill", "sampler", "teacher")
NOT_THERE = {"kl_stop": None, "compile": False}  # keys that another backend has, and their only value here


def backend_problems(config: Any) -> Iterator[str]:
    """Say what the backend of a config cannot have."""
    name = config.backend.name
    if name in PROBLEMS:
        yield from PROBLEMS[name](config)
    else:
        yield f"backend={name}: nothing says what it can have; must be one of {', '.join(PROBLEMS)}"


def replicas_problems(config: Any) -> Iterator[str]:
    """Whether policy and task are this project's own."""
    for group, table in (("model", MODELS), ("task", TASKS)):
        chosen = getattr(config, group).name
        if chosen not in table:
            yield f"{group}={chosen}: needs backend=trl; backend={config.backend.name} has {', '.join(table)}"


def trl_problems(config: Any) -> Iterator[str]:
    """Whether there is a language model, and whether every axis asks for what there is."""
    here = f"backend={config.backend.name}"
    if find_spec("trl") is None:
        yield f"{here}: needs the extra trl: pip install 'rlexp[trl]'"
    if config.model.name not in LANGUAGE_MODELS:
        yield f"{here}: trains language models; take model={' or model='.join(LANGUAGE_MODELS)}"
    elif line := MODULES[config.model.name].problem(config.model):
        yield line
    yield from of_replicas(config)
    yield from asked_in_vain(config)
    yield from reference_problems(config)
    if not chosen_facts(config, "mismatch").neutral and not config.backend.vllm:
        yield f"mismatch={config.mismatch.name}: without backend.vllm=true the policy itself samples, nothing differs"


def of_replicas(config: Any) -> Iterator[str]:
    """Whether something is chosen that only the loop of stacked policies has."""
    here = f"backend={config.backend.name}"
    for key in ONLY_NEUTRAL:
        if not chosen_facts(config, key).neutral:
            yield f"{here}: has no {key} but the neutral one; take backend=replicas, or leave {key} as it is"
    for key, names in (("critic", {"none"}), ("data", {name for name, each in DATA.items() if not each.slots})):
        if getattr(config, key).name not in names:
            yield f"{here}: {key}={getattr(config, key).name} is of backend=replicas; take {key}={names.pop()}"
    if hasattr(config.start, "entropy"):
        yield f"{here}: start={config.start.name} is of backend=replicas; take start=random, sft or mixture"
    for key, only in NOT_THERE.items():
        if getattr(config, key) != only:
            yield f"{here}: {key}={getattr(config, key)} is of backend=replicas"
    if getattr(config.task, "prompt_set", None) is not None:
        yield f"{here}: task.prompt_set is of backend=replicas; take null"
    if config.optimizer.name not in OPTIMIZERS:
        yield f"{here}: has no optimizer={config.optimizer.name}; take optimizer={' or optimizer='.join(OPTIMIZERS)}"


def asked_in_vain(config: Any) -> Iterator[str]:
    """Whether a choice asks for what is not known of a language model."""
    for key, node, _ in axis_nodes(config):
        missing = sorted(NOT_OFFERED.keys() & {*requested_names(chosen_function(config, key))})
        if missing and key not in ONLY_NEUTRAL:
            yield f"backend={config.backend.name} {key}={node.name}: asks for {NOT_OFFERED[missing[0]]}, not there"


def reference_problems(config: Any) -> Iterator[str]:
    """Whether the reference is a copy of the model, which only whole models have."""
    if config.reference.begin != "start":
        yield f"backend={config.backend.name}: reference.begin={config.reference.begin} is of backend=replicas"
    if config.reference.name != "frozen" and getattr(config.model, "lora", None):
        yield f"reference={config.reference.name}: with model.lora the reference is the model without its adapter"


PROBLEMS = {"replicas": replicas_problems, "trl": trl_problems}
