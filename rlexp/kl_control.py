"""The coefficient of the penalty over time: ``kl_control(kl_factor, ...) -> kl_factor``, one a replica ``[*R]``.

The coefficient of a step is ``kl.coef`` times a factor that begins at 1 and is kept in ``Fleet.memory``; these
functions say what follows it after a step. The proportional controller multiplies it by

    1 + clip(D / target − 1, −0.2, 0.2) · n / horizon

with D the divergence of the step, estimated by k1 so that a target means the same whatever ``kl`` is (the frameworks
feed the estimator of the penalty itself), and n completions in the loss. Source: Ziegler et al. (arXiv 1909.08593,
§2.2).
"""

from __future__ import annotations

from torch import Tensor

from rlexp.masked import BATCH, count, masked_mean, masked_sum
from rlexp.memory import Memory
from rlexp.types import PerReplica, PerToken, Positive, TokenMask

STEEPEST = 0.2


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
    """D in nats a token: mean over completions of their mean over tokens.

    Source: verl ``AdaptiveKLController``, OpenRLHF, ROLL; horizon 10000 in all, target 0.1 in verl.
    """
    divergences = masked_mean(old_log_probs - ref_log_probs, mask, (-1,))
    return controlled(kl_factor, divergences, mask, target, horizon)


def ziegler(
    kl_factor: PerReplica,
    old_log_probs: PerToken,
    ref_log_probs: PerToken,
    mask: TokenMask,
    *,
    target: Positive,
    horizon: Positive,
) -> PerReplica:
    """D in nats a completion: mean over completions of their sum over tokens.

    Source: Ziegler et al. (with K_β = n / horizon = 0.1); TRL's first ``PPOTrainer`` (target 6, horizon 10000).
    """
    divergences = masked_sum(old_log_probs - ref_log_probs, mask, (-1,))
    return controlled(kl_factor, divergences, mask, target, horizon)


def controlled(
    kl_factor: PerReplica, divergences: Tensor, mask: TokenMask, target: float, horizon: float
) -> PerReplica:
    """Move the factor by the divergences ``[*R P G 1]`` of the completions in the loss; without any it stays."""
    counted = mask.any(-1)
    divergence = masked_mean(divergences.squeeze(-1), counted, BATCH).squeeze(BATCH)
    completions = count(counted, BATCH, divergence.dtype).squeeze(BATCH)
    error = (divergence / target - 1).clamp(-STEEPEST, STEEPEST)
    return kl_factor * (1 + error * completions / horizon)


def one() -> float:
    """Return the factor of the first step."""
    return 1.0


FUNCTIONS = {"fixed": fixed, "adaptive": adaptive, "ziegler": ziegler}
MEMORIES = {name: Memory("kl_factor", one, function) for name, function in FUNCTIONS.items()}
