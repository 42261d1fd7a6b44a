"""Rewards less a mean, over a deviation, of a group, a batch, or both."""

from __future__ import annotations

from pydantic import FiniteFloat
from torch import eye

from rlexp.core.facts import NormFacts
from rlexp.core.masked import (
    BATCH,
    GROUP,
    centered,
    count,
    is_constant,
    masked_extreme,
    masked_mean,
    masked_std,
    masked_sum,
)
from rlexp.core.registry import by_name
from rlexp.core.types import (
    CompletionMask,
    Ddof,
    Level,
    PerCompletion,
    PerComponent,
    Positive,
    Weights,
)


@NormFacts(laws=("linear",))
def none(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r: plain REINFORCE without a baseline (Williams, 1992)."""
    return rewards


@NormFacts(compares="group", laws=("linear", "zero sum"))
def center(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r − mean_group.

    Source: Dr. GRPO (arXiv 2503.20783). TRL ``scale_rewards="none"``, verl ``norm_adv_by_std_in_grpo=False``,
    open-instruct ``centered``. Peers disagree on a group of one: verl returns r, the others 0 or refuse; here 0.
    """
    return centered(rewards, keep, GROUP)


@NormFacts(compares="batch", laws=("linear", "zero batch sum"))
def center_batch(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r − mean_batch: one baseline for all prompts of the step.

    Source: ROLL ``norm_mean_type=batch, norm_std_type=None``.
    """
    return centered(rewards, keep, BATCH)


@NormFacts(compares="group", laws=("scale", "zero sum"))
def local(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_group) / (std_group + eps).

    Source: GRPO (arXiv 2402.03300, §4.1.2). TRL ``scale_rewards="group"`` (eps 1e-4), verl ``grpo`` (1e-6),
    OpenRLHF ``group_norm`` (1e-9); all ddof 1, open-instruct ``standard`` ddof 0 (1e-8).
    """
    return centered(rewards, keep, GROUP) / (masked_std(rewards, keep, GROUP, ddof) + eps)


@NormFacts(compares="batch", laws=("scale", "zero batch sum"))
def global_(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_batch) / (std_batch + eps), statistics over all completions of the run's step.

    Source: REINFORCE with whitened returns; ROLL ``norm_mean_type=batch, norm_std_type=batch``.
    """
    return centered(rewards, keep, BATCH) / (masked_std(rewards, keep, BATCH, ddof) + eps)


@NormFacts(compares="group", laws=("scale", "zero sum"), breaks=("group shift",))
def hybrid(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_group) / (std_batch + eps), the deviation over the raw rewards of the batch.

    Source: Lite PPO (arXiv 2508.08221). TRL ``scale_rewards="batch"`` and ROLL mean=group, std=batch use raw
    rewards as here; REINFORCE++-baseline (arXiv 2501.03262) takes the deviation of the centered ones.
    """
    return centered(rewards, keep, GROUP) / (masked_std(rewards, keep, BATCH, ddof) + eps)


@NormFacts(compares="group", laws=("scale", "zero sum"))
def hybrid_centered(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_group) / (std_batch + eps), the deviation over the centered rewards of the batch.

    Source: ROLL ``group_reward_norm(div_std_global=True)``; REINFORCE++-baseline (arXiv 2501.03262) without weights by
    length. The difficulty of the prompts does not enter the scale, as it does in ``hybrid``. Up to eps it is also
    TRL's ``RLOOTrainer(normalize_advantages=True)``.
    """
    deviations = centered(rewards, keep, GROUP)
    return deviations / (masked_std(deviations, keep, BATCH, ddof) + eps)


@NormFacts(compares="group", laws=("scale",), breaks=("group shift", "faint"))
def batch_mean_group_std(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_batch) / (std_group + eps).

    Source: ROLL ``norm_mean_type=batch, norm_std_type=group``, whose shapes do not fit in the version read. Without the
    rule on equal rewards such a group would have advantages of order 1 / eps, and so it has if its rewards differ by as
    little: with KL in the reward, of order 1 / ``kl.coef``.
    """
    advantages = centered(rewards, keep, BATCH) / (masked_std(rewards, keep, GROUP, ddof) + eps)
    return advantages.masked_fill(is_constant(rewards, keep, GROUP), 0.0)


@NormFacts(compares="group", laws=("linear", "zero sum"))
def rloo(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r − mean of the other completions of the group = n/(n − 1) · (r − mean_group).

    Source: RLOO (arXiv 2402.14740). TRL ``RLOOTrainer``, verl ``rloo``, OpenRLHF ``rloo``.
    """
    kept = count(keep, GROUP, rewards.dtype)
    return centered(rewards, keep, GROUP) * kept / (kept - 1).clamp(min=1)


@NormFacts(compares="group")
def rloo_zscore(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive) -> PerCompletion:
    """A = (r − mean of the others) / (std of the others + eps), ddof 1; where the others are all equal, r − their mean.

    So the only right answer of a group has A = 1 and the only wrong one −1, whatever n: less than with ``local``, where
    they have nearly √(n − 1). Source: NeMo-RL 7ea279a, the default of its GRPO (``GRPOAdvantageEstimator`` with
    ``use_leave_one_out_baseline`` and ``normalize_rewards``), eps 1e-6.
    """
    others = keep.unsqueeze(-2) & ~eye(keep.shape[-1], dtype=keep.dtype, device=keep.device)
    theirs, advantages = rewards.unsqueeze(-2).expand(others.shape), rloo(rewards, keep)
    scaled = advantages / (masked_std(theirs, others, GROUP, 1).squeeze(-1) + eps)
    return advantages.where(is_constant(theirs, others, GROUP).squeeze(-1), scaled)


@NormFacts(compares="group", laws=("scale",))
def quantile(rewards: PerCompletion, keep: CompletionMask, *, level: Level, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − Q) / (std_group + eps), Q the smallest reward that a share ``level`` of the group does not exceed.

    Source: quantile advantage estimation (arXiv 2509.22611), level 0.4. For 0/1 rewards with success rate p it only
    reinforces what is right where p ≤ 1 − level, and only punishes what is wrong elsewhere: most advantages are 0.
    ``level`` 0.5 is the median. The deviation stays the standard one: the median absolute deviation is 0 as soon as
    more than half of a group agrees, which 0/1 rewards nearly always do.
    """
    others = rewards.unsqueeze(-2)
    not_above = ((others <= rewards.unsqueeze(-1)) & keep.unsqueeze(-2)).sum(-1)
    enough = not_above.double() >= level * keep.sum(-1, keepdim=True).double()
    threshold = masked_extreme(rewards, keep & enough, GROUP, -1)
    advantages = (rewards - threshold) / (masked_std(rewards, keep, GROUP, ddof) + eps)
    return advantages.masked_fill(is_constant(rewards, keep, GROUP), 0.0)


@NormFacts(compares="group", laws=("linear", "zero sum"))
def gpg(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = α · (r − mean_group), α = completions / completions of groups whose rewards differ.

    Source: GPG (arXiv 2504.02546), where groups without a gradient are taken out of the denominator. verl ``gpg``
    divides by the number of completions with a reward other than 0 instead, which is another number.
    """
    varied = keep & ~is_constant(rewards, keep, GROUP)
    alpha = count(keep, BATCH, rewards.dtype) / count(varied, BATCH, rewards.dtype).clamp(min=1)
    return alpha * centered(rewards, keep, GROUP)


@NormFacts(compares="group", laws=("scale", "zero sum"), breaks=("shift", "group shift"))
def maxrl(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = (r − mean_group) / mean_group, 0 where the mean is not positive; for rewards ≥ 0.

    Source: MaxRL (arXiv 2602.02710), whose expected update on 0/1 rewards tends to that of log p, a weight of 1/p;
    prime-rl ``max_rl``.
    """
    mean = masked_mean(rewards, keep, GROUP)
    return (centered(rewards, keep, GROUP) / mean).where(mean > 0, 0.0)


@NormFacts(laws=("group shift",))
def asymre(rewards: PerCompletion, keep: CompletionMask, *, shift: FiniteFloat) -> PerCompletion:
    """A = r − (mean_group + shift): with a shift below 0 what is good counts for more than what is bad.

    On old data a baseline is no longer free: with one below the mean reward of the policy that sampled the policy
    improves, with one above it can collapse. Equal rewards have the advantage −shift. Source: AsymRE (arXiv
    2506.20520), A = r − V with a V a little below the mean; no code of it was found.
    """
    return centered(rewards, keep, GROUP) - shift


@NormFacts(compares="batch")
def shrinkage(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive) -> PerCompletion:
    """A = r − (1 − λ) · mean of the others in the group − λ · mean of the other groups' means.

    λ = v / (v + s + eps), both of the other groups alone: v the mean over them of var / n, the error of a group's mean
    of n completions (divisor n − 1), s the variance of their means (divisor: how many they are). So the less a group's
    own mean is worth, the more the others count, and no completion has a part in its own baseline. Source: shrinkage
    baselines (arXiv 2511.03710), from the authors' own code, JSPO-Official ``jspo`` (November 2025), eps 1e-6; its
    ``jspo_plus_plus`` takes λ from all groups and smooths it over steps. There all groups have n completions. Here,
    where some do not count, a group without any is none, one of a single completion has no v and, for itself, λ = 1.
    A batch of one group is that of ``rloo``.
    """
    number, means = count(keep, GROUP, rewards.dtype), masked_mean(rewards, keep, GROUP)
    deviations = centered(rewards, keep, GROUP)
    more = (number - 1).clamp(min=1)
    errors = masked_sum(deviations.square(), keep, GROUP) / (more * number.clamp(min=1))
    apart = ~eye(rewards.shape[-2], dtype=keep.dtype, device=rewards.device)
    others, measured = apart & (number > 0).mT, apart & (number > 1).mT
    across = masked_mean(means.mT, others, GROUP)
    within, between = masked_mean(errors.mT, measured, GROUP), masked_mean((means.mT - across).square(), others, GROUP)
    share = (within / (within + between + eps)).masked_fill(number < 2, 1.0).where(others.any(-1, keepdim=True), 0.0)
    return (1 - share) * deviations * number / more + share * (rewards - across)


@NormFacts(compares="group", laws=("zero sum",), breaks=("equal group",))
def gdpo(
    components: PerComponent,
    weights: Weights,
    adjustments: PerCompletion,
    keep: CompletionMask,
    *,
    eps: Positive,
    ddof: Ddof,
) -> PerCompletion:
    """Sum weight · z-score of each reward component in its group, then a z-score of the sum over the batch.

    ``components`` that do not apply are NaN and left out. ``adjustments``, what shaping and KL in the reward have
    changed, is one more component of weight 1. Source: GDPO (arXiv 2601.05242); TRL ``normalize_then_sum``; verl
    ``gdpo`` ends with a whitening over tokens.
    """
    total = local(adjustments, keep, eps=eps, ddof=ddof)
    for values, weight in zip(components.unbind(-1), weights.unbind(-1), strict=True):
        applies = keep & ~values.isnan()
        scores = local(values.where(applies, 0.0), applies, eps=eps, ddof=ddof)
        total = total + weight[..., None, None] * scores.where(applies, 0.0)
    return global_(total, keep, eps=eps, ddof=ddof)


FUNCTIONS = by_name(
    none,
    center,
    center_batch,
    local,
    global_,
    hybrid,
    hybrid_centered,
    batch_mean_group_std,
    rloo,
    rloo_zscore,
    quantile,
    gpg,
    maxrl,
    asymre,
    shrinkage,
    gdpo,
)
