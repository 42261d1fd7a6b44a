"""From configs to the state that trains them: which train together, how many fit, and in how many processes."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

import numpy
import torch
from torch import Tensor, nn

from rlexp.axes import AXES, imitation, norm, optimizer
from rlexp.config.choices import axis_nodes, chosen_facts, chosen_function
from rlexp.config.schema import Config
from rlexp.core import memory
from rlexp.core.registry import bind_choice, bind_hyperparameters
from rlexp.language.backend import CAPABILITIES
from rlexp.loop.critic import CRITICS
from rlexp.loop.data import DATA
from rlexp.loop.optimizer import Optimizer, Schedule
from rlexp.loop.population import asks_for_population
from rlexp.loop.reward_model import TRAININGS, make_judges, room_for_pairs
from rlexp.loop.rollout import sample
from rlexp.loop.state import Network, TrainState, token_log_probs
from rlexp.loop.variant import Variant
from rlexp.models import MODELS
from rlexp.models.layers import Init, Shapes
from rlexp.record.policies import has_teacher, load_teachers
from rlexp.runfolder.variants import IN_TURNS
from rlexp.sweep.job import Job
from rlexp.sweep.machine import available_bytes, compiled, gpus, open_files, prepare
from rlexp.tasks import TASKS

NUMBERS = ("entropy_coef", "positive_nll_coef", "whiten_advantages", "advantage_entropy_weight", "advantage_clip")
NUMBERS += ("log_ratio_bound", "kl_stop")
VARIANT = {*(axis.group for axis in AXES.values()), *NUMBERS}
REPLICA = ("seed", "lr", "lr_final", "warmup_steps", "grad_clip", "temperature", "temperature_final", "start")
STATES = 5  # numbers a parameter: itself, its gradient, two moments, the reference
PERTURBED = 3  # numbers a parameter of a member: its noise, its weights, a temporary
PASSES = 3  # numbers a value of a layer while it trains: itself, its gradient, a temporary
BYTES_A_TOKEN = 17  # of a completion that is kept: the token, two log-probabilities, whether it counts
FAR_ABOVE = 4  # times the memory of a machine: only what can never be trained is refused
OUTSIDE = ("logger", "score", "baseline", *IN_TURNS, "study", "resume")
FILES_A_RUN, OTHER_FILES = 4, 100  # open at once: a lock, rows, a logger and one to spare; of the program itself
ENOUGH = 250  # runs: larger batches are no faster a run, and take memory and open files for each
TOKENS_A_WORKER = 2_000_000  # of completions: half a minute of the default policy on one core (docs/performance.md)
BYTES_OF_PROCESS = 300e6  # without its runs (benchmarks.memory)

Each = TypeVar("Each")  # a job, or anything else that has a config


def bucket_key(config: Config) -> str:
    """What jobs must share to train as one batch: everything that fixes tensor shapes or the course of the loop."""
    shared = config.model_dump(mode="json", exclude={*VARIANT, *REPLICA, *OUTSIDE})
    judges = config.model_dump(mode="json", include={"reward": {"model"}})
    sampled_by = {"population": has_members(config)}
    return json.dumps(shared | judges | sampled_by, sort_keys=True)


def has_members(config: Config) -> bool:
    """Return whether a population samples in the place of the policy."""
    return asks_for_population(chosen_function(config, "optimizer"))


def variant_key(config: Config) -> str:
    """What replicas must share to go through the objective together."""
    return json.dumps(config.model_dump(mode="json", include=set(VARIANT)), sort_keys=True)


def policy_shape(config: Config) -> nn.Module:
    """Make the policy of one run without its numbers."""
    init = Init([config.seed]) if config.model.name == "tabular" else Shapes()  # a table starts from the task's numbers
    return bind_choice(MODELS, config.model)(init, bind_choice(TASKS, config.task)())


def weights_of(policy: nn.Module) -> int:
    """Count the weights that a run has."""
    return sum(parameter[0].numel() for parameter in policy.parameters())


def bytes_of(config: Config) -> float:
    """Estimate from above what one more run of a batch takes, from the outputs of all layers at all tokens.

    Nothing of that size is made.
    """
    task, policy = bind_choice(TASKS, config.task)(), policy_shape(config)
    networks = 1 if config.critic.name == "none" else 2
    group, length, cap = config.group_size, task.prompt_length, task.cap
    values = sum(parameter.shape[-1] for parameter in policy.parameters())
    sampled = group.prompts * (length + group.completions * cap)
    trained = sampled * (1 + PASSES / config.minibatches)  # the forward_cache of all, the pass of a minibatch
    if config.imitation.name != "none":  # an answer a prompt is read beside the completions
        trained += group.prompts * (length + cap) * PASSES / config.minibatches
    evaluated = config.eval.prompts * (length + config.eval.samples * cap)
    data = bind_choice(DATA, config.data)()
    held = data.slots * data.sampled(group.prompts) * (8 * length + BYTES_A_TOKEN * group.completions * cap)
    copies = STATES
    if has_members(config):
        copies += PERTURBED * group.completions
        sampled += group.prompts * length * (group.completions - 1)  # each member reads the prompts
    return networks * (4.0 * (copies * weights_of(policy) + values * (trained + evaluated)) + held)


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
    beginnings = [config.start_seed for config in configs]
    policy = bind_choice(MODELS, first.model)(Init(beginnings), task).to(device)
    keys = [variant_key(config) for config in configs]
    variants = [(variant(configs[keys.index(key)]), keys.count(key)) for key in dict.fromkeys(keys)]

    # Learning rate, schedule and clipping are each run's own; runs side by side that share a rule are a block of it.
    alike = groupby(configs, key=lambda config: config.optimizer)
    rules = [(bind_choice(optimizer.FUNCTIONS, node), len(list(runs))) for node, runs in alike]
    rates = (each_runs(configs, key, device) for key in ("lr", "warmup_steps", "lr_final"))
    steps = first.steps - (getattr(first.critic, "critic_warmup", None) or 0)  # in which the policy is updated
    schedule = Schedule(*rates, steps * first.inner_steps * first.minibatches)
    networks = {
        "policy": Network(policy, Optimizer(policy, schedule, each_runs(configs, "grad_clip", device), rules)),
        "reference": Network(copy.deepcopy(policy).requires_grad_(False)),
    }
    critic = bind_choice(CRITICS, first.critic)()
    if critic is not None:  # its body is that of the policy before its start
        module = bind_choice(MODELS, first.model)(Init(beginnings), task, 1).to(device)
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
        temperature_final=final_temperatures(configs, device),
        steps=first.steps,
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
    return replace(state, buffer=state.data.empty(state))


def each_runs(configs: Sequence[Config], key: str, device: torch.device) -> Tensor:
    """Each run's own number, ``[R]``; null is infinity."""
    numbers = (getattr(config, key) for config in configs)
    return torch.tensor([math.inf if n is None else n for n in numbers], dtype=torch.float32, device=device)


