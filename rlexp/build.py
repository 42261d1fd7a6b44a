"""From configs to the fleet that trains them: what they must share to train together, and how many fit."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rlexp import agg, clip, filter, kl, kl_control, memory, mismatch, norm, reference, sampler, shaping, teacher
from rlexp.choose import choose
from rlexp.config import Config
from rlexp.fleet import Fleet, Variant
from rlexp.machine import bytes_a_run, compiled, prepare
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.rollout import distributions, sample
from rlexp.tasks import TASKS
from rlexp.teachers import teachers
from rlexp.update import Adam, Schedule

LOSS = ("clip", "agg", "kl", "kl_control", "reference", "mismatch", "entropy_coef")
VARIANT = ("shaping", "filter", "norm", "teacher", "sampler", *LOSS)
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
    task = choose(TASKS, config.task)()
    policy = choose(MODELS, config.model)(Init([config.seed]), task)
    return max(1, int(memory / bytes_a_run(policy, config, task.prompt_length, task.cap)))


def build(configs: Sequence[Config]) -> Fleet:
    """Make the fleet of configs that share a bucket and are ordered by variant."""
    first, seeds = configs[0], [config.seed for config in configs]
    device = prepare(first)
    task = choose(TASKS, first.task)()
    policy = choose(MODELS, first.model)(Init(seeds), task).to(device)
    total = first.steps * first.inner_steps * first.minibatches
    variants = blocks(configs)
    rates = (own(configs, key, device) for key in ("lr", "warmup_steps", "lr_final"))
    return Fleet(
        task=task,
        policy=policy,
        reference=copy.deepcopy(policy).requires_grad_(False),
        teacher=teachers(policy, configs),
        adam=Adam(policy, Schedule(*rates, total), own(configs, "grad_clip", device)),
        blocks=variants,
        seeds=seeds,
        temperature=own(configs, "temperature", device),
        memory={name: values.to(device) for name, values in memory.begin(variants).items()},
        prompts=first.group_size.prompts,
        group=first.group_size.completions,
        inner_steps=first.inner_steps,
        minibatches=first.minibatches,
        sample=compiled(sample, first),
        distributions=compiled(distributions, first),
    )


def own(configs: Sequence[Config], key: str, device: torch.device) -> Tensor:
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
        shaping=choose(shaping.FUNCTIONS, config.shaping),
        filter_loss=choose(filter.FUNCTIONS, config.filter.loss),
        filter_statistics=choose(filter.FUNCTIONS, config.filter.statistics),
        refill=choose(filter.GROUPS, config.filter.refill),
        rounds=config.filter.refill.rounds,
        norm=choose(norm.FUNCTIONS, config.norm),
        teacher=choose(teacher.FUNCTIONS, config.teacher),
        clip=choose(clip.FUNCTIONS, config.clip),
        agg=choose(agg.FUNCTIONS, config.agg),
        kl=choose(kl.FUNCTIONS, config.kl),
        follow=choose(reference.FUNCTIONS, config.reference),
        memories=memories(config),
        sampler=choose(sampler.FUNCTIONS, config.sampler),
        mismatch=choose(mismatch.FUNCTIONS, config.mismatch),
        inexact=config.sampler.name != "exact",
        kl_in_loss=weight.get("loss", 0.0),
        kl_in_reward=weight.get("reward", 0.0),
        entropy_bonus=config.entropy_coef,
    )


def memories(config: Config) -> dict[str, memory.Memory]:
    """Return what a config's choices remember from step to step."""
    return memory.chosen(norm.MEMORIES, config.norm) | memory.chosen(kl_control.MEMORIES, config.kl_control)
