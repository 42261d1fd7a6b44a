"""Policy losses of tokens by all that stands before them: a state is only as old as the tokens that led to it.

What the gradient of a token has to be weighed by, if an older policy sampled, is the ratio of the whole prefix,
Π_{j ≤ t} ρ_j (arXiv 2601.22718, 2605.07331): ``ratio`` and ``weighted`` take ρ_t alone, ``completion`` that of all
tokens. t counts the tokens of a completion that are in ``mask``, from 1.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, minimum
from torch.nn.functional import pad

from rlexp.axes.clip.ratio import ppo, unclipped
from rlexp.axes.ratio import bounded, bounded_exp
from rlexp.core.facts import Curves, LossFacts
from rlexp.core.masked import TIME, count
from rlexp.core.types import FiniteNonNegative, NonNegative, PerReplica, PerToken, Share, TokenMask

OF_THE_FIRST = "of the first token, which has no prefix."


@LossFacts(curves=Curves(f"ctpo: {OF_THE_FIRST}"))
def ctpo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: FiniteNonNegative,
    high: FiniteNonNegative,
    c: FiniteNonNegative,
    power: float,
    over: Literal["sum", "mean"],
) -> PerToken:
    """ℓ = −min(R·A, clip(R, e^(−low·tᵖ), e^(high·tᵖ))·A), for A < 0 at most −e^(c·tᵖ)·A; p = ``power``.

    R_t = exp(sg(Σ_{j ≤ t} log ρ_j) + log π − sg(log π)), or the mean over j ≤ t for the sum: the ratio of the prefix,
    with the gradient of its last token. The spread of a sum grows as √t, that of a mean falls so: bounds of power 0.5
    and −0.5 clip as often at every place. Source: CTPO (arXiv 2605.07331), read in the authors' code, horizon-llm/CTPO
    acc4021 (``_compute_policy_loss_cum_token_la_impl``), which bounds log R at 10 from above and log ρ_j at ±20.
    """
    places = mask.cumsum(-1).clamp(min=1).to(log_probs.dtype)
    total = (log_probs.detach() - old_log_probs).where(mask, 0.0).cumsum(-1)
    total = total / places if over == "mean" else total
    log_prefix = bounded(total + log_probs - log_probs.detach(), log_ratio_bound)
    room = (power * places.log()).exp()
    clipped = minimum((-low * room).maximum(log_prefix), high * room)
    losses = -minimum(log_prefix.exp() * advantages, clipped.exp() * advantages)
    return minimum(losses, -(c * room).exp() * advantages).where(advantages < 0, losses)


@LossFacts(curves=Curves(f"minpro: {OF_THE_FIRST}"))
def minpro(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
) -> PerToken:
    """``ppo`` times sg(min_{j < t} ρ_j), 1 for the first token: the prefix by its least likely token alone.

    Source: MinPRO (arXiv 2601.22718), of which the summary was read: the product of the ratios before a token is
    replaced by the smallest of them. That the token's own ratio is clipped as in PPO is this project's reading.
    """
    log_ratio = (log_probs.detach() - old_log_probs).masked_fill(~mask, float("inf"))
    before = pad(log_ratio.cummin(-1).values[..., :-1], (1, 0), value=float("inf"))
    weights = bounded_exp(before.where(before.isfinite(), 0.0), log_ratio_bound)
    return weights * ppo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, low=low, high=high)


@LossFacts(curves=Curves(f"mu_grpo: {OF_THE_FIRST}"))
def mu_grpo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
) -> PerToken:
    """``ppo``, and 0 for tokens with A < 0 behind the first of the completion with ρ outside [1 − low, 1 + high].

    Wide bounds keep the gradient of old tokens; what they would let through of punishment for tokens in places that the
    policy no longer reaches is vetoed. The token that triggers keeps what ``ppo`` leaves it: nothing below 1 − low, all
    above 1 + high. Source: μ-GRPO (arXiv 2605.17570), of which the summary was read: relaxed clipping, and no updates
    behind the trigger in completions with A < 0. That the trigger is a ratio out of the bounds of the clip, on either
    side, and that it is the first of them, is this project's reading. The tokens that are left out stay in the
    denominator.
    """
    ratio = bounded_exp(log_probs.detach() - old_log_probs, log_ratio_bound)
    triggers = mask & ((ratio < 1 - low) | (ratio > 1 + high))
    behind = triggers.cumsum(-1) > triggers
    losses = ppo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, low=low, high=high)
    return losses.masked_fill(behind & (advantages < 0), 0.0)


@LossFacts(curves=Curves("cppo: of the first token, whose probability was 0.1."))
def cppo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    delta: NonNegative,
    last: Share,
    budget: FiniteNonNegative,
) -> PerToken:
    """ℓ = −ρ · A, and 0 where A(ρ − 1) > 0 and w_t D_t > delta + min(0, b · Σ_{j < t} w_j − Σ_{j < t} w_j D_j).

    D = |π − π_old|, probabilities of the token. w falls from 1 at the first token to ``last`` at the last one, so that
    early tokens, which all others follow, may move less; what the prefix has moved beyond b a token is taken off what
    is left. b is the 0.9 quantile of the completion's D, at least ``budget`` and at most twice that. Source: CPPO
    (arXiv 2606.10968, eq. 8–11), read in UniRL 30899fc (``_cppo_mask``), with 0.2, 0.8 and 0.02; there π_old is the
    policy that sampled. The tokens that are left out stay in the denominator.
    """
    new, old = log_probs.detach().exp(), old_log_probs.exp()
    moved = (new - old).abs().where(mask, 0.0)
    passed = (mask.cumsum(-1) - 1).to(moved.dtype) / (count(mask, TIME, moved.dtype) - 1).clamp(min=1)
    weights = (1 - (1 - last) * passed).where(mask, 0.0)
    allowed = quantile(moved, mask, 0.9).clamp(budget, 2 * budget)
    spent, due = ((each.cumsum(-1) - each) for each in (weights * moved, weights))
    too_far = weights * moved > (delta + allowed * due - spent).clamp(max=delta)
    left_out = mask & too_far & (advantages * (new - old) > 0)
    return unclipped(log_probs, old_log_probs, advantages, mask, log_ratio_bound).masked_fill(left_out, 0.0)


def quantile(values: Tensor, mask: Tensor, level: float) -> Tensor:
    """Return a quantile over the tokens of each completion, ``[*R P G 1]``, between two of them linearly; 0 of none."""
    ordered = values.masked_fill(~mask, float("inf")).sort(-1).values
    place = level * (count(mask, TIME, values.dtype) - 1).clamp(min=0)
    first, second = (ordered.gather(-1, each.long()) for each in (place.floor(), place.ceil()))
    found = first + (second - first) * (place - place.floor())
    return found.where(mask.any(-1, keepdim=True), 0.0)
