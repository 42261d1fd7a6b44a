"""An advantage for each token, from what is still to come, without a critic."""

from __future__ import annotations

from torch import Tensor, ones_like, stack

from rlexp.core.facts import NormFacts
from rlexp.core.masked import (
    ALL,
    GROUP,
    at_last_token,
    centered,
    is_constant,
    masked_std,
    masked_sum,
)
from rlexp.core.registry import by_name
from rlexp.core.types import (
    CompletionMask,
    Ddof,
    Discount,
    PerCompletion,
    PerToken,
    Positive,
    TokenMask,
)

SAME_STEP = (-2,)
SMALLEST_ENERGY = 1e-12


@NormFacts(laws=("linear",))
def reinforce(outcomes: PerCompletion, token_penalties: PerToken, mask: TokenMask, *, gamma: Discount) -> PerToken:
    """A_t = G_t = Σ_{k ≥ t} gamma^(k − t) · r_k, r_k the token rewards.

    Source: REINFORCE (Williams, 1992) with reward to go; ROLL ``reinforce``. OpenRLHF's ``reinforce`` whitens it, which
    is ``reinforce_pp``. With gamma = 1 and no penalty it is ``norm=none``.
    """
    return returns_to_go(token_rewards(outcomes, token_penalties, mask), mask, gamma)


@NormFacts(compares="tokens", laws=("scale", "zero token sum"))
def reinforce_pp(
    outcomes: PerCompletion,
    token_penalties: PerToken,
    mask: TokenMask,
    keep: CompletionMask,
    *,
    gamma: Discount,
    eps: Positive,
    ddof: Ddof,
) -> PerToken:
    """A_t = (G_t − mean) / (std + eps) with G_t as in ``reinforce``, statistics over all tokens of the batch.

    Source: REINFORCE++ (arXiv 2501.03262). verl ``reinforce_plus_plus`` (ddof 1) divides by √(var + 1e-8), OpenRLHF
    ``reinforce`` (ddof 0) by √max(var, 1e-8); slime whitens only on demand. Long completions weigh more in the
    statistics.
    """
    counted = mask & keep.unsqueeze(-1)
    returns = returns_to_go(token_rewards(outcomes, token_penalties, mask), mask, gamma)
    return centered(returns, counted, ALL) / (masked_std(returns, counted, ALL, ddof) + eps)


@NormFacts(compares="group", laws=("scale", "zero token sum"), breaks=("equal group",))
def reinforce_pp_baseline(
    outcomes: PerCompletion,
    token_penalties: PerToken,
    mask: TokenMask,
    keep: CompletionMask,
    *,
    gamma: Discount,
    eps: Positive,
    ddof: Ddof,
) -> PerToken:
    """``reinforce_pp`` of outcomes minus their group mean; the penalty enters after the mean, as reward to go.

    Source: REINFORCE++-baseline (arXiv 2501.03262); the order of OpenRLHF ``reinforce_baseline``, where gamma is always
    1. verl takes the penalty into the group mean, and each token bears that of its whole completion; slime subtracts
    each token's own without summing what follows. Without a penalty and with gamma = 1 they agree.
    """
    return reinforce_pp(centered(outcomes, keep, GROUP), token_penalties, mask, keep, gamma=gamma, eps=eps, ddof=ddof)


@NormFacts(compares="group", laws=("linear",))
def optimal_token(
    outcomes: PerCompletion,
    token_penalties: PerToken,
    mask: TokenMask,
    keep: CompletionMask,
    old_log_probs: PerToken,
    sum_pi_squared: PerToken,
) -> PerToken:
    """A_t = G_t − B_t with B_t = Σ_g G_t W_t / Σ_g W_t over the group's completions that reach step t.

    W_t = Σ_{j ≤ t} (1 − 2π_j + Σ_v π_j(v)²) is the squared norm of the gradient in the logits up to t: B_t is the
    baseline of least variance if nothing else differs. Source: verl ``optimal_token_baseline``, which adds 1e-8 to
    Σ_g W_t and can leave out the baseline where only one completion is left (``handle_zero_tail``); here such tokens
    have A = 0.
    """
    returns = returns_to_go(token_rewards(outcomes, token_penalties, mask), mask, 1.0)
    counted = mask & keep.unsqueeze(-1)
    energy = gradient_energy(old_log_probs, sum_pi_squared, mask).cumsum(-1)
    baseline = masked_sum(energy * returns, counted, SAME_STEP) / masked_sum(energy, counted, SAME_STEP)
    return (returns - baseline).masked_fill(is_constant(returns, counted, SAME_STEP), 0.0)


def token_rewards(outcomes: Tensor, token_penalties: Tensor, mask: Tensor) -> Tensor:
    """Outcome at the last token that counts, minus the penalty at each: ``[*R P G T]``."""
    return at_last_token(outcomes, mask) - token_penalties


def returns_to_go(rewards: Tensor, mask: Tensor, gamma: float | Tensor) -> Tensor:
    """Σ_{k ≥ t} gamma^n · r_k along time, n the tokens from t to before k that count; gamma may differ by completion.

    A tensor of them is ``[*R P G 1]``.
    """
    total, sums = 0.0, []
    factors = (gamma * ones_like(rewards)).where(mask, 1.0)
    for reward, factor in zip(reversed(rewards.unbind(-1)), reversed(factors.unbind(-1)), strict=True):
        total = reward + factor * total
        sums.append(total)
    return stack(sums[::-1], -1)


def gradient_energy(old_log_probs: Tensor, sum_pi_squared: Tensor, mask: Tensor) -> Tensor:
    """‖∂ log π / ∂ logits‖² = 1 − 2π + Σ_v π(v)² of each token, at temperature 1; 0 outside the mask.

    At least ``SMALLEST_ENERGY``, as far below what float32 resolves: where the policy is certain, rounding would decide
    about the weights and even their sign; so all weigh the same.
    """
    return (1 - 2 * old_log_probs.exp() + sum_pi_squared).clamp(min=SMALLEST_ENERGY).where(mask, 0.0)


FUNCTIONS = by_name(reinforce, reinforce_pp, reinforce_pp_baseline, optimal_token)
