"""Rewards to rewards before the advantages: ``shaping(rewards, …, *, hyperparameters) -> rewards``, ``[*R P G]``.

``lengths`` are in tokens, the end token included; ``finished`` says whether the completion ended by itself. ``drawn``
and ``hashed`` are numbers uniform in [0, 1), one a completion: the first are drawn anew at every step, the second
belong to the pair of prompt and completion for the whole run. A reward that is NaN (there is none) stays NaN.
"""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from pydantic import FiniteFloat
from torch import Tensor

from rlexp.axes.offered import SAMPLED
from rlexp.core.facts import Facts, ordered
from rlexp.core.masked import GROUP, masked_extreme, masked_mean
from rlexp.core.registry import by_name
from rlexp.core.types import CompletionMask, FiniteNonNegative, PerCompletion, PositiveInt, Probability

Deviation = Annotated[FiniteFloat, Ge(0)]

# Half the distance of two float32 numbers of a stream: keeps the normal quantile of a 0 finite (−5.4).
SMALLEST_UNIFORM = 2.0**-25


@Facts(is_noop=True)
def none(rewards: PerCompletion) -> PerCompletion:
    """r unchanged."""
    return rewards


def overlong_share(lengths: PerCompletion, cap: int, cache: int) -> PerCompletion:
    """How far a length reaches into the last ``cache`` tokens before ``cap``: 0 up to cap − cache, 1 from cap on."""
    return ((lengths - (cap - cache)) / cache).clamp(0, 1)


@Facts(problems=(ordered("cache", "cap"),))
def overlong(
    rewards: PerCompletion, lengths: PerCompletion, *, cap: PositiveInt, cache: PositiveInt, factor: FiniteNonNegative
) -> PerCompletion:
    """r − factor · x with x = (length − (cap − cache)) / cache, kept between 0 and 1.

    Source: soft overlong punishment of DAPO (arXiv 2503.14476, eq. 13). TRL ``get_soft_overlong_punishment``;
    OpenRLHF and verl scale by ``factor`` as here, verl without the floor at −factor.
    """
    return rewards - factor * overlong_share(lengths, cap, cache)


@Facts(problems=(ordered("cache", "cap"),))
def overlong_quadratic(
    rewards: PerCompletion, lengths: PerCompletion, *, cap: PositiveInt, cache: PositiveInt, factor: FiniteNonNegative
) -> PerCompletion:
    """r − factor · x², x as in ``overlong``: milder at first, the same at the cap.

    Source: the second reflection of the GRPO-TCR notebook; no framework has it.
    """
    return rewards - factor * overlong_share(lengths, cap, cache).square()


def truncated(
    rewards: PerCompletion, finished: CompletionMask, *, scale: FiniteFloat, penalty: FiniteFloat
) -> PerCompletion:
    """scale · r − penalty for a completion that was cut off, r for one that ended.

    Source: scale = penalty = 0 is understand-r1-zero (no end token: reward 0). OpenRLHF
    ``stop_properly_penalty_coef`` c ≥ 0 is scale = c; c < 0, which sets the reward to c, is scale = 0, penalty = −c.
    """
    return rewards.where(finished, scale * rewards - penalty)


def length_cost(rewards: PerCompletion, lengths: PerCompletion, *, cost: FiniteFloat) -> PerCompletion:
    """r − cost · length: every token costs the same, wherever it stands; a negative cost pays for length.

    Source: the constant cost of a step in reinforcement learning.
    """
    return rewards - cost * lengths


@Facts(of_group=True)
def length_by_pass_rate(rewards: PerCompletion, lengths: PerCompletion, *, weight: FiniteNonNegative) -> PerCompletion:
    """r − weight · mean_group(r) · length / max_group(length): short answers pay where most are right.

    Source: prime-rl ``LinearLengthPenaltyConfig`` with ``num_output_tokens_weight`` 0.25
    (``orchestrator/algo/grpo.py``, commit 559b447), whose terms of input tokens and turns are not here.
    """
    scored = ~rewards.isnan()
    longest = masked_extreme(lengths, scored, GROUP, 1).clamp(min=1)
    return rewards - weight * masked_mean(rewards, scored, GROUP) * lengths / longest


