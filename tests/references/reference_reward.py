"""The judges once more, one completion at a time: quality, correct, lengths ``[P G]``, numbers of votes ``[P G N]``."""

from __future__ import annotations

import math
import statistics
from collections import Counter

import numpy as np

TERNARY, BINARY = [-1, 0, 1], [-1, 1]


def judged(one, truth, uniforms, *more) -> np.ndarray:
    """Call ``one`` with the numbers of each completion, and its place in the group."""
    verdicts = np.empty(truth.shape)
    for p, g in np.ndindex(*truth.shape):
        verdicts[p, g] = one(truth[p, g], uniforms[p, g].tolist(), *(array[p, g] for array in more))
    return verdicts


def ballot(truth, luck, accuracies, values):
    """Each judge by itself: what is left of a number above the accuracy chooses one of the others, in their circle."""
    votes = []
    for number, accuracy in zip(luck, accuracies, strict=False):
        if number < accuracy:
            votes.append(int(truth))
            continue
        others = values[values.index(truth) + 1 :] + values[: values.index(truth)]
        votes.append(others[int((number - accuracy) / (1 - accuracy) * len(others))])
    return votes


def decide(votes, weights, luck, ties):
    """Sum the weights of each value, as a tally of names; values in the order in which they are seen first."""
    tally = Counter()
    for vote, weight in zip(votes, weights, strict=True):
        tally[vote] += weight
    best = max(tally.values())
    tied = [value for value in tally if abs(tally[value] - best) < 1e-9]
    if len(tied) == 1 or ties == "first":
        return tied[0]
    return 0 if ties == "neutral" else sorted(tied)[int(luck[-1] * len(tied))]


def majority(completions, mask, finished, lengths):
    """TTRL: count what was said, and reward those who said what ``Counter.most_common(1)`` names."""
    rewards = np.zeros(finished.shape)
    for p, group in enumerate(completions):
        said = [tuple(tokens[kept].tolist()) for tokens, kept in zip(group, mask[p], strict=True)]
        counted = Counter(each for each, ended in zip(said, finished[p], strict=True) if ended)
        best = counted.most_common(1)[0][0] if counted else None
        rewards[p] = [ended and each == best for each, ended in zip(said, finished[p], strict=True)]
    return rewards


def prm(quality, draws, *, accuracy, votes, ties):
    """GRPO-TCR notebook, ``evaluate_with_majority_voting``; ``first`` is its ``Counter.most_common(1)``."""

    def one(truth, luck):
        return decide(ballot(truth, luck, [accuracy] * votes, TERNARY), [1] * votes, luck, ties)

    return judged(one, quality, draws)


def prm_binary(correct, draws, *, accuracy, votes, ties):
    """The same of two values."""

    def one(right, luck):
        return decide(ballot(1 if right else -1, luck, [accuracy] * votes, BINARY), [1] * votes, luck, ties)

    return judged(one, correct, draws)


def prm_length(quality, draws, lengths, *, accuracy, votes, ties, bias, cap):
    """All votes say +1 where the last number but one is below the bias of the length."""
    fair = prm(quality, draws, accuracy=accuracy, votes=votes, ties=ties)
    return judged(lambda v, luck, n: 1 if luck[-2] < bias * min(n / cap, 1) else v, fair, draws, lengths)


def prm_position(quality, draws, *, accuracy, votes, ties, bias):
    """The same with the place in the group."""
    fair = prm(quality, draws, accuracy=accuracy, votes=votes, ties=ties)
    _, group = np.indices(quality.shape)
    last = max(quality.shape[1] - 1, 1)
    return judged(lambda v, luck, g: 1 if luck[-2] < bias * (1 - g / last) else v, fair, draws, group)


def likeliest(votes, accuracies, values):
    """Bayes' rule with equal priors, as a product of probabilities: no weights, no logarithms of odds."""
    return {
        value: math.prod(
            a if vote == value else (1 - a) / (len(values) - 1) for vote, a in zip(votes, accuracies, strict=True)
        )
        for value in values
    }


def weighted(truth, luck, accuracies, values, ties):
    """Return the value of the largest likelihood."""
    votes = ballot(truth, luck, accuracies, values)
    found = likeliest(votes, accuracies, values)
    best = max(found.values())
    tied = [value for value in values if found[value] > best * (1 - 1e-6)]
    if len(tied) == 1:
        return tied[0]
    if ties == "first" and any(vote in tied for vote in votes):
        return next(vote for vote in votes if vote in tied)
    return 0 if ties == "neutral" else tied[int(luck[-1] * len(tied))]


def prm_weighted(quality, draws, *, accuracies, ties):
    """The likeliest of three values."""
    return judged(lambda truth, luck: weighted(truth, luck, accuracies, TERNARY, ties), quality, draws)


def prm_weighted_binary(correct, draws, *, accuracies, ties):
    """The likeliest of two."""
    return judged(lambda right, luck: weighted(1 if right else -1, luck, accuracies, BINARY, ties), correct, draws)


def over_models(one, proxies) -> np.ndarray:
    """Call ``one`` with the list of what the models say of each completion."""
    return np.array([[one(each.tolist()) for each in row] for row in proxies])


FUNCTIONS = {
    "learned": lambda proxies: over_models(lambda said: said[0], proxies),
    "ensemble_mean": lambda proxies: over_models(statistics.fmean, proxies),
    "ensemble_minimum": lambda proxies: over_models(min, proxies),
    "ensemble_bound": lambda proxies, *, k: over_models(
        lambda said: statistics.fmean(said) - k * statistics.stdev(said), proxies
    ),
    "verifier": lambda verified: np.array(verified),
    "majority": majority,
    "prm": prm,
    "prm_binary": prm_binary,
    "prm_persistent": prm,
    "prm_length": prm_length,
    "prm_position": prm_position,
    "prm_weighted": prm_weighted,
    "prm_weighted_binary": prm_weighted_binary,
}
