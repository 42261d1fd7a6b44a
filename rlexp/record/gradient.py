"""What a policy loss makes of a token: the weight of its gradient over the probability ratio, from the loss itself.

Every policy loss turns A · ∇log π of a token into weight · A · ∇log π, so that the weight is −∂ℓ/∂log π / A. So choices
can be compared whose losses cannot: −A log π has no value at a ratio alone, its weight is 1.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from pydantic import BaseModel
from torch import Tensor

from rlexp.axes import clip
from rlexp.core.facts import LossFacts, facts_of
from rlexp.core.registry import bind_choice, call_with, required_inputs

OLD_PROBABILITY = 0.1  # of the token, for the choices whose bounds are distances between probabilities
SMALLEST, LARGEST, NUMBER = 0.3, 6.0, 100
DIGITS = 6
# Two completions before that of the token, of far larger covariance between advantage and log-probability: a loss that
# treats the tokens of the largest covariance apart, or those that are drawn first, takes these.
FILLER_ADVANTAGES, FILLER_LOG_PROBS = (1e6, -1e6), (-0.01, -50.0)


def short(number: float) -> float:
    return float(f"{number:.{DIGITS}g}") + 0.0  # no −0


RATIOS = [short(SMALLEST * (LARGEST / SMALLEST) ** (at / (NUMBER - 1))) for at in range(NUMBER)]


@cache
def gradient_curves(settings: BaseModel, log_ratio_bound: float | None = None) -> dict[str, Any] | None:
    """Return the weights over RATIOS for A = 1 and A = −1, a line for each that the loss draws.

    ``settings`` is the node ``clip`` of a config. The token is a completion of its own. None if the loss asks for more
    than a token has by itself.
    """
    loss = bind_choice(clip.FUNCTIONS, settings)
    curves = facts_of(loss, LossFacts).curves
    if not {*required_inputs(loss)} <= {*offered(1.0, 0.0, math.inf)}:
        return None
    bound = math.inf if log_ratio_bound is None else log_ratio_bound
    lines = {
        label: {"positive": weights(loss, 1.0, progress, bound), "negative": weights(loss, -1.0, progress, bound)}
        for label, progress in curves.lines.items()
    }
    return {"ratios": RATIOS, "lines": lines, "note": curves.note}


def weights(loss: Any, advantage: float, progress: float, bound: float) -> list[float]:
    """Return the weight of the gradient of a token with this advantage at each ratio."""
    with torch.enable_grad():
        tensors = offered(advantage, progress, bound)
        (slopes,) = torch.autograd.grad(call_with(loss, tensors).sum(), tensors["log_probs"])
    return [short(weight) for weight in (-slopes[:, 0, -1, 0] / advantage).tolist()]


def offered(advantage: float, progress: float, bound: float) -> dict[str, Tensor]:
    """Return what a loss may ask for, ``[ratios, 1, 3, 1]``: the token in question is the last completion's."""
    old = torch.tensor([*FILLER_LOG_PROBS, 0.0], dtype=torch.float64).repeat(NUMBER, 1)
    old[:, -1] = torch.tensor(OLD_PROBABILITY, dtype=torch.float64).log()
    new = old.clone()
    new[:, -1] += torch.tensor(RATIOS, dtype=torch.float64).log()
    advantages = torch.tensor([*FILLER_ADVANTAGES, advantage], dtype=torch.float64).repeat(NUMBER, 1)
    uniforms = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64).repeat(NUMBER, 1)
    per_token = {"log_probs": new, "old_log_probs": old, "sampler_log_probs": old, "advantages": advantages}
    shaped = {name: values.view(NUMBER, 1, -1, 1) for name, values in (per_token | {"uniforms": uniforms}).items()}
    shaped["log_probs"].requires_grad_()
    mask = torch.ones_like(shaped["uniforms"], dtype=torch.bool)
    numbers = {"progress": progress, "log_ratio_bound": bound}
    of_runs = {name: torch.full((NUMBER,), number, dtype=torch.float64) for name, number in numbers.items()}
    return shaped | {"mask": mask} | of_runs
