"""What a training step works on: variants, the fleet of runs that trains as one batch, what a rollout was worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlexp.choose import needs
from rlexp.memory import Memory
from rlexp.rollout import distributions, sample
from rlexp.streams import Purpose, uniforms
from rlexp.update import Adam


@dataclass(frozen=True)
class Variant:
    """The bound functions of one choice on every axis, what they remember, and the weights of the penalties.

    ``inexact`` says whether the sampler differs from the policy.
    """

    shaping: Callable
    filter_loss: Callable
    filter_statistics: Callable
    refill: Callable
    rounds: int
    norm: Callable
    teacher: Callable
    clip: Callable
    agg: Callable
    kl: Callable
    follow: Callable
    memories: Mapping[str, Memory]
    sampler: Callable
    mismatch: Callable
    inexact: bool
    kl_in_loss: float
    kl_in_reward: float
    entropy_bonus: float


@dataclass(frozen=True)
class Fleet:
    """R runs that train as one batch: what they share, and what is each run's own, ``[R]``.

    ``memory`` holds what runs remember from step to step, ``[R, ...]``, and is the only part that a step replaces.
    """

    task: Any
    policy: torch.nn.Module
    reference: torch.nn.Module
    teacher: torch.nn.Module | None
    adam: Adam
    blocks: Sequence[tuple[Variant, int]]
    seeds: Sequence[int]
    temperature: Tensor
    memory: dict[str, Tensor]
    prompts: int
    group: int
    inner_steps: int
    minibatches: int
    sample: Callable = sample
    distributions: Callable = distributions

    def uniforms(self, purpose: Purpose, step: int, *shape: int, round: int = 0) -> Tensor:
        """Each run's own random numbers in [0, 1) for a purpose at a step, ``[R, *shape]``."""
        return uniforms(self.seeds, purpose, step, shape, self.temperature.device, round)

    def uses(self, *weights: str) -> bool:
        """Whether any variant gives one of these penalties a weight."""
        return any(getattr(variant, weight) for variant, _ in self.blocks for weight in weights)

    @cached_property
    def asked(self) -> frozenset[str]:
        """Names of the tensors that shaping, filters, norm, teacher or policy loss of some variant take."""
        return frozenset().union(*(asked(variant) for variant, _ in self.blocks))


def asked(variant: Variant) -> frozenset[str]:
    """Names of the tensors that the variant's shaping, filters, norm, teacher and policy loss take."""
    axes = ("shaping", "filter_loss", "filter_statistics", "norm", "teacher", "clip")
    return frozenset(name for axis in axes for name in needs(getattr(variant, axis)))


class Experience(NamedTuple):
    """A rollout and what it was worth: prompts ``[R P L]``, rewards and keep ``[R P G]``, the others ``[R P G T]``.

    ``mask`` leaves out completions and tokens filtered from the loss, ``keep`` says which completions are in the
    statistics; ``rewards`` are those after shaping and KL-in-reward, NaN where there is none.
    """

    prompts: Tensor
    completions: Tensor
    old_log_probs: Tensor
    ref_log_probs: Tensor
    mask: Tensor
    keep: Tensor
    rewards: Tensor
    advantages: Tensor
    sampler_log_probs: Tensor
