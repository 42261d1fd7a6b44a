"""What is logged of runs that somebody else than the task judges: their gold beside their rewards.

``docs/metrics.md`` has every name with its formula. Runs that the task judges have none of these.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlexp.axes.reward import moments
from rlexp.core.blocks import Masked
from rlexp.core.exact import sum_keepdim
from rlexp.core.streams import Purpose
from rlexp.core.types import (
    CompletionMask,
    Completions,
    PerCompletion,
    PerToken,
    PerVocabulary,
    Prompts,
    TokenMask,
)
from rlexp.loop.dynamic_sampling import Groups
from rlexp.loop.metrics import Row, mean, summary
from rlexp.loop.replicas import take_replicas
from rlexp.loop.rewards import score_with
from rlexp.loop.rollout import Rollout, sample
from rlexp.loop.state import TrainState
from rlexp.models.policy import gather_log_probs

PAIRS = (-1, -2, -3)
QUARTERS = 4


@torch.no_grad()
def judged_metrics(state: TrainState, groups: Groups, reference: PerVocabulary) -> Row:
    """Return what is logged of a rollout beside the rest; nothing if the task judges all runs.

    ``reference`` are the reference's log-probabilities of the whole vocabulary.
    """
    if not state.judged_at_all:
        return {}
    rewards, rollout = groups.rewards, groups.rollout
    row = summary("gold", rewards.gold, ~rewards.gold.isnan())
    row["gold/agreement"] = agreement(rewards.total, rewards.gold)
    row |= kl_by_position(gather_log_probs(reference, rollout.completions), rollout)
    bigrams, there = repeated_bigrams(rollout.completions, rollout.mask)
    row["repetition/bigrams"] = mean(bigrams, there, (-1, -2))
    if len(state.judges) > 1:
        row["judge/disagreement"] = disagreement(state, rollout)
    return of_judged(state, row)


def kl_by_position(ref_log_probs: PerToken, rollout: Rollout) -> Row:
    """``kl/ref_k3`` over the tokens of each quarter of the places that a completion can have, NaN where none is.

    Source: the divergence of aligned models is that of their first tokens (arXiv 2406.05946, §2.2).
    """
    difference = rollout.old_log_probs - ref_log_probs
    estimates = (-difference).exp() - 1 + difference
    places = torch.arange(estimates.shape[-1], device=estimates.device) * QUARTERS // estimates.shape[-1]
    return {
        f"kl/quarter_{number + 1}": mean(estimates, rollout.mask & (places == number), PAIRS)
        for number in range(QUARTERS)
    }


def repeated_bigrams(completions: Completions, mask: TokenMask) -> tuple[PerCompletion, CompletionMask]:
    """1 − different / all pairs of neighbouring tokens of a completion, ``[R P G]``, and which completions have any.

    Source: seq-rep-n of unlikelihood training (arXiv 1908.04319, §6), with n = 2.
    """
    left, right, there = completions[..., :-1], completions[..., 1:], mask[..., 1:]
    same = (left.unsqueeze(-1) == left.unsqueeze(-2)) & (right.unsqueeze(-1) == right.unsqueeze(-2))
    before = torch.ones(left.shape[-1], left.shape[-1], dtype=torch.bool, device=mask.device).tril(-1)
    repeated = (same & before & there.unsqueeze(-1)).any(-1).sum(-1)  # what counts stands before what does not
    number = there.sum(-1)
    return repeated / number.clamp(min=1), number > 0


def disagreement(state: TrainState, rollout: Rollout) -> Tensor:
    """Mean over completions of the deviation (n − 1) over the reward models."""
    said = torch.stack([judge(rollout.prompts, rollout.completions, rollout.mask) for judge in state.judges], -1)
    return mean(moments(said)[1], torch.ones_like(rollout.finished), (-1, -2))


@torch.no_grad()
def win_rate(state: TrainState, questions: Prompts, gold: PerCompletion) -> Tensor:
    """Share of pairs of a sample of the policy and one of the reference, of the same prompt, that the first one wins.

    By gold ``[R P G]``, ties half; the samples of the reference are always those of the same random numbers. For runs
    that are judged; NaN for the others. Source: win rates against the start policy, as of InstructGPT (arXiv
    2203.02155).
    """
    judged = state.judged.nonzero().squeeze(-1)
    noise = state.uniforms(Purpose.EVALUATION_REFERENCE, 0, *gold.shape[1:], state.task.cap)
    reference = take_replicas(state.reference, judged)
    samples = sample(reference, state.task, questions[judged], noise[judged], state.temperature[judged])
    theirs = score_with(state.task, samples).total
    gap = gold[judged].unsqueeze(-1) - theirs.unsqueeze(-2)
    wins = (gap > 0).to(gold.dtype) + 0.5 * (gap == 0)
    return torch.full_like(gold[:, 0, 0], torch.nan).index_copy(0, judged, mean(wins, ~gap.isnan(), PAIRS))


def of_judged(state: TrainState, row: Row) -> Row:
    """Return numbers that only runs have that somebody else than the task judges."""
    return {name: Masked(values, state.judged) for name, values in row.items()}


def agreement(rewards: Tensor, gold: Tensor) -> Tensor:
    """Share of the pairs of a group with different gold that the rewards order so, ``[R P G] -> [R]``.

    Equal rewards count half; NaN where no pair differs. Source: the accuracy of a reward model on pairs.
    """
    of_gold, of_rewards = (each.unsqueeze(-1) - each.unsqueeze(-2) for each in (gold, rewards))
    differs = of_gold > 0  # each pair once, none with a NaN
    right = (of_rewards > 0).to(rewards.dtype) + 0.5 * (of_rewards == 0)
    number = sum_keepdim(differs.to(rewards.dtype), PAIRS)
    return (sum_keepdim(right.where(differs, 0.0), PAIRS) / number).squeeze(PAIRS)
