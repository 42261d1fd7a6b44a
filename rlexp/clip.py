"""Policy loss: ``clip(log_probs, old_log_probs, advantages, mask, *, knobs) -> losses``, all ``[*R P G T]``.

``log_probs`` carries the gradient; ``old_log_probs`` are those of the policy that sampled, fixed through the
inner steps. ρ = exp(log_probs − old_log_probs), never a quotient of log-probabilities. Losses are to be
minimised; positions outside ``mask`` hold finite numbers without a gradient and are dropped by ``agg``.
"""

from __future__ import annotations

from torch import minimum

from rlexp.types import NonNegative, PerToken, TokenMask


def naive(log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, mask: TokenMask) -> PerToken:
    """ℓ = −A · log π: vanilla policy gradient, no correction for reused rollouts (Williams, 1992)."""
    return -advantages * log_probs


def unclipped(log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, mask: TokenMask) -> PerToken:
    """ℓ = −ρ · A: importance-weighted policy gradient without a trust region (PPO, arXiv 1707.06347, eq. 6)."""
    return -(log_probs - old_log_probs).exp() * advantages


def ppo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    *,
    low: NonNegative,
    high: NonNegative,
) -> PerToken:
    """ℓ = −min(ρ·A, clip(ρ, 1 − low, 1 + high)·A).

    Source: PPO (arXiv 1707.06347, eq. 7) with low = high; clip-higher of DAPO (arXiv 2503.14476, eq. 8) with
    high > low. TRL ``epsilon``/``epsilon_high``, verl ``clip_ratio_low``/``clip_ratio_high`` (which adds a dual
    clip at 3 that is always on). The log-ratio is not clamped, as in TRL; verl and OpenRLHF clamp it at ±20.
    """
    ratio = (log_probs - old_log_probs).exp()
    return -minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


FUNCTIONS = {"naive": naive, "unclipped": unclipped, "ppo": ppo}
