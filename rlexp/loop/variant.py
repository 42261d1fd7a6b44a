"""A variant: one choice on every axis, as the bound functions that the training step calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, make_dataclass
from functools import cached_property, partial

import torch

from rlexp.axes import AXES
from rlexp.core.facts import ControlFacts, Facts, LossFacts, RewardFacts, facts_of
from rlexp.core.masked import ALL, masked_mean
from rlexp.core.memory import Memory
from rlexp.core.registry import METRICS, hyperparameters, required_inputs
from rlexp.core.types import PerReplica

# A field for each axis: the function that is chosen on it, bound to its hyperparameters.
Chosen = make_dataclass("Chosen", [(axis.attribute, Callable) for axis in AXES.values()], frozen=True, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Variant(Chosen):
    """One choice on every axis, what the choices remember, and the numbers that the step takes beside them.

    Attributes:
        norm, clip, filter_loss, …: the bound function of each axis of ``AXES``.
        memories: what is remembered from step to step, by name.
        verdicts: how often ``reward`` is asked about a completion.
        refill_rounds: rounds of sampling in which ``filter_refill`` keeps or drops whole groups.
        kl_in_loss, kl_in_reward: weight of ``kl``, of which at most one is not 0.
        distillation_weight: share of ``distillation`` in the loss; the policy loss has the rest.
        taught_by: the network that teaches, ``teacher`` for that of a run, and what it sees: None, answer or success.
        imitation_mu: share of ``imitation`` in the loss, by the share of the run that is done.
        entropy_coef: what ``entropy_control`` makes the weight of the entropy bonus of.
        positive_nll_coef: weight of −log π of correct completions, beside the other terms of the loss.
        whiten_advantages: whether what ``norm`` returns is whitened over the tokens of a step.
        advantage_entropy_weight: how far tokens are weighed by their entropy in it (``entropy_weights``).
        advantage_clip: bound of it; None for none.
        log_ratio_bound: bound of what is exponentiated; None for none.
        kl_stop: distance from the policy that sampled at which a rollout is left; None for never.
        value_target: what a critic is trained to, where ``norm`` asks for its values.
        rounding: how the sampler's products are rounded, and those of its output layer (``core.rounding``).
        top_k, top_p: which of the sampler's tokens are drawn, the most likely ones (``axes.sampler.truncated``).
        trains_truncated: whether the policy that is trained is the one that is left by them.
    """

    memories: Mapping[str, Memory]
    verdicts: int = 0
    refill_rounds: int = 1
    kl_in_loss: float = 0.0
    kl_in_reward: float = 0.0
    distillation_weight: float = 0.0
    imitation_mu: Callable[[float], float] = lambda progress: 0.0
    taught_by: tuple[str, str | None] = ("teacher", None)
    entropy_coef: float = 0.0
    positive_nll_coef: float = 0.0
    whiten_advantages: bool = False
    advantage_entropy_weight: float = 0.0
    advantage_clip: float | None = None
    log_ratio_bound: float | None = None
    kl_stop: float | None = None
    value_target: Callable | None = None
    rounding: tuple[str, str | None] | None = None
    top_k: int | None = None
    top_p: float | None = None
    trains_truncated: bool = False

    @property
    def judged(self) -> bool:
        """Whether somebody else than the task judges."""
        return not facts_of(self.reward, RewardFacts).is_noop

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest reward of the judge; None: those of the task."""
        return facts_of(self.reward, RewardFacts).bounds

    @property
    def penalized(self) -> bool:
        """Whether the KL penalty has a weight, wherever it is placed."""
        return bool(self.kl_in_loss or self.kl_in_reward)

    @property
    def has_bonus(self) -> bool:
        """Whether the entropy bonus can have a weight."""
        return bool(self.entropy_coef) or not facts_of(self.entropy_control, ControlFacts).is_noop

    @property
    def imitates(self) -> bool:
        """Whether right answers have a loss."""
        return not facts_of(self.imitation, Facts).is_noop

    @property
    def samples_exactly(self) -> bool:
        """Whether tokens are drawn from the policy itself."""
        plain = self.rounding is None and self.top_k is None and self.top_p is None
        return plain and facts_of(self.sampler, Facts).is_noop

    def bound(self, like: PerReplica) -> dict[str, PerReplica]:
        """Return the bound of log-ratios, infinite for none, by the name that choices ask for it."""
        bound = math.inf if self.log_ratio_bound is None else self.log_ratio_bound
        return {"log_ratio_bound": torch.full_like(like, bound)}

    @cached_property
    def requested(self) -> frozenset[str]:
        """Names of the tensors that its functions ask for; a penalty or a loss without a weight asks for nothing.

        Functions of other stages are left out: they are called with what is at hand where they act.
        """
        axes = [axis for axis in AXES.values() if axis.stage in ("advantages", "loss")]
        weighs = {"kl": self.penalized, "distillation": self.distillation_weight}
        functions = [getattr(self, axis.attribute) for axis in axes if weighs.get(axis.key, True)]
        functions += [memory.update for memory in self.memories.values()]
        weighed = {"correct": self.positive_nll_coef, "entropies": self.advantage_entropy_weight}
        weighed |= dict.fromkeys(("answers", "answer_mask"), self.imitates)
        names = {name for function in functions for name in required_inputs(function)}
        return frozenset(names | {name for name, weight in weighed.items() if weight})

    @cached_property
    def measures(self) -> dict[str, Callable]:
        """Metrics of an update that only runs with these choices have, and registered ones, as bound functions."""
        bound = dict(METRICS) if self.kl_stop is None else METRICS | {"kl/stopped": lambda stopped: stopped}
        if self.distillation_weight:
            bound["loss/distillation"] = lambda distillation_loss: distillation_loss
        if self.imitates:
            bound["loss/imitation"] = lambda imitation_loss: imitation_loss
            bound["imitation/mu"] = lambda mu: mu
        if self.positive_nll_coef:
            bound["loss/positive_nll"] = lambda positive_nll_loss: positive_nll_loss
        if self.trains_truncated:
            bound["ratio/outside"] = lambda outside, mask: masked_mean(outside, mask, ALL).squeeze(ALL)
        for choice, kind in ((self.clip, LossFacts), (self.entropy_control, ControlFacts)):
            values = getattr(choice, "keywords", {})
            for name, metric in facts_of(choice, kind).metrics.items():
                bound[name] = partial(metric, **{key: values[key] for key in hyperparameters(metric)})
        return bound
