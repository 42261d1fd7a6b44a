"""Correction of what trainer and sampler disagree about: ``mismatch(losses, ..., *, …) -> losses``, ``[*R P G T]``.

The sampler's policy is not quite the trainer's: other kernels, other precision. The per-token policy losses are
multiplied by a weight of κ = π_old / π_sampler, both of the policy that sampled: π_old as the trainer computes it,
π_sampler as the tokens were drawn. Weights carry no gradient; penalties and bonuses are not multiplied. A token with
weight 0 stays in the denominator of ``agg``. Without a disagreement (``sampler=exact``) every weight is exactly 1. ρ,
and with it every bound of ``clip``, is against π_old. log κ, its sum and its mean are bounded (``ratio``), as in verl.
"""

from __future__ import annotations

from pydantic import FiniteFloat
from torch import Tensor, arange
from torch.nn.functional import pad

from rlexp.axes.offered import LOSS, LOSSES
from rlexp.axes.ratio import bounded, bounded_exp
from rlexp.core.facts import Facts, ordered
from rlexp.core.masked import TIME, masked_mean, masked_sum
from rlexp.core.registry import by_name
from rlexp.core.types import NonNegative, PerReplica, PerToken, Positive, TokenMask

FAR = 1e4  # nats, far beyond what can be exponentiated


@Facts(is_noop=True)
def none(losses: PerToken) -> PerToken:
    """Losses as they are: the disagreement stays, as a bias."""
    return losses


@Facts(problems=(ordered("low", "high"),))
def token_truncate(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: Positive,
) -> PerToken:
    """ℓ · clip(κ, low, high) for each token: truncated importance sampling (TIS).

    Source: TRL ``token_truncate``; verl ``rollout_is=token`` with 2; slime ``--use-tis`` with [0, 2]; open-instruct
    with 2, on by default; OpenRLHF ``tis`` with [0.5, 5]; oat min(κ, 2).
    """
    return losses * token_ratio(old_log_probs, sampler_log_probs, mask, log_ratio_bound).clamp(low, high)


@Facts(problems=(ordered("low", "high"),))
def token_mask(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: Positive,
) -> PerToken:
    """ℓ · κ where low ≤ κ ≤ high, else 0: masked importance sampling (MIS), IcePop.

    Source: IcePop; TRL ``token_mask``, verl ``rollout_is_threshold=0.5_5.0``, OpenRLHF and slime ``icepop``. ROLL's
    filter, [0.8, 1.2], takes such tokens out of the mask, also for KL, and multiplies the others by κ only with
    ``is_weight``. The bounds of the YAML are those that OpenRLHF gives its TIS.
    """
    return losses * zero_outside(token_ratio(old_log_probs, sampler_log_probs, mask, log_ratio_bound), low, high)


@Facts(problems=(ordered("low", "high"),))
def sequence_truncate(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: Positive,
) -> PerToken:
    """ℓ · clip(Π_t κ_t, low, high): one weight a completion, the product over its tokens that count.

    A product, not a geometric mean: that is the ratio of the probabilities of the completion. Source: TRL
    ``sequence_truncate``; verl ``rollout_is=sequence``, its default level; ROLL ``sequence``.
    """
    return losses * sequence_ratio(old_log_probs, sampler_log_probs, mask, log_ratio_bound).clamp(low, high)


@Facts(problems=(ordered("low", "high"),))
def sequence_mask(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: Positive,
) -> PerToken:
    """ℓ · Π_t κ_t where low ≤ Π_t κ_t ≤ high, else 0: whole completions are dropped.

    Source: TRL ``sequence_mask``, its default, with 3. With the geometric mean: ``geometric_mask``.
    """
    return losses * zero_outside(sequence_ratio(old_log_probs, sampler_log_probs, mask, log_ratio_bound), low, high)


