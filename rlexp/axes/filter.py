"""What counts: ``filter(…, *, hyperparameters) -> keep``, ``[*R P G]`` for completions, ``[*R P G T]`` for tokens.

A filter of the loss may keep tokens, one of the statistics of ``norm`` completions. Masking a truncated completion in
the loss (TRL ``mask_truncated_completions``, DAPO's overlong filtering) leaves its reward in the group's mean unless
the statistics are filtered too. A filter of whole groups may also decide which of them are replaced by others
(``filter.refill``).

``rewards`` are those that ``norm`` is given (in a refill: those of the task), 0 where there is none, which
``scored`` says. ``entropies`` are of the policy that sampled, in nats.
"""

from __future__ import annotations

import torch
from pydantic import FiniteFloat
from torch import Tensor

from rlexp.axes.offered import FINISHED, SAMPLED, SHAPED, TOKENS
from rlexp.core.facts import Facts, ordered
from rlexp.core.masked import GROUP, count, is_constant, masked_mean
from rlexp.core.registry import Offer
from rlexp.core.types import CompletionMask, PerCompletion, PerToken, PositiveInt, Share, TokenMask


@Facts(is_noop=True)
def none(finished: CompletionMask) -> CompletionMask:
    """Keep every completion."""
    return torch.ones_like(finished)


def overlong(finished: CompletionMask) -> CompletionMask:
    """Drop completions that were cut off at the cap before they ended.

    Source: overlong filtering of DAPO (arXiv 2503.14476, §3.4); TRL ``mask_truncated_completions``. Setting the
    reward of such a completion to zero instead is a penalty, not a filter: that is ``shaping=zero_truncated``.
    """
    return finished


def zero_variance(rewards: PerCompletion, scored: CompletionMask) -> CompletionMask:
    """Drop groups whose rewards are all equal: largest = smallest, exactly.

    Source: DAPO (arXiv 2503.14476, §3.2). open-instruct ``filter_zero_std_samples`` and verl ``filter_groups`` ask
    for ``np.std == 0``, which rounding defeats (0.7 a hundred times has a std of 2e-16), slime for a std above 1e-6,
    ROLL's ``std_filter`` for one above a number of yours.
    Such a group has advantage 0 under every norm that centres by group; what changes is the denominator of ``agg``,
    and that KL and entropy no longer act on it. A group without rewards counts as one of equal rewards.
    """
    return (~is_constant(rewards, scored, GROUP)).expand_as(rewards)


@Facts(problems=(ordered("low", "high"),))
def difficulty(
    rewards: PerCompletion, scored: CompletionMask, *, low: FiniteFloat, high: FiniteFloat
) -> CompletionMask:
    """Keep groups whose mean reward lies in [low, high]: neither too hard nor too easy.

    Source: ROLL ``difficulty_mask`` in the loss and ``mean_filter`` of whole groups, OpenRLHF
    ``--algo.dynamic_filtering_enable``, all with open ends: with rewards of 0 and 1, OpenRLHF's (0, 1) drops the groups
    that are all wrong or all right. A group without rewards is dropped.
    """
    level = masked_mean(rewards, scored, GROUP)
    inside = (level >= low) & (level <= high) & (count(scored, GROUP) > 0)
    return inside.expand_as(rewards)


def top_entropy(entropies: PerToken, mask: TokenMask, *, share: Share) -> TokenMask:
    """Keep the ``share`` of tokens with the highest entropy, of all tokens of the run's step; equal ones stay together.

    The threshold is the n-th largest entropy, n = max(1, share · tokens, rounded half to even). Source: arXiv
    2506.01939; TRL ``top_entropy_quantile``. Both take the entropy of the policy at each update, here it is that of the
    policy that sampled; both leave dropped tokens in the denominator and (TRL) under KL, here they leave everything.
    """
    flat = entropies.where(mask, -torch.inf).flatten(-3)
    wanted = (share * count(mask.flatten(-3), (-1,), torch.float64)).round().clamp(min=1).long()
    threshold = flat.sort(-1, descending=True).values.gather(-1, wanted - 1)
    return mask & (entropies >= threshold[..., None, None])


def shortest(lengths: PerCompletion, scored: CompletionMask, *, number: PositiveInt) -> CompletionMask:
    """Keep the ``number`` shortest completions of each group that have a reward; of equal ones the first.

    Source: GFPO (arXiv 2508.09726): rewards are centered and scaled by those that are kept, the others have advantage
    0. TRL's former ``GFPOTrainer`` (until #6309) takes these out of the batch.
    """
    return smallest_of_group(lengths, scored, number)


def most_efficient(
    rewards: PerCompletion, lengths: PerCompletion, scored: CompletionMask, *, number: PositiveInt
) -> CompletionMask:
    """Keep the ``number`` completions of each group with the most reward a token; of equal ones the first.

    For rewards ≥ 0: of two completions of the same negative reward the longer one has more a token. Source: token
    efficiency of GFPO (arXiv 2508.09726).
    """
    return smallest_of_group(-rewards / lengths, scored, number)


def smallest_of_group(values: Tensor, scored: Tensor, number: int) -> Tensor:
    ranks = values.where(scored, torch.inf).argsort(dim=-1, stable=True).argsort(dim=-1)
    return scored & (ranks < number)


GROUPS = {"none": none, "zero_variance": zero_variance, "difficulty": difficulty}
COMPLETIONS = GROUPS | {"overlong": overlong, "shortest": shortest, "most_efficient": most_efficient}
FUNCTIONS = COMPLETIONS | {"top_entropy": top_entropy}
INPUTS = SAMPLED | SHAPED
# To the filter that decides which groups are replaced, before they are shaped.
OFFERED_TO_REFILL = (
    TOKENS
    | FINISHED
    | {"rewards": Offer(PerCompletion, "rewards of the task, 0 where there is none"), "scored": SHAPED["scored"]}
)
