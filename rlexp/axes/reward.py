"""Who judges: ``reward(...) -> rewards`` of every completion, ``[*R P G]``, before shaping.

The task's own verdict stays beside it as gold: it is logged for runs that are trained on another, and evaluation is
always by it. A completion without a reward of the task (NaN) gets none from any judge. A judge sees what it asks for,
of what was sampled and what the task knows: ``quality`` is the truth that it errs about. Its rewards are made once,
when completions are sampled, and all that follows has these: refill, shaping, filter, norm, greedy baselines.

Four families: the task itself (``verifier``); the completions of a group (``majority``); judges who vote and err,
process reward models of GRPO-TCR; models that have learnt from pairs.

**Judges who err.** The plurality of their votes is the reward, −1, 0 or 1. The truth of a vote is ``quality``, or
``correct`` where there are two values; a judge of accuracy a votes for it with probability a and else for one of the
other values, each as likely. Errors are drawn anew for every completion, or are the same whenever the same completion
of the same prompt comes again in the run, which no number of rollouts averages out. A bias is shared by all votes on a
completion: more votes do not cure it. A completion has ``NUMBERS`` uniforms: one a vote, one for what all its votes
share, one for its tie. Their number is fixed, so that how many votes there are changes no other draw, and the first
votes of eleven are those of five.

**Learned judges** are reward models, alone or as an ensemble. ``proxies`` are the numbers of each model after the last
token of a completion, less their mean over the completions of its first pairs and divided by their deviation: what the
pairs of Bradley and Terry leave open is fixed so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from operator import attrgetter
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from jaxtyping import Float
from torch import Tensor

from rlexp.axes.offered import FINISHED, TOKENS
from rlexp.core.facts import RewardFacts
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import (
    CompletionMask,
    Completions,
    FiniteNonNegative,
    PerCompletion,
    PositiveInt,
    Probability,
    TokenMask,
)

NUMBERS = 32
MOST = NUMBERS - 2
SHARED, TIE = -2, -1  # places of the numbers that belong to no vote
ROUNDING = 1e-5  # sums of weights that differ by less are equal: they are of at most 30 float32 numbers of order one

PerVote = Float[Tensor, "*replica prompts group votes"]
PerModel = Float[Tensor, "*replica prompts group models"]
Votes = Annotated[int, Ge(1), Le(MOST)]
Accuracies = Annotated[list[Annotated[float, Gt(0), Lt(1)]], MinLen(1), MaxLen(MOST)]
Ties = Literal["first", "random", "neutral"]

TERNARY, BINARY = (-1.0, 0.0, 1.0), (-1.0, 1.0)
OF_VOTES = RewardFacts(bounds=(-1.0, 1.0), calls=attrgetter("votes"))
OF_JUDGES = RewardFacts(bounds=(-1.0, 1.0), calls=lambda settings: len(settings.accuracies))
OF_MODELS = RewardFacts(
    bounds=(-math.inf, math.inf), calls=lambda settings: settings.model.members if settings.model else 0
)


@RewardFacts(is_noop=True)
def verifier(verified: PerCompletion) -> PerCompletion:
    """Σ weight · component: the rewards of the task as they are."""
    return verified


@RewardFacts(bounds=(0.0, 1.0))
def majority(
    completions: Completions, mask: TokenMask, finished: CompletionMask, lengths: PerCompletion
) -> PerCompletion:
    """1 where a completion is the most frequent one of its group, else 0; of equally frequent ones the first sampled.

    Nobody knows what is right: a policy is rewarded for what it says most often. Completions are compared whole, token
    by token; one that was cut off says nothing, has no vote and gets 0.

    Args:
        completions, mask: ``[*R P G T]``.
        finished: ``[*R P G]``.
        lengths: ``[*R P G]``; completions of different lengths differ, whatever follows their ends.

    Returns:
        Rewards ``[*R P G]``.

    Source: TTRL (arXiv 2504.16084), which extracts answers and compares those; ties as its ``Counter.most_common``.
    """
    said = completions.where(mask, -1)
    same = (said.unsqueeze(-3) == said.unsqueeze(-2)).all(-1) & (lengths.unsqueeze(-1) == lengths.unsqueeze(-2))
    votes = (same & finished.unsqueeze(-1) & finished.unsqueeze(-2)).to(lengths.dtype)
    first = votes.sum(-1).argmax(-1, keepdim=True)  # the first of several
    return votes.take_along_dim(first.unsqueeze(-1), -2).squeeze(-2)


def vote(truth: PerCompletion, uniforms: PerVote, accuracies: Sequence[float], values: Tensor) -> Tensor:
    """Return the votes of judges of these accuracies as places in ``values``, ``[*R P G m]``."""
    luck = uniforms[..., : len(accuracies)]
    right = luck.new_tensor(accuracies)
    wrong = (luck - right) / (1 - right).clamp(min=torch.finfo(luck.dtype).tiny)  # uniform in [0, 1) where it is wrong
    steps = 1 + (wrong * (len(values) - 1)).long().clamp(0, len(values) - 2)
    place = (truth.unsqueeze(-1) > values).sum(-1, keepdim=True)
    return (place + steps.where(luck >= right, 0)) % len(values)


def verdict(votes: Tensor, uniforms: PerVote, weights: Sequence[float], values: Tensor, ties: Ties) -> PerCompletion:
    """Return the value with the largest sum of weights, ``[*R P G m] -> [*R P G]``; of several what ``ties`` says."""
    places = torch.arange(len(values), device=votes.device)
    totals = torch.zeros(*votes.shape[:-1], len(values), dtype=values.dtype, device=votes.device)
    for weight, each in zip(weights, votes.split(1, -1), strict=True):
        totals = totals + weight * (each == places)
    tied = totals > totals.amax(-1, keepdim=True) - ROUNDING
    number = tied.sum(-1)
    chosen = (uniforms[..., TIE] * number).long().clamp(max=number - 1)
    drawn = values[(tied.cumsum(-1) <= chosen.unsqueeze(-1)).sum(-1)]
    if ties == "random":
        return drawn
    if ties == "neutral":  # no verdict
        return drawn.where(number == 1, 0.0)
    among = tied.gather(-1, votes)  # the first vote for one of them decides, as in Python's Counter.most_common
    earliest = votes.gather(-1, among.byte().argmax(-1, keepdim=True)).squeeze(-1)
    return values[earliest].where(among.any(-1), drawn)


def optimal_weight(accuracy: float, values: int) -> float:
    """log((V − 1) a / (1 − a)): how much likelier a vote makes its value than another, in nats.

    The largest sum is the likeliest truth where all are as likely beforehand. It is log(a / (1 − a)) for two values
    and log(2a / (1 − a)) for three. Source: Nitzan and Paroush (1982) for two values; here Bayes' rule.
    """
    return math.log((values - 1) * accuracy / (1 - accuracy))


def probability_right(accuracy: float, votes: int, values: int = 3, tie: float | None = None) -> float:
    """Return how often the plurality of so many votes is right, exactly: a sum over all counts of votes.

    A tie of k values with the truth is worth 1/k (drawn, and on average the first seen), or ``tie``: with 0 only a
    strict plurality counts. Of two values, for odd numbers of votes, it is Condorcet's binomial sum.
    """
    wrong = (1 - accuracy) / (values - 1)
    total = 0.0
    for counts in product(range(votes + 1), repeat=values):
        if sum(counts) != votes:
            continue
        best = counts.count(max(counts)) if counts[0] == max(counts) else 0
        worth = (1.0 if best == 1 else 1 / best if tie is None else tie) if best else 0.0
        ways = math.factorial(votes) / math.prod(map(math.factorial, counts))
        total += worth * ways * accuracy ** counts[0] * wrong ** (votes - counts[0])
    return total


@OF_VOTES
def prm(
    quality: PerCompletion, vote_draws: PerVote, *, accuracy: Probability, votes: Votes, ties: Ties
) -> PerCompletion:
    """mode{v_1 … v_m}, each v the quality with probability ``accuracy``, else one of the other two values.

    Source: ``ProcessRewardModel`` of the GRPO-TCR notebook, which breaks ties by what was voted first.
    """
    return plurality(quality, vote_draws, [accuracy] * votes, TERNARY, ties)


@OF_VOTES
def prm_binary(
    correct: PerCompletion, vote_draws: PerVote, *, accuracy: Probability, votes: Votes, ties: Ties
) -> PerCompletion:
    """``prm`` of two values: 1 for a correct completion and −1 for a wrong one, right with probability ``accuracy``.

    Source: Condorcet (1785); what GRPO-TCR calls majority voting.
    """
    return plurality(2 * correct - 1, vote_draws, [accuracy] * votes, BINARY, ties)


@OF_VOTES
def prm_persistent(
    quality: PerCompletion, vote_hashes: PerVote, *, accuracy: Probability, votes: Votes, ties: Ties
) -> PerCompletion:
    """``prm`` whose m votes on a completion are the same whenever it comes again in the run.

    Source: a corrupt reward, a function of the state (arXiv 1705.08417): a model that judges, without noise, is one.
    """
    return plurality(quality, vote_hashes, [accuracy] * votes, TERNARY, ties)


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
    quality: PerCompletion, vote_draws: PerVote, *, accuracy: Probability, votes: Votes, ties: Ties, bias: Probability
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

    A judge below 1/3 counts against what it says. Source: see ``optimal_weight``.
    """
    return plurality(quality, vote_draws, accuracies, TERNARY, ties, weighted=True)