def affine(rewards: PerCompletion, *, a: FiniteFloat, b: FiniteFloat) -> PerCompletion:
    """a · r + b: which advantages depend on the scale of the rewards, and which on their level?

    ``norm=center`` follows a and ignores b, ``norm=local`` ignores both up to its eps, ``norm=none`` follows both.
    Source: with a > 0 the best policy is the same, as for every utility (von Neumann and Morgenstern, 1944).
    """
    return a * rewards + b


@Facts(problems=(ordered("low", "high"),))
def clip(rewards: PerCompletion, *, low: FiniteFloat, high: FiniteFloat) -> PerCompletion:
    """r, at least ``low`` and at most ``high``.

    Source: DQN (Mnih et al., 2015) clips to [−1, 1]. OpenRLHF ``--reward.clip_range`` (default ±10) and ROLL
    ``reward_clip`` are applied after the group norm instead.
    """
    return rewards.clamp(low, high)


def noise(rewards: PerCompletion, drawn: PerCompletion, *, std: Deviation) -> PerCompletion:
    """r + N(0, std²), drawn anew for every completion.

    The expected reward is the same: it costs variance alone. Source: the inherent noise of a reward channel
    (arXiv 1810.01032, §1), here Gaussian.
    """
    return rewards + std * standard_normal(drawn, rewards)


def noise_persistent(rewards: PerCompletion, hashed: PerCompletion, *, std: Deviation) -> PerCompletion:
    """r + N(0, std²), the same number whenever the same completion of the same prompt comes again in the run.

    The best completion can be another one. Source: a corrupt reward, a function of the state (arXiv 1705.08417), here
    Gaussian.
    """
    return rewards + std * standard_normal(hashed, rewards)


def standard_normal(uniforms: Tensor, like: Tensor) -> Tensor:
    return torch.special.ndtri(uniforms.clamp(min=SMALLEST_UNIFORM)).to(like.dtype)


@Facts(problems=(ordered("low", "high"),))
def flips(
    rewards: PerCompletion,
    drawn: PerCompletion,
    *,
    low: FiniteFloat,
    high: FiniteFloat,
    false_positives: Probability,
    false_negatives: Probability,
) -> PerCompletion:
    """Verdict of a verifier that errs: ``high`` for a wrong completion, ``low`` for a right one, drawn anew each time.

    A completion is right if its reward is above the middle of low and high. For rewards that are low or high,
    E[r'] = (1 − false_positives − false_negatives) · r + constant: the gradient shrinks and does not turn.
    Source: the channel of arXiv 2510.00915, rates ρ0 (false positives) and ρ1 (false negatives).
    """
    return with_verifier_errors(rewards, drawn, low, high, false_positives, false_negatives)


@Facts(problems=(ordered("low", "high"),))
def flips_persistent(
    rewards: PerCompletion,
    hashed: PerCompletion,
    *,
    low: FiniteFloat,
    high: FiniteFloat,
    false_positives: Probability,
    false_negatives: Probability,
) -> PerCompletion:
    """``flips`` whose error is the same whenever the same completion of the same prompt comes again in the run.

    Such errors do not average out: a wrong completion that is always accepted is an optimum. Source: systematic errors
    of a corrupt reward (arXiv 1705.08417).
    """
    return with_verifier_errors(rewards, hashed, low, high, false_positives, false_negatives)


def with_verifier_errors(
    rewards: Tensor, uniforms: Tensor, low: float, high: float, false_positives: float, false_negatives: float
) -> Tensor:
    """Replace the reward of a wrong completion by ``high`` and that of a right one by ``low`` at these rates."""
    correct = rewards > (low + high) / 2
    accepted = ~correct & (uniforms < false_positives) & ~rewards.isnan()
    rejected = correct & (uniforms < false_negatives)
    return rewards.masked_fill(accepted, high).masked_fill(rejected, low)


FUNCTIONS = by_name(none, overlong, overlong_quadratic, truncated, length_cost, length_by_pass_rate)
FUNCTIONS |= by_name(affine, clip, noise, noise_persistent, flips, flips_persistent)
INPUTS = SAMPLED
