"""What a gradient does to the weights: ``optimizer(gradient, …, rates, updates, *, …) -> move``, ``[*R N]``.

All N parameters of a network stand side by side; the move is taken off them. These functions work in place, as what
they work on is as large as the network: ``gradient`` becomes the move, and of ``first``, ``second`` and ``velocity``,
zeros at the start of a run, those that a function asks for are kept from update to update. Who asks for none needs no
memory.

``evolution_strategies`` has no gradient: it gets the rewards of perturbed copies of the policy (``loop.population``).

The gradient is clipped already (``grad_clip``). ``lr`` is a scale of the move that means something else for each: Adam
and RMSProp move every weight by about lr whatever its gradient is, so that a factor on all advantages changes next to
nothing; SGD moves by lr · gradient, and such a factor is a learning rate.
"""

from __future__ import annotations

import torch

from rlexp.core.registry import Offer, by_name
from rlexp.core.types import (
    Decay,
    FiniteNonNegative,
    PerMember,
    PerMemberAndParameter,
    PerParameter,
    PerReplica,
    Positive,
)

MEMORIES_OF_WEIGHTS = ("first", "second", "velocity")
OF_POPULATION = frozenset({"noise", "fitness"})


def adam(
    gradient: PerParameter,
    first: PerParameter,
    second: PerParameter,
    rates: PerReplica,
    updates: int,
    *,
    beta1: Decay,
    beta2: Decay,
    eps: Positive,
) -> PerParameter:
    """lr · m / (√v + eps) with m and v the means of g and g², decayed by beta1 and beta2, over 1 − beta^updates.

    Source: Adam (arXiv 1412.6980, algorithm 1), as ``torch.optim.Adam`` has it.
    """
    first.mul_(beta1).add_(gradient, alpha=1 - beta1)
    second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    torch.div(second, 1 - beta2**updates, out=gradient).sqrt_().add_(eps)
    return torch.div(first, gradient, out=gradient).mul_((rates / (1 - beta1**updates)).unsqueeze(-1))


def adamw(
    gradient: PerParameter,
    weights: PerParameter,
    first: PerParameter,
    second: PerParameter,
    rates: PerReplica,
    updates: int,
    *,
    beta1: Decay,
    beta2: Decay,
    eps: Positive,
    weight_decay: FiniteNonNegative,
) -> PerParameter:
    """The move of ``adam`` + lr · weight_decay · w: the decay is beside the gradient, and is not divided by √v.

    Source: AdamW (arXiv 1711.05101), as ``torch.optim.AdamW``. All weights decay, embeddings and biases too; what
    Hugging Face trains leaves out biases and norms.
    """
    move = adam(gradient, first, second, rates, updates, beta1=beta1, beta2=beta2, eps=eps)
    return move.add_(weights * (weight_decay * rates).unsqueeze(-1))


def sgd(gradient: PerParameter, rates: PerReplica) -> PerParameter:
    """lr · g: a step against the gradient. Source: stochastic gradient descent, as ``torch.optim.SGD``."""
    return gradient.mul_(rates.unsqueeze(-1))


def momentum(gradient: PerParameter, velocity: PerParameter, rates: PerReplica, *, momentum: Decay) -> PerParameter:
    """lr · u with u = momentum · u + g: in the long run moves of lr / (1 − momentum) · g.

    Source: Polyak (1964), as ``torch.optim.SGD(momentum=…)`` without dampening and Nesterov's look ahead.
    """
    velocity.mul_(momentum).add_(gradient)
    return torch.mul(velocity, rates.unsqueeze(-1), out=gradient)


def rmsprop(
    gradient: PerParameter, second: PerParameter, rates: PerReplica, *, alpha: Decay, eps: Positive
) -> PerParameter:
    """lr · g / (√v + eps) with v the mean of g² decayed by alpha, from 0 and not corrected for that.

    Source: Hinton (Neural Networks for Machine Learning, lecture 6e, 2012), as ``torch.optim.RMSprop``; its first moves
    are lr / √(1 − alpha), ten times those that follow at alpha 0.99.
    """
    second.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
    return gradient.div_(second.sqrt().add_(eps)).mul_(rates.unsqueeze(-1))


def evolution_strategies(
    gradient: PerParameter,
    noise: PerMemberAndParameter,
    fitness: PerMember,
    rates: PerReplica,
    *,
    sigma: Positive,
) -> PerParameter:
    """−lr / (G · sigma) · Σ z · ε: towards the noise that was rewarded; there is no gradient.

    A step's G completions of a prompt come from G copies of the policy, each with weights w + sigma · ε, ε from
    N(0, 1). z is a member's mean reward over the prompts, less the mean of all members, over their deviation (÷ G);
    where all are equal nothing moves. Source: Salimans et al. (arXiv 1703.03864, algorithm 1), with the z-scores of
    Evolution Strategies at Scale (arXiv 2509.24372), whose code has 1/sigma in its learning rate: its 5e-4 at sigma
    1e-3 is lr 5e-7 here. That code decodes greedily; here a low ``temperature`` does nearly so.
    """
    scores = fitness - fitness.mean(-1, keepdim=True)
    deviation = scores.square().mean(-1, keepdim=True).sqrt()
    weights = scores / (deviation + 1e-8) * (rates / (scores.shape[-1] * sigma)).unsqueeze(-1)
    gradient.zero_()
    for weight, of_member in zip(weights.unbind(-1), noise.unbind(-2), strict=True):
        gradient.addcmul_(weight.unsqueeze(-1), of_member, value=-1)
    return gradient


FUNCTIONS = by_name(adam, adamw, sgd, momentum, rmsprop, evolution_strategies)
INPUTS = {
    "gradient": Offer(PerParameter, "gradient in all parameters, clipped; becomes the move"),
    "weights": Offer(PerParameter, "the parameters before the update, a copy"),
    "first": Offer(PerParameter, "kept from update to update, 0 at first: of g"),
    "second": Offer(PerParameter, "kept from update to update, 0 at first: of g²"),
    "velocity": Offer(PerParameter, "kept from update to update, 0 at first: of moves"),
    "noise": Offer(PerMemberAndParameter, "what was added to the weights of each member, over sigma"),
    "fitness": Offer(PerMember, "mean reward of each member over the prompts of the step"),
    "rates": Offer(PerReplica, "learning rate of the update, after warm-up and descent"),
    "updates": Offer(int, "number of the update, from 1"),
}
