"""The train state: everything that a step works on, for R runs that train as one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple, Protocol, runtime_checkable

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from rlexp.core.memory import apply_updates
from rlexp.core.streams import Purpose, uniforms
from rlexp.core.types import (
    CompletionMask,
    Completions,
    NonNegativeInt,
    PerCompletion,
    PerReplica,
    PerToken,
    Positive,
    PositiveInt,
    PromptNumbers,
    Prompts,
    TokenMask,
)
from rlexp.loop.optimizer import Optimizer
from rlexp.loop.rollout import Rollout, sample
from rlexp.loop.variant import Variant
from rlexp.models.policy import Policy, RolloutPolicy, TokenLogProbs
from rlexp.tasks.task import Task


@dataclass(frozen=True)
class Network:
    """A network of the state: stacked parameters ``[R, ...]``, and the optimizer that trains it (None: nothing does).

    ``replicas`` are those that have this network, None for all; the rows of the others are never read or saved.
    """

    module: nn.Module
    optimizer: Optimizer | None = None
    replicas: frozenset[int] | None = None


@dataclass(frozen=True, kw_only=True)
class Critic:
    """A network that expects V(s_t), trained by coef · ½ mean (V − R)² over the tokens of a minibatch that count.

    R are the targets of ``norm``, fixed, as are the values V_old that it was given. With ``clip`` the error is the
    larger one of (V − R)² and (V_old + clamp(V − V_old, ±clip) − R)². ``updates`` are its passes over each rollout,
    whatever ``inner_steps`` is; the minibatches are those of the policy. ``lr``, ``lr_final``, ``warmup_steps`` and
    ``grad_clip`` are as those of the policy beside the axes.

    Source: PPO (arXiv 1707.06347, eq. 9) with clipping as in OpenAI's ``ppo2``; verl ``compute_value_loss``, OpenRLHF
    ``ValueLoss``, TRL's ``PPOTrainer`` (``cliprange_value``, there 0.2). All three average over tokens, as here; with
    a network and an optimizer of its own, ``coef`` is but a scale of the gradient, which Adam takes out.
    """

    lr: Positive
    lr_final: Annotated[float, Ge(0), Le(1)]
    warmup_steps: NonNegativeInt
    grad_clip: Positive | None
    coef: Positive
    clip: Positive | None
    updates: PositiveInt


@runtime_checkable
class Source(Protocol):
    """Where completions come from (``loop.data``): how many rollouts are kept, and how many groups a step samples."""

    slots: int

    def sampled(self, prompts: int) -> int:
        """Return how many of a step's groups are sampled anew."""


def token_log_probs(policy: RolloutPolicy, *inputs: Tensor, **options: object) -> TokenLogProbs:
    """``policy.log_probs`` as a function, so that it can be compiled."""
    return policy.log_probs(*inputs, **options)


@dataclass(frozen=True)
class TrainState:
    """R runs that train as one batch: what they share, and what is each run's own, ``[R]``.

    ``networks`` are known by name: ``policy``, ``reference`` and, where they are asked for, ``teacher``, ``critic`` and
    ``reward_model``; ``critic`` and ``judging`` say how the last two are trained (None without them). ``blocks`` are
    the variants, in the order of the replicas, each with the number of replicas that it owns. ``memory`` holds what
    runs remember from step to step, ``[R, ...]``. ``data`` says where completions come from, and ``buffer`` holds
    those that it keeps, ``[R, K, P, ...]``; None for fresh ones. A step changes weights, memory and buffer, nothing
    else. ``sample`` and ``log_probs`` are functions of a policy, compiled where the config asks for that.
    """

    task: Task
    networks: dict[str, Network]
    blocks: Sequence[tuple[Variant, int]]
    seeds: Sequence[int]
    temperature: PerReplica
    memory: dict[str, Tensor]
    prompts: int
    group: int
    inner_steps: int
    minibatches: int
    data: Source | None = None
    buffer: Rollout | None = None
    judging: object = None
    sample: Callable = sample
    log_probs: Callable = token_log_probs
    critic: Critic | None = None

    @property
    def policy(self) -> Policy:
        """The network that samples and is trained."""
        return self.networks["policy"].module

    @property
    def reference(self) -> Policy:
        """The network that the KL penalty is measured against."""
        return self.networks["reference"].module

    @property
    def judges(self) -> list[nn.Module]:
        """The reward models."""
        return [network.module for name, network in self.networks.items() if name.startswith("reward_model")]

    @property
    def optimizer(self) -> Optimizer:
        """The policy's optimizer."""
        return self.networks["policy"].optimizer

    def uniforms(self, purpose: Purpose, step: int, *shape: int, round: int = 0) -> Tensor:
        """Each run's own random numbers in [0, 1) for a purpose at a step, ``[R, *shape]``."""
        return uniforms(self.seeds, purpose, step, shape, self.temperature.device, round)

    @property
    def judged_at_all(self) -> bool:
        """Whether somebody else than the task judges any run; asks no device."""
        return any(variant.judged for variant, _ in self.blocks)

    @cached_property
    def judged(self) -> Tensor:
        """Whether somebody else than the task judges a run, bool ``[R]``."""
        flags = [variant.judged for variant, size in self.blocks for _ in range(size)]
        return torch.tensor(flags, device=self.temperature.device)

    @cached_property
    def verdicts(self) -> Tensor:
        """How often the judge of a run is asked about a completion, ``[R]``."""
        numbers = [variant.verdicts for variant, size in self.blocks for _ in range(size)]
        return torch.tensor(numbers, device=self.temperature.device)

    @cached_property
    def bounds(self) -> Tensor:
        """The smallest and the largest reward of each run, ``[2, R]``: of its task, or of who judges in its place."""
        numbers = [variant.bounds or self.task.reward_range for variant, size in self.blocks for _ in range(size)]
        return torch.tensor(numbers, dtype=self.temperature.dtype, device=self.temperature.device).T

    @cached_property
    def requested(self) -> frozenset[str]:
        """Names of the tensors that some variant asks for."""
        return frozenset().union(*(variant.requested for variant, _ in self.blocks))


class Experience(NamedTuple):
    """A rollout and what it was worth.

    ``mask`` leaves out completions and tokens filtered from the loss, ``keep`` says which completions are in the
    statistics; ``rewards`` are those after shaping and KL in the reward, NaN where there is none. ``critic`` has the
    ``values`` and ``returns`` ``[R P G T]`` that a critic learns from; it is empty without one.
    """

    prompts: Prompts
    completions: Completions
    old_log_probs: PerToken
    ref_log_probs: PerToken
    mask: TokenMask
    keep: CompletionMask
    rewards: PerCompletion
    advantages: PerToken
    sampler_log_probs: PerToken
    prompt_numbers: PromptNumbers
    critic: dict[str, PerToken]


def update_memory(variant: Variant, memory: Mapping[str, Tensor], batch: Experience) -> dict[str, Tensor]:
    """Return the memories after a step; they are offered the experience, with rewards 0 outside the statistics."""
    rewards = batch.rewards.where(batch.keep, 0.0)
    return apply_updates(variant, memory, batch._asdict() | {"rewards": rewards})
