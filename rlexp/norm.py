"""Rewards to advantages: ``norm(rewards, keep, *, knobs) -> advantages``, all ``[*R P G]``.

``keep`` says which completions enter the statistics; what a function returns for the others is not used
(``step.experience`` gives them advantage 0).

Shared rule of all that centre: a group (for ``global``: a batch) of equal rewards, a group of one included, gives
exactly zero. ``ddof`` is the divisor correction of the deviation: 1 as in ``torch.std``, TRL, verl, OpenRLHF;
0 as in open-instruct. ``eps`` is added to the deviation.
"""

from __future__ import annotations

from rlexp import norm_memory
from rlexp.masked import BATCH, GROUP, centred, count, masked_extreme, masked_std
from rlexp.types import CompletionMask, Ddof, PerCompletion, Positive


def none(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r: plain REINFORCE without a baseline (Williams, 1992)."""
    return rewards


def center(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r − mean_group.

    Source: Dr. GRPO (arXiv 2503.20783). TRL ``scale_rewards="none"``, verl ``norm_adv_by_std_in_grpo=False``,
    open-instruct ``centered``. Peers disagree on a group of one: verl returns r, the others 0 or refuse; here 0.
    """
    return centred(rewards, keep, GROUP)


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


FUNCTIONS = {
    "none": none,
    "center": center,
    "local": local,
    "global": global_,
    "hybrid": hybrid,
    "rloo": rloo,
    "max": best,
    **norm_memory.FUNCTIONS,
}
MEMORIES = norm_memory.MEMORIES
