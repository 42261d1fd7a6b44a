"""Groups whose rewards vary, kept to take the place of those whose rewards are all equal.

Each run keeps the groups with the highest scores of all that it has sampled. A score is what TRL's advantages make of
the rewards of the task, before shaping: Σ |A| · std = Σ |r − mean| · std / (std + 1e-4), for rewards of 0 and 1
proportional to their variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rlexp.core.blocks import gather_rows
from rlexp.core.masked import GROUP, is_constant, masked_mean, masked_std, masked_sum
from rlexp.core.streams import Purpose
from rlexp.core.types import (
    CompletionMask,
    Completions,
    PerCompletion,
    PerPromptOfSet,
    PerToken,
    PromptMask,
    PromptNumbers,
    Prompts,
    Size,
    TokenMask,
)
from rlexp.loop.rewards import score
from rlexp.loop.rollout import Rollout, empty_rollout
from rlexp.loop.sampling import Groups, place_by_weight, sample_groups
from rlexp.loop.state import Source, TrainState

EPS = 1e-4  # of TRL's advantages


class Stored(NamedTuple):
    """Groups in the order of their scores, with the step that sampled each; a score of 0 is a free place."""

    scores: PerPromptOfSet
    steps: PromptNumbers
    prompts: Prompts
    completions: Completions
    old_log_probs: PerToken
    mask: TokenMask
    finished: CompletionMask
    sampler_log_probs: PerToken

    @property
    def rollout(self) -> Rollout:
        return Rollout(*self[2:])


@dataclass(frozen=True, kw_only=True)
class ReplayVariance(Source):
    """Groups of equal rewards are replaced by stored ones, drawn in proportion to their scores.

    The ``capacity`` groups with the highest scores are kept, those of this step among them; of equal scores the newer.
    None is drawn twice in a step unless fewer are kept than are needed; while none is kept nothing is replaced. A
    stored group keeps the log-probabilities of the policy that sampled it. Source: TRL ``GRPOWithReplayBufferTrainer``
    (``replay_buffer_size`` 64; f2cd577). There the advantages are stored too, a new group of the lowest score is not
    kept, equal scores are an error, and the trainer hands over flat rewards, so that groups are replaced only where the
    whole batch has equal rewards; this is what its documentation says.
    """

    capacity: Size

    def empty(self, state: TrainState) -> Stored:
        held, device = (len(state.seeds), self.capacity), state.temperature.device
        groups = empty_rollout(state.task, held, state.group, device)
        return Stored(torch.zeros(held, device=device), torch.zeros(held, dtype=torch.long, device=device), *groups)

    def gather(self, state: TrainState, step: int) -> Groups:
        """Return the step's groups, stored ones in the place of those without variance, and what is kept then."""
        groups = sample_groups(state, step)
        scores = variation(groups.rewards.total)
        kept = best(Stored(scores, torch.full_like(scores, step, dtype=torch.long), *groups.rollout), state.buffer)
        uniforms = state.uniforms(Purpose.REPLAY, step, state.prompts)
        places, replaced = replacements(kept.scores, scores == 0, uniforms)

        def put(old: Tensor, new: Tensor) -> Tensor:
            return gather_rows(old, places).where(replaced.view(*replaced.shape, *[1] * (new.dim() - 2)), new)

        rollout = Rollout(*(put(old, new) for old, new in zip(kept.rollout, groups.rollout, strict=True)))
        ages = (step - kept.steps.gather(-1, places)).where(replaced, 0).to(rollout.old_log_probs)
        return groups._replace(
            rollout=rollout,
            rewards=score(state, rollout, step),
            policy=state.policy,
            stored=kept,
            ages=ages[..., None, None].expand(rollout.mask.shape).contiguous(),
            replayed=replaced.sum(-1),
        )


def variation(rewards: PerCompletion) -> PerPromptOfSet:
    """Return the score of each group, ``[R P]``: 0 where all rewards are equal."""
    scored = ~rewards.isnan()
    there = rewards.where(scored, 0.0)
    deviation = masked_std(there, scored, GROUP, 1)
    total = masked_sum((there - masked_mean(there, scored, GROUP)).abs(), scored, GROUP)
    return (total * (deviation / (deviation + EPS))).masked_fill(is_constant(there, scored, GROUP), 0.0).squeeze(GROUP)


def best(new: Stored, old: Stored) -> Stored:
    """Return the groups with the highest scores, as many as there are old ones; of equal scores the newer."""
    order = torch.cat([new.scores, old.scores], 1).argsort(dim=-1, descending=True, stable=True)
    order = order[:, : old.scores.shape[1]]
    return Stored(*(gather_rows(torch.cat(pair, 1), order) for pair in zip(new, old, strict=True)))


def replacements(scores: PerPromptOfSet, missing: PromptMask, uniforms: Tensor) -> tuple[PromptNumbers, PromptMask]:
    """Return which stored group takes the place of each that is ``missing``, and which are replaced at all, ``[R P]``.

    They are drawn one after another in proportion to ``scores`` ``[R N]``, by the numbers ``[R P]`` in [0, 1).
    """
    there = (scores > 0).sum(-1, keepdim=True)
    again = missing.sum(-1, keepdim=True) > there
    drawn = []
    for number in uniforms.unbind(-1):
        drawn.append(place_by_weight(scores, number.unsqueeze(-1)).clamp(max=scores.shape[-1] - 1))
        scores = scores.scatter(-1, drawn[-1], 0.0).where(~again, scores)
    ranks = (missing.long().cumsum(-1) - 1).clamp(min=0)
    return torch.cat(drawn, -1).gather(-1, ranks), missing & (there > 0)
