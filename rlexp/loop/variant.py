"""A variant: one choice on every axis, as the bound functions that the training step calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import torch

from rlexp.axes import entropy_control
from rlexp.core.facts import facts_of
from rlexp.core.memory import Memory
from rlexp.core.registry import knobs, requested_names
from rlexp.core.types import PerReplica


def stopped_updates(stopped: PerReplica) -> PerReplica:
    """Return 1 for an update that ``kl_stop`` has left out, 0 for one that was made."""
    return stopped


@dataclass(frozen=True)
class Variant:
    """The bound functions of one choice on every axis, what they remember, and the weights of the penalties.

    ``reward`` is asked ``verdicts`` times about a completion. ``refill`` keeps or drops whole groups in up to
    ``refill_rounds`` rounds of sampling. ``kl`` enters the loss with the weight ``kl_in_loss`` and the reward with
    ``kl_in_reward``, of which at most one is not 0. ``entropy_control`` makes the weight of the bonus of
    ``entropy_coef``; ``advantage_clip`` bounds what ``norm`` returns, ``log_ratio_bound`` what is exponentiated;
    ``kl_stop`` is the distance from the policy that sampled at which a rollout is done with; ``value_target`` is what a
    critic is trained to where ``norm`` asks for its values.
    """

    reward: Callable
    verdicts: int
    shaping: Callable
    filter_loss: Callable
    filter_statistics: Callable
    refill: Callable
    refill_rounds: int
    norm: Callable
    teacher: Callable
    clip: Callable
    agg: Callable
    kl: Callable
    reference: Callable
    memories: Mapping[str, Memory]
    sampler: Callable
    mismatch: Callable
    kl_in_loss: float
    kl_in_reward: float
    entropy_coef: float
    entropy_control: Callable = entropy_control.fixed
    advantage_clip: float | None = None
    log_ratio_bound: float | None = None
    kl_stop: float | None = None
    value_target: Callable | None = None

    @property
    def judged(self) -> bool:
        """Whether somebody else than the task judges."""
        return not facts_of(self.reward).neutral

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest reward of the judge; None: those of the task."""
        return facts_of(self.reward).bounds

    @property
    def penalised(self) -> bool:
        """Whether the KL penalty has a weight, wherever it is placed."""
        return bool(self.kl_in_loss or self.kl_in_reward)

    @property
    def has_bonus(self) -> bool:
        """Whether the entropy bonus can have a weight."""
        return bool(self.entropy_coef) or not facts_of(self.entropy_control).neutral

    @property
    def samples_exactly(self) -> bool:
        """Whether tokens are drawn from the policy itself."""
        return facts_of(self.sampler).neutral

    def bound(self, like: PerReplica) -> dict[str, PerReplica]:
        """Return the bound of log-ratios, infinite for none, by the name that choices ask for it."""
        bound = math.inf if self.log_ratio_bound is None else self.log_ratio_bound
        return {"log_ratio_bound": torch.full_like(like, bound)}

    @cached_property
    def requested(self) -> frozenset[str]:
        """Names of the tensors that any of its functions asks for; a penalty without a weight asks for nothing.

        The reward, the sampler, the refill and the reference are left out: they are called with what is at hand where
        they act.
        """
        functions = [self.shaping, self.filter_loss, self.filter_statistics, self.norm, self.teacher]
        functions += [self.clip, self.mismatch, self.agg, *(memory.update for memory in self.memories.values())]
        functions += [self.kl] if self.penalised else []
        return frozenset(name for function in functions for name in requested_names(function))

    @cached_property
    def measures(self) -> dict[str, Callable]:
        """Metrics of an update that only runs with these choices have, bound to their knobs."""
        bound = {} if self.kl_stop is None else {"kl/stopped": stopped_updates}
        for choice in (self.clip, self.entropy_control):
            values = getattr(choice, "keywords", {})
            measures = facts_of(choice).measures.items()
            bound |= {name: partial(each, **{knob: values[knob] for knob in knobs(each)}) for name, each in measures}
        return bound
