"""Learned judges: reward models trained on pairs of completions, alone or as an ensemble.

``proxies`` are the numbers of each model after the last token of a completion, less their mean over the completions of
its first pairs and divided by their deviation: what the pairs of Bradley and Terry leave open is fixed so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from jaxtyping import Float
from torch import Tensor

from rlexp.core.facts import facts
from rlexp.core.types import FiniteNonNegative, PerCompletion

UNBOUNDED = (-math.inf, math.inf)
PerModel = Float[Tensor, "*replica prompts group models"]


def models_of(node: Any) -> int:
    """Each model once."""
    return node.model.members if node.model else 0


def other_than_one(key: str, node: Any, config: Any) -> Iterator[str]:
    """More models than are listened to."""
    if node.model and node.model.members > 1:
        yield f"{key}.model.members={node.model.members}: {key}={node.name} has one model; take {key}=ensemble_mean"


def fewer_than_two(key: str, node: Any, config: Any) -> Iterator[str]:
    """An ensemble of one."""
    if node.model and node.model.members < 2:
        yield f"{key}.model.members={node.model.members}: {key}={node.name} needs at least 2; take {key}=learned"


@facts(bounds=UNBOUNDED, calls=models_of, problems=(other_than_one,))
def learned(proxies: PerModel) -> PerCompletion:
    """r_φ(prompt, completion), a network's number after the last token.

    Source: the reward model of InstructGPT (arXiv 2203.02155, §3.5), there shifted so that demonstrations have mean 0.
    """
    return proxies[..., 0]


@facts(bounds=UNBOUNDED, calls=models_of, problems=(fewer_than_two,))
def ensemble_mean(proxies: PerModel) -> PerCompletion:
    """Mean over the models. Source: reward model ensembles (arXiv 2310.02743, mean optimisation)."""
    return moments(proxies)[0]


@facts(bounds=UNBOUNDED, calls=models_of, problems=(fewer_than_two,))
def ensemble_minimum(proxies: PerModel) -> PerCompletion:
    """The smallest number of any model. Source: worst-case optimisation (arXiv 2310.02743)."""
    return proxies.amin(-1)


@facts(bounds=UNBOUNDED, calls=models_of, problems=(fewer_than_two,))
def ensemble_bound(proxies: PerModel, *, k: FiniteNonNegative) -> PerCompletion:
    """Mean − k · deviation over the models (n − 1): a lower confidence bound.

    Source: uncertainty-weighted optimisation (arXiv 2310.02743) takes off the variance; here the deviation, which has
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
