"""Rewards to advantages: ``norm(rewards, keep, …, *, knobs)``, ``[*R P G]``, or ``[*R P G T]`` where tokens differ.

``keep`` says which completions enter the statistics; what a function returns for the others is not used
(``judge.experience`` gives them advantage 0). ``rewards`` are those after shaping and KL in the reward. A norm that
needs the parts asks for ``outcomes`` and ``token_penalties`` instead, never beside: rewards = outcomes − Σ_t
token_penalties.

Shared rule of all that centre: a group (for ``global`` and ``center_batch``: a batch) of equal rewards, a group of one
included, gives exactly zero. ``ddof`` is the divisor correction of the deviation: 1 as in ``torch.std``, TRL, verl,
OpenRLHF; 0 as in open-instruct. ``eps`` is added to the deviation.

Equal is equal to the last bit. A tolerance would need a scale, which the rewards of a group do not have (slime and ROLL
take 1e-6 whatever they are); differences far below ``eps`` vanish, as in TRL, verl and OpenRLHF. With KL in the reward
the rewards of a group are hardly ever equal: where the outcomes are, the deviation of the group is that of the
penalties.

Other baselines are in ``norm_baseline``, pass@k in ``norm_passk``, reward to go in ``norm_token``, statistics of the
whole run in ``norm_memory``.
"""

from __future__ import annotations

from rlexp import norm_baseline, norm_memory, norm_passk, norm_token
from rlexp.masked import BATCH, GROUP, centred, count, is_constant, masked_extreme, masked_std
from rlexp.types import CompletionMask, Ddof, PerCompletion, PerComponent, Positive, Weights


def none(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r: plain REINFORCE without a baseline (Williams, 1992)."""
    return rewards


def center(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r − mean_group.

    Source: Dr. GRPO (arXiv 2503.20783). TRL ``scale_rewards="none"``, verl ``norm_adv_by_std_in_grpo=False``,
    open-instruct ``centered``. Peers disagree on a group of one: verl returns r, the others 0 or refuse; here 0.
    """
    return centred(rewards, keep, GROUP)


def center_batch(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r − mean_batch: one baseline for all prompts of the step.

    Source: ROLL ``norm_mean_type=batch, norm_std_type=None``.
    """
    return centred(rewards, keep, BATCH)


def local(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_group) / (std_group + eps).

    Source: GRPO (arXiv 2402.03300, §4.1.2). TRL ``scale_rewards="group"`` (eps 1e-4), verl ``grpo`` (1e-6),
    OpenRLHF ``group_norm`` (1e-9); all ddof 1, open-instruct ``standard`` ddof 0 (1e-8).
    """
    return centred(rewards, keep, GROUP) / (masked_std(rewards, keep, GROUP, ddof) + eps)


def global_(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_batch) / (std_batch + eps), statistics over all completions of the run's step.

    Source: REINFORCE with whitened returns; ROLL ``norm_mean_type=batch, norm_std_type=batch``.
    """
    return centred(rewards, keep, BATCH) / (masked_std(rewards, keep, BATCH, ddof) + eps)


def hybrid(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_group) / (std_batch + eps), the deviation over the raw rewards of the batch.

    Source: Lite PPO (arXiv 2508.08221). TRL ``scale_rewards="batch"`` and ROLL mean=group, std=batch use raw
    rewards as here; REINFORCE++-baseline (arXiv 2501.03262) takes the deviation of the centred ones.
    """
    return centred(rewards, keep, GROUP) / (masked_std(rewards, keep, BATCH, ddof) + eps)


def hybrid_centered(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_group) / (std_batch + eps), the deviation over the centred rewards of the batch.

    Source: ROLL ``group_reward_norm(div_std_global=True)``; REINFORCE++-baseline (arXiv 2501.03262) without weights by
    length. The difficulty of the prompts does not enter the scale, as it does in ``hybrid``. Up to eps it is also
    TRL's ``RLOOTrainer(normalize_advantages=True)``.
    """
    deviations = centred(rewards, keep, GROUP)
    return deviations / (masked_std(deviations, keep, BATCH, ddof) + eps)


def batch_mean_group_std(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_batch) / (std_group + eps).

    Source: ROLL ``norm_mean_type=batch, norm_std_type=group``, whose shapes do not fit in the version read. Without the
    rule on equal rewards such a group would have advantages of order 1 / eps, and so it has if its rewards differ by as
    little: with KL in the reward, of order 1 / ``kl.coef``.
    """
    advantages = centred(rewards, keep, BATCH) / (masked_std(rewards, keep, GROUP, ddof) + eps)
    return advantages.masked_fill(is_constant(rewards, keep, GROUP), 0.0)


def rloo(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r − mean of the other completions of the group = n/(n − 1) · (r − mean_group).

    Source: RLOO (arXiv 2402.14740). TRL ``RLOOTrainer``, verl ``rloo``, OpenRLHF ``rloo``.
    """
    kept = count(keep, GROUP, rewards.dtype)
    return centred(rewards, keep, GROUP) * kept / (kept - 1).clamp(min=1)


def best(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r where r is the group's largest reward, else 0; not centred.

    Source: CS336 lecture 17, ``compute_deltas(mode="max_rewards")``.
    """
    return rewards.where(rewards == masked_extreme(rewards, keep, GROUP, 1), 0.0)


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


FUNCTIONS = {
    "none": none,
    "center": center,
    "center_batch": center_batch,
    "local": local,
    "global": global_,
    "hybrid": hybrid,
    "hybrid_centered": hybrid_centered,
    "batch_mean_group_std": batch_mean_group_std,
    "rloo": rloo,
    "max": best,
    "gdpo": gdpo,
    **norm_baseline.FUNCTIONS,
    **norm_passk.FUNCTIONS,
    **norm_token.FUNCTIONS,
    **norm_memory.FUNCTIONS,
}
MEMORIES = norm_memory.MEMORIES

# Norms that compare a completion with the others of its group, or of its batch: alone it has advantage 0.
WITHIN_BATCH = {"center_batch", "global"}
WITHIN_GROUP = {
    "center",
    "local",
    "hybrid",
    "hybrid_centered",
    "batch_mean_group_std",
    "rloo",
    "gdpo",
    "opo",
    "optimal",
    "quantile",
    "gpg",
    "maxrl",
    "grpo_passk",
    "pass_at_k",
    "reinforce_pp_baseline",
    "optimal_token",
}
