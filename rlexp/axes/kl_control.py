"""The coefficient of the penalty over time: ``kl_control(kl_factor, ...) -> kl_factor``, one a replica ``[*R]``.

The coefficient of a step is ``kl.coef`` times a factor that begins at 1 and is kept in ``TrainState.memory``; these
functions say what follows it after a step. The proportional controller multiplies it by

    1 + clip(D / target − 1, −0.2, 0.2) · n / horizon

with D the divergence of the step, estimated by k1 so that a target means the same whatever ``kl`` is (the frameworks
feed the estimator of the penalty itself), and n completions in the loss. Source: Ziegler et al. (arXiv 1909.08593,
§2.2).
"""

from __future__ import annotations

from torch import Tensor

from rlexp.axes.offered import REMEMBERED
from rlexp.core.facts import Facts
from rlexp.core.masked import BATCH, count, masked_mean, masked_sum
from rlexp.core.memory import Memory
from rlexp.core.registry import by_name
from rlexp.core.types import PerReplica, PerToken, Positive, TokenMask

LARGEST_ERROR = 0.2


@Facts(is_noop=True)
def fixed(kl_factor: PerReplica) -> PerReplica:
    """Keep the coefficient. Source: what all frameworks do unless they are told otherwise."""
    return kl_factor


def adaptive(
    kl_factor: PerReplica,
    old_log_probs: PerToken,
    ref_log_probs: PerToken,
    mask: TokenMask,
    *,
    target: Positive,
    horizon: Positive,
) -> PerReplica:
    """factor · (1 + clip(D / target − 1, −0.2, 0.2) · n / horizon) with D in nats a token.

    D is the mean over completions of their mean over tokens.
    Source: verl ``AdaptiveKLController``, OpenRLHF, ROLL; horizon 10000 in all, target 0.1 in verl.
    """
    divergences = masked_mean(old_log_probs - ref_log_probs, mask, (-1,))
    return proportional_step(kl_factor, divergences, mask, target, horizon)


def ziegler(
    kl_factor: PerReplica,
    old_log_probs: PerToken,
    ref_log_probs: PerToken,
    mask: TokenMask,
    *,
    target: Positive,
    horizon: Positive,
) -> PerReplica:
    """factor · (1 + clip(D / target − 1, −0.2, 0.2) · n / horizon) with D in nats a completion.

    D is the mean over completions of their sum over tokens.
    Source: Ziegler et al. (with K_β = n / horizon = 0.1); TRL's first ``PPOTrainer`` (target 6, horizon 10000).
    """
    divergences = masked_sum(old_log_probs - ref_log_probs, mask, (-1,))
    return proportional_step(kl_factor, divergences, mask, target, horizon)


def proportional_step(
    kl_factor: PerReplica, divergences: Tensor, mask: TokenMask, target: float, horizon: float
) -> PerReplica:
    """Move the factor by the divergences ``[*R P G 1]`` of the completions in the loss; without any it stays."""
    counted = mask.any(-1)
    divergence = masked_mean(divergences.squeeze(-1), counted, BATCH).squeeze(BATCH)
    completions = count(counted, BATCH, divergence.dtype).squeeze(BATCH)
    error = (divergence / target - 1).clamp(-LARGEST_ERROR, LARGEST_ERROR)
    return kl_factor * (1 + error * completions / horizon)


def initial_factor() -> float:
    """Return the factor of the first step."""
    return 1.0


FUNCTIONS = by_name(fixed, adaptive, ziegler)
TEXT = "factor of kl.coef in this step"
MEMORIES = {name: Memory("kl_factor", initial_factor, function, TEXT) for name, function in FUNCTIONS.items()}
INPUTS = REMEMBERED