def final_temperatures(configs: Sequence[Config], device: torch.device) -> Tensor | None:
    """Return where each run's temperature goes, ``[R]``, infinite where it stays; None where all stay."""
    scheduled = any(config.temperature_final is not None for config in configs)
    return each_runs(configs, "temperature_final", device) if scheduled else None


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
        distillation_weight=config.distillation.weight,
        imitation_mu=bind_hyperparameters(imitation.mu_schedule, config.imitation),
        taught_by=(config.teacher.network or "teacher", config.teacher.hint),
        value_target=target and bind_hyperparameters(target, config.norm),
        rounding=config.sampler.products and (config.sampler.products, config.sampler.head),
        top_k=config.sampler.top_k,
        top_p=config.sampler.top_p,
        trains_truncated=config.sampler.training == "truncated",
        **{key: getattr(config, key) for key in NUMBERS},
    )


def into_batches(jobs: Sequence[Each], most: int | None, workers: int = 1) -> list[list[Each]]:
    """Group the jobs that can be trained as one batch, at most ``most`` in each, and so that no worker is idle.

    Without ``most`` it is as many as the memory of this machine holds, an equal share of it for each worker, and never
    more than have room among the files that a process may have open.

    The larger buckets are cut first, always into equal batches, and runs of a variant stay together where they can. A
    run's numbers do not depend on its neighbours: cutting changes none.
    """
    buckets: dict[str, list[Each]] = {}
    for job in jobs:
        buckets.setdefault(bucket_key(job.config), []).append(job)
    files = max(1, (open_files() - OTHER_FILES) // FILES_A_RUN)
    pieces = {}
    for key, bucket in buckets.items():
        config = bucket[0].config
        largest = most or fitting(config, workers) if CAPABILITIES[config.backend.name].batched else 1
        pieces[key] = math.ceil(len(bucket) / min(files, largest))
    while sum(pieces.values()) < min(workers, len(jobs)):
        pieces[max(buckets, key=lambda key: len(buckets[key]) / pieces[key])] += 1
    batches = []
    for key, bucket in buckets.items():
        order = variant_order(bucket) if pieces[key] > 1 else range(len(bucket))
        batches += [[bucket[place] for place in part] for part in numpy.array_split(order, pieces[key])]
    return batches


def fitting(config: Config, workers: int) -> int:
    """How many runs of a config fit into the memory of one of ``workers`` workers, at least 1, at most ``ENOUGH``."""
    return max(1, min(ENOUGH, int(available_bytes(config.device) / workers / bytes_of(config))))


def variant_order(jobs: Sequence[Each]) -> list[int]:
    """Return the places of jobs, those of a variant side by side: their part of a step is done in one go."""
    keys = [variant_key(job.config) for job in jobs]
    order = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return sorted(range(len(jobs)), key=lambda place: order[keys[place]])


def num_workers(jobs: Sequence[Job], cores: int) -> int:
    """How many processes train the jobs of a sweep that have not ended, if nobody says it.

    As many as have ``TOKENS_A_WORKER`` of completions each to sample, at most one a core (or for the threads that the
    configs ask for) and as the memory holds; one where a GPU trains. A backend that trains each run by itself has one
    for each run, with a core or a GPU of its own. No result depends on it.
    """
    configs = [job.config for job in jobs if job.ended is None]
    if not configs:
        return 1
    room = int(min(cores // max(config.threads or 1 for config in configs), available_bytes("cpu") / BYTES_OF_PROCESS))
    if not all(CAPABILITIES[config.backend.name].batched for config in configs):
        room = len(gpus()) if configs[0].device == "cuda" else room
        return max(1, min(len(configs), room))
    if any(config.device != "cpu" for config in configs):
        return 1
    completions = (config.steps * config.group_size.prompts * config.group_size.completions for config in configs)
    tokens = sum(number * config.task.cap for number, config in zip(completions, configs, strict=True))
    return max(1, min(len(configs), room, tokens // TOKENS_A_WORKER))