@OF_JUDGES
def prm_weighted_binary(
    correct: PerCompletion, vote_draws: PerVote, *, accuracies: Accuracies, ties: Ties
) -> PerCompletion:
    """``prm_weighted`` of the two values ±1, weighted by log(a / (1 − a)); a judge below 1/2 counts against.

    Source: Nitzan and Paroush (1982); the second challenge of the GRPO-TCR notebook.
    """
    return plurality(2 * correct - 1, vote_draws, accuracies, BINARY, ties, weighted=True)


def plurality(
    truth: Tensor,
    uniforms: Tensor,
    accuracies: list[float],
    values: tuple[float, ...],
    ties: Ties,
    weighted: bool = False,
) -> Tensor:
    """Let judges vote about the truth and return the value with the most votes, or with the largest optimal weight."""
    possible = torch.tensor(values, dtype=truth.dtype, device=truth.device)
    weights = [optimal_weight(accuracy, len(values)) if weighted else 1.0 for accuracy in accuracies]
    return verdict(vote(truth, uniforms, accuracies, possible), uniforms, weights, possible, ties)


def taken_in(judged: PerCompletion, uniforms: PerVote, probability: Tensor) -> PerCompletion:
    """Return +1 where the number that all votes share is below a probability."""
    return judged.masked_fill(uniforms[..., SHARED] < probability, 1.0)


