"""Judges who err: process reward models of GRPO-TCR, whose plurality of votes is the reward, −1, 0 or 1.

The truth of a vote is ``quality``, −1, 0 or 1, or ``correct`` where there are two values. Errors are drawn anew for
every completion, or are the same whenever the same completion of the same prompt comes again in the run, which no
number of rollouts averages out. A bias is shared by all votes on a completion: more votes do not cure it.
"""

from __future__ import annotations

from operator import attrgetter

import torch
from torch import Tensor

from rlexp.axes.reward.voting import (
    SHARED,
    Accuracies,
    PerVote,
    Probability,
    Ties,
    Votes,
    optimal_weight,
    verdict,
    vote,
)
from rlexp.core.facts import RewardFacts
from rlexp.core.types import PerCompletion, PositiveInt

TERNARY, BINARY = (-1.0, 0.0, 1.0), (-1.0, 1.0)
BOUNDS = (-1.0, 1.0)
OF_VOTES = RewardFacts(bounds=BOUNDS, calls=attrgetter("votes"))
OF_JUDGES = RewardFacts(bounds=BOUNDS, calls=lambda settings: len(settings.accuracies))


@OF_VOTES
def prm(
    quality: PerCompletion, vote_draws: PerVote, *, accuracy: Probability, votes: Votes, ties: Ties
) -> PerCompletion:
    """mode{v_1 … v_m}, each v the quality with probability ``accuracy``, else one of the other two values.

    Source: ``ProcessRewardModel`` of the GRPO-TCR notebook, which breaks ties by what was voted first.
    """
    return plurality(quality, vote_draws, [accuracy] * votes, [1.0] * votes, TERNARY, ties)


@OF_VOTES
def prm_binary(
    correct: PerCompletion, vote_draws: PerVote, *, accuracy: Probability, votes: Votes, ties: Ties
) -> PerCompletion:
    """``prm`` of two values: 1 for a correct completion and −1 for a wrong one, right with probability ``accuracy``.

    Source: Condorcet (1785); what GRPO-TCR calls majority voting.
    """
    return plurality(2 * correct - 1, vote_draws, [accuracy] * votes, [1.0] * votes, BINARY, ties)


@OF_VOTES
def prm_persistent(
    quality: PerCompletion, vote_hashes: PerVote, *, accuracy: Probability, votes: Votes, ties: Ties
) -> PerCompletion:
    """``prm`` whose m votes on a completion are the same whenever it comes again in the run.

    Source: a corrupt reward, a function of the state (arXiv 1705.08417): a model that judges, without noise, is one.
    """
    return plurality(quality, vote_hashes, [accuracy] * votes, [1.0] * votes, TERNARY, ties)


@OF_VOTES
def prm_length(
    quality: PerCompletion,
    vote_draws: PerVote,
    lengths: PerCompletion,
    *,
    accuracy: Probability,
    votes: Votes,
    ties: Ties,
    bias: Probability,
    cap: PositiveInt,
) -> PerCompletion:
    """``prm`` that is taken in by length: with probability bias · min(1, length / cap) all its votes are +1.

    Source: verbosity bias of judges (arXiv 2306.05685, §3.3); the third reflection of the GRPO-TCR notebook.
    """
    judged = prm(quality, vote_draws, accuracy=accuracy, votes=votes, ties=ties)
    return taken_in(judged, vote_draws, bias * (lengths / cap).clamp(max=1))


@OF_VOTES
def prm_position(
    quality: PerCompletion,
    vote_draws: PerVote,
    *,
    accuracy: Probability,
    votes: Votes,
    ties: Ties,
    bias: Probability,
) -> PerCompletion:
    """``prm`` that favours what it is shown first: +1 with probability bias · (1 − place / (G − 1)) in the group.

    The first completion of a group has the whole bias, the last none; all votes share it.
    Source: position bias of judges (arXiv 2306.05685, §3.3).
    """
    group = quality.shape[-1]
    places = torch.arange(group, dtype=quality.dtype, device=quality.device) / max(group - 1, 1)
    judged = prm(quality, vote_draws, accuracy=accuracy, votes=votes, ties=ties)
    return taken_in(judged, vote_draws, bias * (1 - places))


@OF_JUDGES
def prm_weighted(quality: PerCompletion, vote_draws: PerVote, *, accuracies: Accuracies, ties: Ties) -> PerCompletion:
    """One vote each of judges of different accuracies, weighted by log(2a / (1 − a)): the likeliest quality.

    A judge below 1/3 counts against what it says. Source: see ``voting.optimal_weight``.
    """
    weights = [optimal_weight(accuracy, len(TERNARY)) for accuracy in accuracies]
    return plurality(quality, vote_draws, accuracies, weights, TERNARY, ties)


@OF_JUDGES
def prm_weighted_binary(
    correct: PerCompletion, vote_draws: PerVote, *, accuracies: Accuracies, ties: Ties
) -> PerCompletion:
    """``prm_weighted`` of the two values ±1, weighted by log(a / (1 − a)); a judge below 1/2 counts against.

    Source: Nitzan and Paroush (1982); the second challenge of the GRPO-TCR notebook.
    """
    weights = [optimal_weight(accuracy, len(BINARY)) for accuracy in accuracies]
    return plurality(2 * correct - 1, vote_draws, accuracies, weights, BINARY, ties)


def plurality(
    truth: PerCompletion,
    uniforms: PerVote,
    accuracies: list[float],
    weights: list[float],
    values: tuple[float, ...],
    ties: Ties,
) -> PerCompletion:
    """Let judges vote about the truth and return the value with the largest weight."""
    possible = torch.tensor(values, dtype=truth.dtype, device=truth.device)
    return verdict(vote(truth, uniforms, accuracies, possible), uniforms, weights, possible, ties)


def taken_in(judged: PerCompletion, uniforms: PerVote, probability: Tensor) -> PerCompletion:
    """Return +1 where the number that all votes share is below a probability."""
    return judged.masked_fill(uniforms[..., SHARED] < probability, 1.0)


FUNCTIONS = {
    "prm": prm,
    "prm_binary": prm_binary,
    "prm_persistent": prm_persistent,
    "prm_length": prm_length,
    "prm_position": prm_position,
    "prm_weighted": prm_weighted,
    "prm_weighted_binary": prm_weighted_binary,
}
