"""The weight of the entropy bonus over time: ``entropy_control(entropy_coef, ...) -> weight``, one a replica ``[*R]``.

The bonus is ``entropy_coef`` · agg(entropy) with ``fixed``. A choice that steers it remembers a weight of its own,
which begins at ``entropy_coef``, and the entropy that it last saw.
"""

from __future__ import annotations

from torch import stack

from rlexp.core.facts import ControlFacts, ordered
from rlexp.core.masked import ALL, masked_mean
from rlexp.core.memory import Memory
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import FiniteNonNegative, PerReplica, PerToken, Positive, Remembered, TokenMask


@ControlFacts(is_noop=True)
def fixed(entropy_coef: float) -> float:
    """Keep the weight. Source: what all frameworks do unless they are told otherwise."""
    return entropy_coef


def weight_of_the_bonus(entropy_steering: Remembered, *, target: Positive) -> PerReplica:
    """Return the weight of the bonus in this step, 0 while the entropy is above the target."""
    coef, entropy = entropy_steering.unbind(-1)
    return coef.where(entropy <= target, 0.0)


@ControlFacts(
    problems=(ordered("least", "most"), ordered("initial", "most")), metrics={"entropy/coef": weight_of_the_bonus}
)
def adaptive(
    entropy_steering: Remembered,
    *,
    initial: FiniteNonNegative,
    target: Positive,
    delta: Positive,
    least: FiniteNonNegative,
    most: FiniteNonNegative,
) -> PerReplica:
    """The weight where the last step's entropy was at most ``target``, else 0; it moves by ``delta`` after each step.

    Up to at most ``most`` where the entropy of the step is at most the target, down to at least ``least`` where it is
    above. In the first step nothing has been seen, and the bonus is 0. The entropy is estimated by the mean of
    −log π_old over the tokens that count, in nats a token. Source: Skywork-OR1 (arXiv 2505.22312); TRL
    ``use_adaptive_entropy`` (#6140), which moves it at every update and knows the entropy exactly.
    """
    return weight_of_the_bonus(entropy_steering, target=target)


def start_at(*, initial: float) -> tuple[float, float]:
    """Return the weight to start from, and an entropy that asks for no bonus."""
    return initial, float("inf")


def steer(
    entropy_steering: Remembered,
    old_log_probs: PerToken,
    mask: TokenMask,
    *,
    target: float,
    delta: float,
    least: float,
    most: float,
) -> Remembered:
    """Return the weight after a step, moved by ``delta`` as in ``adaptive``, and the entropy of the step.

    Both stay where no token counts. Source: Skywork-OR1 (arXiv 2505.22312).
    """
    coef, _ = entropy_steering.unbind(-1)
    entropy = masked_mean(-old_log_probs, mask, ALL).squeeze(ALL)
    up, down = (coef + delta).clamp(max=most), (coef - delta).clamp(min=least)
    some = mask.any(-1).any(-1).any(-1, keepdim=True)
    return stack([up.where(entropy <= target, down), entropy], -1).where(some, entropy_steering)


FUNCTIONS = by_name(fixed, adaptive)
TEXT = "weight of the bonus, and the entropy of the last step in nats a token"
MEMORIES = {"adaptive": Memory("entropy_steering", start_at, steer, TEXT)}
INPUTS: dict[str, Offer] = {"entropy_coef": Offer(float, "the key `entropy_coef`")}