@OF_MODELS
def learned(proxies: PerModel) -> PerCompletion:
    """r_φ(prompt, completion), a network's number after the last token.

    Source: the reward model of InstructGPT (arXiv 2203.02155, §3.5), there shifted so that demonstrations have mean 0.
    """
    return proxies[..., 0]


@OF_MODELS
def ensemble_mean(proxies: PerModel) -> PerCompletion:
    """Mean over the models. Source: reward model ensembles (arXiv 2310.02743, mean optimization)."""
    return moments(proxies)[0]


@OF_MODELS
def ensemble_minimum(proxies: PerModel) -> PerCompletion:
    """The smallest number of any model. Source: worst-case optimization (arXiv 2310.02743)."""
    return proxies.amin(-1)


@OF_MODELS
def ensemble_bound(proxies: PerModel, *, k: FiniteNonNegative) -> PerCompletion:
    """Mean − k · deviation over the models (n − 1): a lower confidence bound.

    Source: uncertainty-weighted optimization (arXiv 2310.02743) takes off the variance; here the deviation, which has
    the unit of the reward.
    """
    mean, deviation = moments(proxies)
    return mean - k * deviation


def moments(proxies: PerModel) -> tuple[PerCompletion, PerCompletion]:
    """Return mean and deviation (n − 1; 0 for one) over the models, added one after another."""
    members = proxies.unbind(-1)
    mean = sum(members[1:], members[0]) / len(members)
    squares = [(each - mean).square() for each in members]
    return mean, (sum(squares[1:], squares[0]) / max(len(members) - 1, 1)).sqrt()


FUNCTIONS = by_name(
    verifier, majority, prm, prm_binary, prm_persistent, prm_length, prm_position, prm_weighted, prm_weighted_binary
)
FUNCTIONS |= by_name(learned, ensemble_mean, ensemble_minimum, ensemble_bound)
INPUTS = TOKENS | FINISHED
INPUTS |= {
    "verified": Offer(PerCompletion, "rewards of the task: Σ weight · component, NaN where there is none"),
    "correct": Offer(PerCompletion, "1 where the task's verifier says so, else 0"),
    "quality": Offer(PerCompletion, "−1, 0 or 1 where the task has such grades, else 2 · correct − 1"),
    "lengths": Offer(PerCompletion, "tokens of the completion, the end token included"),
    "proxies": Offer(PerModel, "numbers of the reward models, standardised; with `reward.model` only"),
    "vote_draws": Offer(PerVote, f"{NUMBERS} uniforms in [0, 1) a completion, drawn anew at every step"),
    "vote_hashes": Offer(PerVote, "the same number of uniforms, the same for a prompt and completion in the whole run"),
}
