"""From configs to the state that trains them: what they must share to train together, and how many fit."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rlexp.axes import agg, clip, entropy_control, filter, kl, mismatch, norm, reference, sampler, shaping, teacher
from rlexp.config.nodes import axis_nodes
from rlexp.config.schema import Config
from rlexp.core import memory
from rlexp.core.registry import bind_choice
from rlexp.loop.optimizer import Adam, Schedule
from rlexp.loop.rollout import sample
from rlexp.loop.state import Network, TrainState, token_log_probs
from rlexp.loop.variant import Variant
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.models.policy import Policy
from rlexp.record.teachers import has_teacher, load_teachers
from rlexp.sweep.machine import bytes_a_run, compiled, prepare
from rlexp.tasks import TASKS

LOSS = ("clip", "agg", "kl", "kl_control", "reference", "mismatch", "entropy_coef", "entropy_control", "kl_stop")
VARIANT = ("shaping", "filter", "norm", "advantage_clip", "teacher", "sampler", *LOSS)
REPLICA = ("seed", "lr", "lr_final", "warmup_steps", "grad_clip", "temperature", "start")
OUTSIDE = ("logger", "score", "baseline", "study", "resume")


def bucket_key(config: Config) -> str:
    """What jobs must share to train as one batch: everything that fixes tensor shapes or the course of the loop."""
    return json.dumps(config.model_dump(mode="json", exclude={*VARIANT, *REPLICA, *OUTSIDE}), sort_keys=True)


def variant_key(config: Config) -> str:
    """What replicas must share to go through the objective together."""
    return json.dumps(config.model_dump(mode="json", include=set(VARIANT)), sort_keys=True)


def most_runs(config: Config, memory: float) -> int:
    """How many runs of a config one batch can hold in so many bytes, at least 1."""
    task = bind_choice(TASKS, config.task)()
    policy = bind_choice(MODELS, config.model)(Init([config.seed]), task)
    return max(1, int(memory / bytes_a_run(policy, config, task.prompt_length, task.cap)))


def build(configs: Sequence[Config]) -> TrainState:
    """Make the state of configs that share a bucket and are ordered by variant."""
    first, seeds = configs[0], [config.seed for config in configs]
    device = prepare(first)
    task = bind_choice(TASKS, first.task)()
    policy = bind_choice(MODELS, first.model)(Init(seeds), task).to(device)
    variants = blocks(configs)
    networks = {
        "policy": Network(policy, optimizer(policy, configs, device)),
        "reference": Network(copy.deepcopy(policy).requires_grad_(False)),
    }
    taught = frozenset(replica for replica, config in enumerate(configs) if has_teacher(config))
    if taught:
        networks["teacher"] = Network(load_teachers(policy, configs), replicas=taught)
    return TrainState(
        task=task,
        networks=networks,
        blocks=variants,
        seeds=seeds,
        temperature=each_runs(configs, "temperature", device),
        memory={name: values.to(device) for name, values in memory.initial_memory(variants).items()},
        prompts=first.group_size.prompts,
        group=first.group_size.completions,
        inner_steps=first.inner_steps,
        minibatches=first.minibatches,
        sample=compiled(sample, first),
        log_probs=compiled(token_log_probs, first),
    )


def optimizer(policy: Policy, configs: Sequence[Config], device: torch.device) -> Adam:
    """Return the optimiser of a policy: learning rate, schedule and clipping are each run's own."""
    first = configs[0]
    total = first.steps * first.inner_steps * first.minibatches
    rates = (each_runs(configs, key, device) for key in ("lr", "warmup_steps", "lr_final"))
    return Adam(policy, Schedule(*rates, total), each_runs(configs, "grad_clip", device))


def each_runs(configs: Sequence[Config], key: str, device: torch.device) -> Tensor:
    """Each run's own number, ``[R]``; null is infinity."""
    numbers = (getattr(config, key) for config in configs)
    return torch.tensor([math.inf if n is None else n for n in numbers], dtype=torch.float32, device=device)


def blocks(configs: Sequence[Config]) -> list[tuple[Variant, int]]:
    """Return the variants in order and how many replicas each owns."""
    keys = [variant_key(config) for config in configs]
    return [(variant(configs[keys.index(key)]), keys.count(key)) for key in dict.fromkeys(keys)]


def variant(config: Config) -> Variant:
    """Bind the axis functions that a config chooses."""
    weight = {config.kl.place: config.kl.coef}
    return Variant(
        shaping=bind_choice(shaping.FUNCTIONS, config.shaping),
        filter_loss=bind_choice(filter.FUNCTIONS, config.filter.loss),
        filter_statistics=bind_choice(filter.FUNCTIONS, config.filter.statistics),
        refill=bind_choice(filter.GROUPS, config.filter.refill),
        refill_rounds=config.filter.refill.rounds,
        norm=bind_choice(norm.FUNCTIONS, config.norm),
        teacher=bind_choice(teacher.FUNCTIONS, config.teacher),
        clip=bind_choice(clip.FUNCTIONS, config.clip),
        agg=bind_choice(agg.FUNCTIONS, config.agg),
        kl=bind_choice(kl.FUNCTIONS, config.kl),
        reference=bind_choice(reference.FUNCTIONS, config.reference),
        memories=memories(config),
        sampler=bind_choice(sampler.FUNCTIONS, config.sampler),
        mismatch=bind_choice(mismatch.FUNCTIONS, config.mismatch),
        kl_in_loss=weight.get("loss", 0.0),
        kl_in_reward=weight.get("reward", 0.0),
        entropy_coef=config.entropy_coef,
        entropy_control=bind_choice(entropy_control.FUNCTIONS, config.entropy_control),
        advantage_clip=config.advantage_clip,
        kl_stop=config.kl_stop,
    )


def memories(config: Config) -> dict[str, memory.Memory]:
    """Return what a config's choices remember from step to step."""
    bound = {}
    for _, node, axis in axis_nodes(config):
        bound |= memory.bind_memories(getattr(axis, "MEMORIES", {}), node)
    return bound
