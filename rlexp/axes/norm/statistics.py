"""Norms of plain statistics: a mean and a deviation of the group or of the batch, ``[*R P G]``."""

from __future__ import annotations

from rlexp.core.facts import NormFacts
from rlexp.core.masked import BATCH, GROUP, centered, count, is_constant, masked_std
from rlexp.core.types import CompletionMask, Ddof, PerCompletion, Positive


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
}