@Facts(problems=(ordered("low", "high"),))
def geometric_mask(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: Positive,
) -> PerToken:
    """ℓ · κ where low ≤ κ̄ ≤ high, else 0; κ̄ = exp(mean_t log κ), so that no length is more suspect than another.

    Source: OpenRLHF ``seq-mask-tis``, which leaves κ to the token, unbounded, as here; open-instruct
    ``rho_mask_sequence_level`` multiplies every token by κ̄ instead, at most 2.
    """
    near = geometric_near(old_log_probs, sampler_log_probs, mask, log_ratio_bound, low, high)
    return (losses * token_ratio(old_log_probs, sampler_log_probs, mask, log_ratio_bound)).where(near, 0.0)


@Facts(problems=(ordered("low", "high"),))
def geometric_reject(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: Positive,
) -> PerToken:
    """ℓ where low ≤ κ̄ ≤ high, else 0: completions are rejected, and those that stay are not weighed.

    Source: verl ``rollout_rs=seq_mean_k1``, whose bounds are those of 1 / κ̄. There what is rejected leaves the
    denominator as well. Its ``seq_sum_k1`` decides by the product, as ``sequence_mask`` does, which weighs too.
    """
    near = geometric_near(old_log_probs, sampler_log_probs, mask, log_ratio_bound, low, high)
    return losses.where(near, 0.0)


def divergence_reject(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    high: NonNegative,
) -> PerToken:
    """ℓ where mean_t (κ − 1 − log κ) ≤ high, else 0: errors of both signs add up, which in κ̄ they do not.

    The mean estimates KL(π_sampler‖π_old) a token, in nats. Source: verl ``rollout_rs=seq_mean_k3``, where what is
    rejected leaves the denominator as well.
    """
    log_ratio = bounded((old_log_probs - sampler_log_probs).where(mask, 0.0), log_ratio_bound)
    return losses.where(masked_mean(log_ratio.exp() - 1 - log_ratio, mask, TIME) <= high, 0.0)


@Facts(problems=(ordered("low", "high"),))
def token_veto(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: Positive,
) -> PerToken:
    """ℓ where low ≤ κ ≤ high for every token of the completion, else 0 for all of them: one token vetoes the rest.

    Source: SkyRL ``outlier_token_is_threshold_low`` and ``_high`` with 1e-4 and 100 (``compute_outlier_token_mask`` in
    ``off_policy_correction_utils.py``, commit a956457). verl's ``rollout_token_veto_threshold`` had the lower bound.
    """
    ratio = token_ratio(old_log_probs, sampler_log_probs, mask, log_ratio_bound)
    return losses.where(between(ratio, low, high).all(-1, keepdim=True), 0.0)


@Facts(problems=(ordered("low", "high"),))
def probability_reject(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    *,
    low: FiniteFloat,
    high: FiniteFloat,
) -> PerToken:
    """ℓ of tokens where low ≤ π_old − π_sampler ≤ high, else 0: a rare token may have any ratio.

    Source: ROLL ``diff_enabled`` at the level of tokens, with ±0.2 (``roll/utils/train_infer_corrections.py``, commit
    8eb27cc), where what is rejected leaves the mask.
    """
    difference = (old_log_probs.exp() - sampler_log_probs.exp()).where(mask, 0.0)
    return losses.where(between(difference, low, high), 0.0)


@Facts(problems=(ordered("low", "high"),))
def truncate_and_reject(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    most: Positive,
    low: NonNegative,
    high: Positive,
) -> PerToken:
    """ℓ · min(κ, most) where low ≤ κ̄ ≤ high, else 0: ``token_truncate`` and ``geometric_reject`` at once.

    Source: verl ``rollout_is=token`` with ``rollout_rs=seq_mean_k1``, whose bounds are those of 1 / κ̄; there what is
    rejected leaves the denominator as well.
    """
    truncated = losses * token_ratio(old_log_probs, sampler_log_probs, mask, log_ratio_bound).clamp(max=most)
    near = geometric_near(old_log_probs, sampler_log_probs, mask, log_ratio_bound, low, high)
    return truncated.where(near, 0.0)


