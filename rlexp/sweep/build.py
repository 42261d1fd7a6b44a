"""From configs to the state that trains them: what they must share to train together, and how many fit."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import torch
from torch import Tensor

from rlexp.axes import AXES, norm, optimizer
from rlexp.config.nodes import axis_nodes, chosen_facts
from rlexp.config.schema import Config
from rlexp.core import memory
from rlexp.core.registry import bind_choice, bind_hyperparameters
from rlexp.loop.critic import CRITICS
from rlexp.loop.data import DATA, empty_buffer
from rlexp.loop.judged.bradley_terry import TRAININGS, make_judges, room_for_pairs
from rlexp.loop.optimizer import Optimizer, Schedule
from rlexp.loop.rollout import sample
from rlexp.loop.state import Network, TrainState, token_log_probs
from rlexp.loop.variant import Variant
from rlexp.models import MODELS
from rlexp.models.layers import Init, Shapes
from rlexp.record.policies import has_teacher, load_teachers
from rlexp.sweep.machine import available_bytes, compiled, prepare
from rlexp.tasks import TASKS

NUMBERS = ("entropy_coef", "advantage_clip", "log_ratio_bound", "kl_stop")
VARIANT = {*(axis.group for axis in AXES.values()), *NUMBERS}
REPLICA = ("seed", "lr", "lr_final", "warmup_steps", "grad_clip", "temperature", "start")
STATES = 5  # numbers a parameter: itself, its gradient, two moments, the reference
PASSES = 3  # numbers a value of a layer while it trains: itself, its gradient, a temporary
BYTES_A_TOKEN = 17  # of a completion that is kept: the token, two log-probabilities, whether it counts
FAR_ABOVE = 4  # times the memory of a machine: only what can never be trained is refused
OUTSIDE = ("logger", "score", "baseline", "until_decided", "study", "resume")


def bucket_key(config: Config) -> str:
    """What jobs must share to train as one batch: everything that fixes tensor shapes or the course of the loop."""
    shared = config.model_dump(mode="json", exclude={*VARIANT, *REPLICA, *OUTSIDE})
    judges = config.model_dump(mode="json", include={"reward": {"model"}})
    return json.dumps(shared | judges, sort_keys=True)


def variant_key(config: Config) -> str:
    """What replicas must share to go through the objective together."""
    return json.dumps(config.model_dump(mode="json", include=set(VARIANT)), sort_keys=True)


def bytes_of(config: Config) -> float:
    """Estimate from above what one more run of a batch takes, from the outputs of all layers at all tokens.

    Nothing of that size is made.
    """
    task = bind_choice(TASKS, config.task)()
    init = Init([config.seed]) if config.model.name == "tabular" else Shapes()  # a table starts from the task's numbers
    policy = bind_choice(MODELS, config.model)(init, task)
    networks = 1 if config.critic.name == "none" else 2
    group, length, cap = config.group_size, task.prompt_length, task.cap
    values = sum(parameter.shape[-1] for parameter in policy.parameters())
    sampled = group.prompts * (length + group.completions * cap)
    trained = sampled * (1 + PASSES / config.minibatches)  # the forward_cache of all, the pass of a minibatch
    evaluated = config.eval.prompts * (length + config.eval.samples * cap)
    parameters = sum(parameter[0].numel() for parameter in policy.parameters())
    data = bind_choice(DATA, config.data)()
    held = data.slots * data.sampled(group.prompts) * (8 * length + BYTES_A_TOKEN * group.completions * cap)
    return networks * (4.0 * (STATES * parameters + values * (trained + evaluated)) + held)


def memory_problem(config: Config) -> str | None:
    """Say that not even one run fits this machine, if that is beyond doubt: the estimate is from above."""
    needed, there = bytes_of(config), 2 * available_bytes(config.device)
    if needed <= FAR_ABOVE * there:
        return None
    sizes = f"group_size.completions={config.group_size.completions} group_size.prompts={config.group_size.prompts}"
    return (
        f"model={config.model.name} {sizes}: one run takes about {needed / 1e9:.0f} GB and {config.device} has "
        f"{there / 1e9:.0f}; take a smaller model or group size"
    )


def build(configs: Sequence[Config]) -> TrainState:
    """Make the state of configs that share a bucket and are ordered by variant."""
    first, seeds = configs[0], [config.seed for config in configs]
    device = prepare(first)
    task = bind_choice(TASKS, first.task)()
    policy = bind_choice(MODELS, first.model)(Init(seeds), task).to(device)
    keys = [variant_key(config) for config in configs]
    variants = [(variant(configs[keys.index(key)]), keys.count(key)) for key in dict.fromkeys(keys)]

    # Learning rate, schedule and clipping are each run's own; runs side by side that share a rule are a block of it.
    alike = groupby(configs, key=lambda config: config.optimizer)
    rules = [(bind_choice(optimizer.FUNCTIONS, node), len(list(runs))) for node, runs in alike]
    rates = (each_runs(configs, key, device) for key in ("lr", "warmup_steps", "lr_final"))
    schedule = Schedule(*rates, first.steps * first.inner_steps * first.minibatches)
    networks = {
        "policy": Network(policy, Optimizer(policy, schedule, each_runs(configs, "grad_clip", device), rules)),
        "reference": Network(copy.deepcopy(policy).requires_grad_(False)),
    }
    critic = bind_choice(CRITICS, first.critic)()
    if critic is not None:  # its body is that of the policy before its start
        module = bind_choice(MODELS, first.model)(Init(seeds), task, 1).to(device)
        numbers = (critic.lr, critic.warmup_steps, critic.lr_final, critic.grad_clip or math.inf)
        *rates, limit = (torch.full((len(seeds),), number, dtype=torch.float32, device=device) for number in numbers)
        schedule = Schedule(*rates, first.steps * critic.updates * first.minibatches)
        networks["critic"] = Network(module, Optimizer(module, schedule, limit, rules))
    taught = frozenset(replica for replica, config in enumerate(configs) if has_teacher(config))
    if taught:
        networks["teacher"] = Network(load_teachers(policy, configs), replicas=taught)
    remembered = memory.initial_memory(variants)
    training = first.reward.model and bind_choice(TRAININGS, first.reward.model)()
    if training is not None:
        judges = make_judges(training, first.model, task, seeds)
        networks |= {name: Network(judge.to(device)) for name, judge in judges.items()}
        remembered |= room_for_pairs(training, task, len(seeds), first.steps)
    state = TrainState(
        task=task,
        networks=networks,
        blocks=variants,
        seeds=seeds,
        temperature=each_runs(configs, "temperature", device),
        memory={name: values.to(device) for name, values in remembered.items()},
        prompts=first.group_size.prompts,
        group=first.group_size.completions,
        inner_steps=first.inner_steps,
        minibatches=first.minibatches,
        judging=training,
        sample=compiled(sample, first),
        log_probs=compiled(token_log_probs, first),
        critic=critic,
        data=bind_choice(DATA, first.data)(),
    )
    return replace(state, buffer=empty_buffer(state))


def each_runs(configs: Sequence[Config], key: str, device: torch.device) -> Tensor:
    """Each run's own number, ``[R]``; null is infinity."""
    numbers = (getattr(config, key) for config in configs)
    return torch.tensor([math.inf if n is None else n for n in numbers], dtype=torch.float32, device=device)


def variant(config: Config) -> Variant:
    """Bind the axis functions that a config chooses."""
    weight, memories = {config.kl.place: config.kl.coef}, {}
    for _, node, axis in axis_nodes(config):
        memories |= memory.bind_memories(axis.memories, node)
    target = norm.TARGETS.get(config.norm.name)  # what a critic is trained to, if the norm asks for one
    return Variant(
        **{axis.attribute: bind_choice(axis.functions, node) for _, node, axis in axis_nodes(config)},
        memories=memories,
        verdicts=chosen_facts(config, "reward").calls(config.reward),
        refill_rounds=config.filter.refill.rounds,
        kl_in_loss=weight.get("loss", 0.0),
        kl_in_reward=weight.get("reward", 0.0),
        value_target=target and bind_hyperparameters(target, config.norm),
        **{key: getattr(config, key) for key in NUMBERS},
    )
