"""Learned judges: reward models trained on pairs of completions, alone or as an ensemble.

``proxies`` are the numbers of each model after the last token of a completion, less their mean over the completions of
its first pairs and divided by their deviation: what the pairs of Bradley and Terry leave open is fixed so.
"""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

from rlexp.core.facts import RewardFacts
from rlexp.core.types import FiniteNonNegative, PerCompletion

PerModel = Float[Tensor, "*replica prompts group models"]
OF_MODELS = RewardFacts(
    bounds=(-math.inf, math.inf), calls=lambda settings: settings.model.members if settings.model else 0
)


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


FUNCTIONS = {
    "learned": learned,
    "ensemble_mean": ensemble_mean,
    "ensemble_minimum": ensemble_minimum,
    "ensemble_bound": ensemble_bound,
}
