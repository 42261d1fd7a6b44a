"""Norms of completions, ``[*R P G]``: baselines, deviations and weights from the rewards of a group or of the batch.

Those that ask for ``correct``, 1 where the task's verifier says so, else 0, do not see rewards, and so neither shaping
nor KL in the reward. ``rwr`` and ``best_of_n`` are weights from 0 up of what is imitated, not centered: they are meant
for ``clip=naive``, whose loss is then a weighted cross-entropy on completions of the policy's own, or of whoever wrote
them (``data``). To imitate all that is correct is ``norm=psr``.
"""

from __future__ import annotations

from pydantic import FiniteFloat
from torch import Tensor, eye, full_like, inf, ones_like

from rlexp.axes.norm.token import gradient_energy
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
    FiniteNonNegative,
    Level,
    PerCompletion,
    PerComponent,
    PerPrompt,
    PerToken,
    Positive,
    PositiveInt,
    TokenMask,
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


@NormFacts(compares="group", laws=("linear",))
def opo(rewards: PerCompletion, keep: CompletionMask, lengths: PerCompletion) -> PerCompletion:
    """A = r − Σ length · r / Σ length over the group: the baseline of least variance if every token adds the same.

    Source: OPO (arXiv 2505.23585); verl ``opo``.
    """
    return minus_weighted_mean(rewards, lengths, keep)


@NormFacts(compares="group", laws=("linear",))
def optimal(
    rewards: PerCompletion, keep: CompletionMask, mask: TokenMask, old_log_probs: PerToken, sum_pi_squared: PerToken
) -> PerCompletion:
    """A = r − Σ W r / Σ W over the group, W = Σ_t (1 − 2π_t + Σ_v π_t(v)²): ``opo`` with gradients for lengths.

    W is the squared norm of the gradient of a completion's log π in the logits. Source: the optimal constant baseline
    E[‖∇ log π‖² r] / E[‖∇ log π‖²] (Weaver and Tao, 2001); ``optimal_token`` has one for each step. CS336 lecture 17
    (2025) has ∇π for ∇ log π, which is not optimal.
    """
    energy = gradient_energy(old_log_probs, sum_pi_squared, mask).sum(-1)
    return minus_weighted_mean(rewards, energy, keep)


def minus_weighted_mean(rewards: Tensor, weights: Tensor, keep: Tensor) -> Tensor:
    """r − Σ weight · r / Σ weight over the group, exactly zero where all are equal."""
    baseline = masked_sum(weights * rewards, keep, GROUP) / masked_sum(weights, keep, GROUP)
    return (rewards - baseline).masked_fill(is_constant(rewards, keep, GROUP), 0.0)


@NormFacts(laws=("linear",))
def remax(rewards: PerCompletion, greedy_rewards: PerPrompt) -> PerCompletion:
    """A = r − reward of the policy's greedy completion of the same prompt, ``[*R P 1]``.

    Source: ReMax (arXiv 2310.10505); verl ``remax``. The greedy reward is the task's, before shaping and KL: whatever
    depends on the prompt alone leaves the expected gradient as it is. verl's includes what its reward function shapes.
    KL in the reward is taken off the whole completion here; in verl a token bears that of itself and of what follows.
    It costs a completion a prompt, which ``progress/tokens`` does not count.
    """
    return rewards - greedy_rewards


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


