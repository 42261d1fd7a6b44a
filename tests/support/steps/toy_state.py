"""A task small enough to be judged by hand, and states that train on it."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from axis_choices import Choice, bind
from plain_step import Plain, PlainNetwork, Recipe
from small_runs import compose

from rlexp.axes import entropy_control, kl_control
from rlexp.axes.optimizer import sgd
from rlexp.axes.reference import frozen
from rlexp.axes.teacher import none as no_teacher
from rlexp.core import memory
from rlexp.core.blocks import map_variants
from rlexp.loop.optimizer import Adam, Schedule
from rlexp.loop.requested import tensors_of_rollout
from rlexp.loop.sampling import Groups
from rlexp.loop.state import Experience, Network, TrainState
from rlexp.loop.step import compute_advantages
from rlexp.loop.variant import Variant
from rlexp.models import GRU
from rlexp.models.layers import Init
from rlexp.tasks import Scores

MEMORIES = memory.bind_memories(kl_control.MEMORIES, compose().kl_control)
PROMPTS, GROUP, HIDDEN, LAYERS = 4, 4, 6, 2
WEIGHTS = {"height": 0.7, "ones": 0.5}
RATES, LIMITS, WARMUP, FINAL, TOTAL = (0.02, 0.05), (0.5, math.inf), (2, 0), (0.5, 1.0), 12


@dataclass(frozen=True)
class Toy:
    """Prompts of two or three symbols, answers of up to five; no reward for answers that open with ``unjudged``."""

    unjudged: int = -1
    pad, end, vocabulary, prompt_length, cap, draws = 4, 5, 6, 3, 5, 3
    weights, reward_range, metric, floor = WEIGHTS, (0.0, 3.0), "eval/reward", 0.0

    def prompts(self, uniforms, held_out):
        tokens = (uniforms * 4).long()
        tokens[..., 0] = tokens[..., 0].where(uniforms[..., 0] > 0.4, self.pad)
        return tokens

    def score(self, prompts, completions, mask, finished):
        first = completions[..., 0]
        judged = first != self.unjudged
        ones = ((completions == 1) & mask).sum(-1) / mask.sum(-1)
        components = {"height": first / 4 + prompts[..., -1:] / 10, "ones": ones}
        return Scores({name: row.where(judged, math.nan) for name, row in components.items()}, first == 0)

    def oracle(self, prompts):
        raise AssertionError("nothing here starts from its answers")

    def render(self, tokens):
        return " ".join(map(str, tokens))

    def judge(self, prompt, tokens):
        """Judge one answer, from lists."""
        if tokens[0] == self.unjudged:
            return math.nan
        return WEIGHTS["height"] * (tokens[0] / 4 + prompt[-1] / 10) + WEIGHTS["ones"] * tokens.count(1) / len(tokens)


@dataclass(frozen=True)
class Conversation(Toy):
    """After the first 3 of an answer the environment writes twice what the prompt ends with."""

    train_on_environment: bool = False

    def environment(self, prompts, completions):
        asked = completions == 3
        place = torch.arange(completions.shape[-1]) - asked.byte().argmax(-1, keepdim=True)
        inside = ((place == 1) | (place == 2)) & asked.any(-1, keepdim=True)
        return prompts[..., -1:].unsqueeze(-1).expand(completions.shape).where(inside, -1)

    def write(self, prompt, tokens):
        """Say what the environment writes next, from lists; −1 for nothing."""
        inside = 3 in tokens and len(tokens) - tokens.index(3) in (1, 2)
        return prompt[-1] if inside else -1


def norm(recipe: Recipe) -> Choice:
    """Choose a z-score in the group, or of the discounted reward to go of all tokens."""
    if recipe.gamma is None:
        return bind("norm", "local", eps=recipe.eps, ddof=1)
    return bind("norm", "reinforce_pp", gamma=recipe.gamma, eps=recipe.eps, ddof=1)


def variant(recipe: Recipe) -> Variant:
    """Choose the functions that the recipe spells out."""
    filters = {True: bind("filter", "overlong"), False: bind("filter", "none")}
    return Variant(
        reward=bind("reward", "verifier"),
        verdicts=0,
        shaping=bind("shaping", "none"),
        filter_loss=filters[recipe.drop_from_loss],
        filter_statistics=filters[recipe.drop_from_statistics],
        filter_refill=bind("filter", "none"),
        refill_rounds=1,
        norm=norm(recipe),
        anchor=bind("anchor", "old"),
        prompts=bind("prompts", "uniform"),
        allocation=bind("allocation", "uniform"),
        clip=bind("clip", "ppo", low=recipe.low, high=recipe.high),
        agg=bind("agg", recipe.agg),
        kl=bind("kl", "k1" if recipe.kl_in_reward else "k3"),
        kl_control=kl_control.fixed,
        reference=frozen,
        entropy_control=entropy_control.fixed,
        optimizer=sgd,
        teacher=no_teacher,
        distillation=bind("distillation", "none"),
        imitation=bind("imitation", "none"),
        memories=MEMORIES,
        sampler=bind("sampler", "exact"),
        mismatch=bind("mismatch", "none"),
        kl_in_loss=recipe.kl_in_loss,
        kl_in_reward=recipe.kl_in_reward,
        entropy_coef=recipe.entropy_bonus,
    )


def spread(values: Sequence[float], seeds: Sequence[int], dtype) -> torch.Tensor:
    """Give each seed its number, whoever its neighbours are."""
    return torch.tensor([values[seed % len(values)] for seed in seeds], dtype=dtype)


def make_state(
    blocks, seeds, *, task=None, temperatures=(1.0,), dtype=torch.float64, model=GRU, adam=Adam, **more
) -> TrainState:
    """Runs with the given seeds; ``blocks`` are variants and how many of the seeds are theirs."""
    task = task or Toy()
    hyperparameters = dict(hidden=HIDDEN, layers=LAYERS) if model is GRU else more.pop("hyperparameters")
    policy, reference = (
        model(Init([seed + shift for seed in seeds]), task, **hyperparameters).to(dtype) for shift in (0, 100)
    )
    rates, warmup, final, limits = (spread(values, seeds, dtype) for values in (RATES, WARMUP, FINAL, LIMITS))
    settings = dict(prompts=PROMPTS, group=GROUP, inner_steps=1, minibatches=1) | more
    return TrainState(
        task=task,
        networks={
            "policy": Network(policy, adam(policy, Schedule(rates, warmup, final, TOTAL), limits)),
            "reference": Network(reference.requires_grad_(False)),
        },
        blocks=blocks,
        seeds=seeds,
        temperature=spread(temperatures, seeds, dtype),
        memory=memory.initial_memory(blocks),
        **settings,
    )


def unstacked(policy: GRU, replica: int) -> dict[str, torch.Tensor]:
    """Return one replica's parameters by the names and in the layout of PyTorch's layers."""
    stacked = {name: values[replica].detach().clone() for name, values in policy.named_parameters()}
    state = {"embedding.weight": stacked["embedding.weight"]}
    state |= {"head.weight": stacked["head.weight"].T, "head.bias": stacked["head.bias"][0]}
    for layer in range(LAYERS):
        for theirs, ours in {"ih": "input", "hh": "state"}.items():
            state[f"gru.weight_{theirs}_l{layer}"] = stacked[f"layers.{layer}.{ours}_weight"].T
            state[f"gru.bias_{theirs}_l{layer}"] = stacked[f"layers.{layer}.{ours}_bias"][0]
    return state


def make_experience(state: TrainState, step: int, groups: Groups) -> Experience:
    """Return what the groups of a step are worth to it."""
    tensors = tensors_of_rollout(state, step, groups)
    return map_variants(compute_advantages, state.blocks, groups.rollout, groups.rewards.total, tensors)


def plain(state: TrainState, replica: int, recipe: Recipe) -> Plain:
    """Return one run of a state that has not trained yet, as plain PyTorch."""
    policy = PlainNetwork(state.task.vocabulary, HIDDEN, LAYERS).double()
    reference = copy.deepcopy(policy)
    policy.load_state_dict(unstacked(state.policy, replica))
    reference.load_state_dict(unstacked(state.reference, replica))
    seed = state.seeds[replica]
    peak, limit, warmup, final = (values[seed % 2] for values in (RATES, LIMITS, WARMUP, FINAL))
    optimizer = torch.optim.Adam(policy.parameters(), lr=peak)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: min(1, (done + 1) / max(warmup, 1)) * (1 - (1 - final) * done / TOTAL)
    )
    temperature = state.temperature[replica].item()
    run = Plain(policy, reference, optimizer, scheduler, limit, temperature, recipe, state.task.end, state.task.judge)
    if isinstance(state.task, Conversation):
        run.environment, run.train_on_environment = state.task.write, state.task.train_on_environment
    return run
