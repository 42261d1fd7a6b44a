"""Votes of judges who err: how they are cast, counted and, where they tie, decided; and how often that is right.

A judge of accuracy a votes for the truth with probability a and else for one of the other values, each as likely. A
completion has ``NUMBERS`` uniforms: one a vote, one for what all its votes share, one for its tie. Their number is
fixed, so that how many votes there are changes no other draw, and the first votes of eleven are those of five.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from jaxtyping import Float
from torch import Tensor

from rlexp.core.types import PerCompletion

NUMBERS = 32
MOST = NUMBERS - 2
SHARED, TIE = -2, -1  # places of the numbers that belong to no vote
ROUNDING = 1e-5  # sums of weights that differ by less are equal: they are of at most 30 float32 numbers of order one

PerVote = Float[Tensor, "*replica prompts group votes"]
Probability = Annotated[float, Ge(0), Le(1)]
Votes = Annotated[int, Ge(1), Le(MOST)]
Accuracies = Annotated[list[Annotated[float, Gt(0), Lt(1)]], MinLen(1), MaxLen(MOST)]
Ties = Literal["first", "random", "neutral"]


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
    return TIES[ties](tied, votes, uniforms[..., TIE], values)


def first(tied: Tensor, votes: Tensor, luck: Tensor, values: Tensor) -> Tensor:
    """Of the tied values the one that was voted for first, as Python's ``Counter.most_common``."""
    among = tied.gather(-1, votes).byte().argmax(-1, keepdim=True)
    voted = values[votes.gather(-1, among).squeeze(-1)]
    return voted.where(tied.gather(-1, votes).any(-1), random(tied, votes, luck, values))


def random(tied: Tensor, votes: Tensor, luck: Tensor, values: Tensor) -> Tensor:
    """Each of the tied values as likely."""
    number = tied.sum(-1)
    chosen = (luck * number).long().clamp(max=number - 1)
    return values[(tied.cumsum(-1) <= chosen.unsqueeze(-1)).sum(-1)]


def neutral(tied: Tensor, votes: Tensor, luck: Tensor, values: Tensor) -> Tensor:
    """0: no verdict."""
    return random(tied, votes, luck, values).where(tied.sum(-1) == 1, 0.0)


TIES = {"first": first, "random": random, "neutral": neutral}


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
    for counts in compositions(votes, values):
        best = counts.count(max(counts)) if counts[0] == max(counts) else 0
        worth = (1.0 if best == 1 else 1 / best if tie is None else tie) if best else 0.0
        ways = math.factorial(votes) / math.prod(map(math.factorial, counts))
        total += worth * ways * accuracy ** counts[0] * wrong ** (votes - counts[0])
    return total


def compositions(number: int, parts: int) -> Iterator[list[int]]:
    """Yield all lists of ``parts`` counts with this sum."""
    if parts == 1:
        yield [number]
        return
    for head in range(number + 1):
        yield from ([head, *rest] for rest in compositions(number - head, parts - 1))