def max_(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r where r is the group's largest reward, else 0; not centered.

    Source: CS336 lecture 17, ``compute_deltas(mode="max_rewards")``.
    """
    return rewards.where(rewards == masked_extreme(rewards, keep, GROUP, 1), 0.0)


@NormFacts(compares="group", laws=("scale",))
def grpo_passk(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r_best − r_second) / (std_group + eps) for the one best completion, 0 for all others and on a tie.

    It is the leave-one-out advantage of the largest reward of the group. Source: arXiv 2503.19595; verl ``grpo_passk``
    (eps 1e-6, ddof 1), which refuses a group of one; here it has 0.
    """
    top = masked_extreme(rewards, keep, GROUP, 1)
    best = (rewards == top) & keep
    second = masked_extreme(rewards, keep & ~best, GROUP, 1)
    alone = best & (best.sum(-1, keepdim=True) == 1) & second.isfinite()
    return ((top - second) / (masked_std(rewards, keep, GROUP, ddof) + eps)).where(alone, 0.0)


@NormFacts(compares="group")
def pass_at_k(correct: PerCompletion, keep: CompletionMask, *, k: PositiveInt) -> PerCompletion:
    """Mean of (pass − p) / √(p (1 − p)) over all sets of k completions of the group that hold this one.

    pass is 1 if one of the set is correct, p its mean over all sets of k. In closed form p = 1 − C(w, k) / C(n, k) with
    w of n wrong, A = (1 − p) / σ where right and (1 − p − C(w − 1, k − 1) / C(n − 1, k − 1)) / σ where wrong.
    Source: pass@k training with analytical derivation (arXiv 2508.10751). 0 where p is 0 or 1, and in a group of fewer
    than k.
    """
    right = correct > 0
    total = count(keep, GROUP, correct.dtype)
    wrong = count(keep & ~right, GROUP, correct.dtype)
    fail = binomial_ratio(wrong, total, k)
    all_wrong = binomial_ratio(wrong - 1, total - 1, k - 1)
    deviation = (fail * (1 - fail)).sqrt()
    advantages = fail.where(right, fail - all_wrong) / deviation
    return advantages.where((deviation > 0) & (total >= k), 0.0)


def binomial_ratio(part: Tensor, whole: Tensor, k: int) -> Tensor:
    """C(part, k) / C(whole, k), 0 where part < k."""
    ratio = ones_like(whole)
    for i in range(k):
        ratio = ratio * (part - i).clamp(min=0) / (whole - i).clamp(min=1)
    return ratio


def w_reinforce(correct: PerCompletion, *, positive: FiniteNonNegative, negative: FiniteNonNegative) -> PerCompletion:
    """A = positive where the completion is correct, else −negative.

    Source: arXiv 2506.01347: learning from what is right only (PSR: 1, 0), from what is wrong only (NSR: 0, 1), and
    weighted REINFORCE (0.1, 1).
    """
    return full_like(correct, positive).where(correct > 0, -negative)


@NormFacts(laws=("group shift", "scale"))
def rwr(
    rewards: PerCompletion, keep: CompletionMask, *, beta: Positive, share: Level, eps: Positive, ddof: Ddof
) -> PerCompletion:
    """A = exp(z / beta) / Σ exp(z / beta) over the ``share`` of the group with the largest rewards, else 0.

    z is ``local``, so that beta has no unit. The share is max(1, ⌊share · n⌋) of n completions, and whatever has the
    same reward as the last of them. Source: reward-weighted regression (Peters and Schaal, 2007, with raw rewards).
    ``RewardWeightedRegression`` of a textbook chapter (S4 in docs/coverage.md) can take a share of 0 of n, an error.
    """
    scores = local(rewards, keep, eps=eps, ddof=ddof)
    most = (share * count(keep, GROUP, rewards.dtype) + 1e-6).floor().clamp(min=1).long()  # .1 · 30 is below 3
    last = rewards.where(keep, -inf).sort(-1, descending=True).values.gather(-1, most - 1)
    chosen = keep & (rewards >= last)
    powers = ((scores - masked_extreme(scores, keep, GROUP, 1)) / beta).where(chosen, -inf).exp()
    return powers / powers.sum(-1, keepdim=True).clamp(min=1)  # the largest is 1, unless there is none


@NormFacts(laws=("group shift", "scale"))
def best_of_n(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = 1 for the group's largest reward, else 0; n of them that are equal have 1/n each.

    That is what one of them, drawn at random, has on average. Source: fine-tuning on the best of n samples (Stiennon
    et al., arXiv 2009.01325, has best of n; RAFT, arXiv 2304.06767, trains on it).
    """
    best = (keep & (rewards == masked_extreme(rewards, keep, GROUP, 1))).to(rewards.dtype)
    return best / best.sum(-1, keepdim=True).clamp(min=1)


FUNCTIONS = by_name(none, center, center_batch, local, global_, hybrid, hybrid_centered, batch_mean_group_std, rloo)
FUNCTIONS |= by_name(gdpo, shrinkage, opo, optimal, remax, quantile, gpg, maxrl, asymre)
FUNCTIONS |= by_name(max_, grpo_passk, pass_at_k, w_reinforce)
IMITATION = by_name(rwr, best_of_n)