@Facts(of_turns=True, problems=(ordered("low", "high"),))
def segment_truncate(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: Positive,
) -> PerToken:
    """ℓ · clip(κ̄, low, high), κ̄ = exp(mean_t log κ) over the segment of the token: one weight a turn.

    A segment is a run of tokens that count, between others that do not: what the policy has written between two answers
    of an environment, or what ``filter.loss`` has left. Without gaps it is the completion. Source: ROLL
    ``is_weight.weight_type=segment``, at most 1.2 (``roll/utils/train_infer_corrections.py``, commit 8eb27cc).
    """
    ratio = segment_ratio(old_log_probs, sampler_log_probs, mask, log_ratio_bound)
    return losses * ratio.clamp(low, high)


@Facts(of_turns=True, problems=(ordered("low", "high"),))
def segment_reject(
    losses: PerToken,
    old_log_probs: PerToken,
    sampler_log_probs: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: Positive,
) -> PerToken:
    """ℓ where low ≤ κ̄ ≤ high, else 0, κ̄ as in ``segment_truncate``: turns are rejected, the others not weighed.

    Without an environment it is ``geometric_reject``. Source: ROLL, a filter with ``agg_type=segment``, 0.8 and 1.2
    (``roll/utils/train_infer_corrections.py``, commit 8eb27cc), where what is rejected leaves the mask.
    """
    ratio = segment_ratio(old_log_probs, sampler_log_probs, mask, log_ratio_bound)
    return losses.where(between(ratio, low, high), 0.0)


def token_ratio(old_log_probs: Tensor, sampler_log_probs: Tensor, mask: Tensor, bound: PerReplica) -> Tensor:
    """κ of each token, 1 where it does not count."""
    return bounded_exp((old_log_probs - sampler_log_probs).where(mask, 0.0), bound)


def sequence_ratio(old_log_probs: Tensor, sampler_log_probs: Tensor, mask: Tensor, bound: PerReplica) -> Tensor:
    """Π_t κ_t of each completion, ``[*R P G 1]``; 1 where nothing counts."""
    return bounded_exp(masked_sum(old_log_probs - sampler_log_probs, mask, TIME), bound)


def segment_ratio(old_log_probs: Tensor, sampler_log_probs: Tensor, mask: Tensor, bound: PerReplica) -> Tensor:
    """κ̄ of the run of tokens that count in which a token stands, ``[*R P G T]``; 1 where it does not count."""
    places = arange(mask.shape[-1], device=mask.device).expand(mask.shape)
    # of each token the places of the last one before it, and of the first one behind it, that do not count
    before = places.masked_fill(mask, -1).cummax(-1).values
    behind = places.masked_fill(mask, mask.shape[-1]).flip(-1).cummin(-1).values.flip(-1)
    log_ratio = (old_log_probs - sampler_log_probs).where(mask, 0.0)
    log_ratio = log_ratio.clamp(-FAR, FAR)  # an infinite one would be NaN in the differences behind it
    sums = pad(log_ratio.cumsum(-1), (1, 0))
    mean = (sums.gather(-1, behind) - sums.gather(-1, before + 1)) / (behind - before - 1).clamp(min=1)
    return bounded_exp(mean.where(mask, 0.0), bound)


def zero_outside(ratio: Tensor, low: float, high: float) -> Tensor:
    """Return the ratio where it is between the bounds, which belong to what is between them, else 0."""
    return ratio.where(between(ratio, low, high), 0.0)


def geometric_near(old: Tensor, sampler: Tensor, mask: Tensor, bound: PerReplica, low: float, high: float) -> Tensor:
    """Whether low ≤ κ̄ ≤ high for each completion, ``[*R P G 1]``; κ̄ is 1 where nothing counts."""
    return between(bounded_exp(masked_mean(old - sampler, mask, TIME), bound), low, high)


def between(values: Tensor, low: float, high: float) -> Tensor:
    """Whether low ≤ value ≤ high, for each."""
    return (values >= low) & (values <= high)


FUNCTIONS = by_name(none, token_truncate, token_mask, sequence_truncate, sequence_mask)
FUNCTIONS |= by_name(geometric_mask, geometric_reject, divergence_reject, truncate_and_reject)
FUNCTIONS |= by_name(token_veto, probability_reject, segment_truncate, segment_reject)
INPUTS = LOSS | LOSSES
