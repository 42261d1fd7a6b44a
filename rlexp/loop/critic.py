"""The critic: a network that learns what is still to come, beside the policy and with an optimizer of its own.

It is a network of the sizes of ``model`` with a head of one number (``models/scalar.py``). It begins with the body of
the policy that training starts from, as in InstructGPT (arXiv 2203.02155, there the body of the reward model) and verl,
and with a head of its own. ``norm`` asks for its ``values``; ``TARGETS`` of ``axes/norm`` says what it is trained to.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rlexp.core.blocks import minibatches
from rlexp.core.masked import ALL, count, masked_mean, masked_sum
from rlexp.core.registry import call_with
from rlexp.core.types import NonNegativeInt, PerReplica, PerToken, Positive, PositiveInt, Probability, TokenMask
from rlexp.loop.state import Experience, Tensors, TrainState, backward
from rlexp.loop.variant import Variant
from rlexp.models import scalar

Row = dict[str, Tensor]


def none() -> None:
    """No critic, and nobody to ask for values."""


@dataclass(frozen=True, kw_only=True)
class Critic:
    """A network that expects V(s_t), trained by coef · ½ mean (V − R)² over the tokens of a minibatch that count.

    R are the targets of ``norm``, fixed, as are the values V_old that it was given. With ``clip`` the error is the
    larger one of (V − R)² and (V_old + clamp(V − V_old, ±clip) − R)². ``updates`` are its passes over each rollout,
    whatever ``inner_steps`` is; the minibatches are those of the policy. ``lr``, ``lr_final``, ``warmup_steps`` and
    ``grad_clip`` are as those of the policy beside the axes. In the first ``critic_warmup`` steps it is trained alone:
    the policy is not updated, nor does its learning rate move, whose descent is over the steps that follow.

    Source: PPO (arXiv 1707.06347, eq. 9) with clipping as in OpenAI's ``ppo2``; verl ``compute_value_loss``, OpenRLHF
    ``ValueLoss``, TRL's ``PPOTrainer`` (``cliprange_value``, there 0.2). All three average over tokens, as here; with
    a network and an optimizer of its own, ``coef`` is but a scale of the gradient, which Adam takes out.
    ``critic_warmup`` is that of ROLL (8eb27cc2) and NeMo-RL's ``policy_training_start_step`` (7ea279a); verl's counts
    from 1 and leaves out a step less. Value pretraining of VC-PPO (arXiv 2503.01491) and VAPO (arXiv 2504.05118) is
    this with a critic that is trained to returns.
    """

    lr: Positive
    lr_final: Probability
    warmup_steps: NonNegativeInt
    grad_clip: Positive | None
    coef: Positive
    clip: Positive | None
    updates: PositiveInt
    critic_warmup: PositiveInt | None


CRITICS = {"none": none, "value": Critic}


def trains_alone(state: TrainState, step: int) -> bool:
    """Whether a step updates the critic and not the policy."""
    return step <= (getattr(state.critic, "critic_warmup", None) or 0)


def critic_targets(variant: Variant, offered: Tensors) -> dict[str, PerToken]:
    """Return the values of tokens and what they are trained to, for a variant with a critic."""
    if variant.value_target is None:
        return {}
    return {"values": offered["values"][..., :-1], "returns": call_with(variant.value_target, offered)}


def train_critic(state: TrainState, experience: Experience, measure: bool) -> Row:
    """Train the critic on a rollout; return its metrics if ``measure``, nothing without a critic.

    ``value/explained_variance`` is the share of the variance of the targets that the values explained before:
    1 − Var(R − V) / Var(R) over the tokens that count: 1 is perfect, 0 no better than a constant, NaN where all targets
    are equal.
    """
    if state.critic is None:
        return {}
    passes = state.critic.updates
    rows = [update(state, part) for part in [*minibatches(experience, state.prompts, state.minibatches)] * passes]
    if not measure:
        return {}
    mask, values, returns = counted(experience), experience.critic["values"], experience.critic["returns"]
    explained = 1 - variance(returns - values, mask) / variance(returns, mask)
    mean = masked_sum(values, mask, ALL) / count(mask, ALL, values.dtype)
    means = {name: torch.stack([row[name] for row in rows]).mean(0) for name in rows[0]}
    return means | {"value/mean": mean.squeeze(ALL), "value/explained_variance": explained}


def update(state: TrainState, part: Experience) -> Row:
    """One step of the critic's optimizer on a minibatch; return loss and share of clipped values before it."""
    network, mask = state.networks["critic"], counted(part)
    values = scalar.values(network.module, part.prompts, part.completions)[..., :-1]
    losses, clipped = squared_errors(values, part.critic["values"], part.critic["returns"], state.critic.clip)
    loss = state.critic.coef * 0.5 * masked_mean(losses, mask, ALL).squeeze(ALL)
    backward(loss, network.module, part)
    norms = network.optimizer.step()
    share = masked_mean(clipped.to(losses.dtype), mask, ALL).squeeze(ALL)
    return {"value/loss": loss.detach(), "value/clipped": share, "value/grad_norm": norms}


def squared_errors(values: PerToken, old: PerToken, returns: PerToken, clip: float | None) -> tuple[PerToken, Tensor]:
    """Return (V − R)², or the larger one of it and that of V kept within ``clip`` of V_old, and where that is larger.

    The gradient is 0 there: V has already moved by ``clip``, and towards R.
    """
    errors = (values - returns).square()
    if clip is None:
        return errors, torch.zeros_like(errors, dtype=torch.bool)
    kept = (old + (values - old).clamp(-clip, clip) - returns).square()
    return torch.maximum(errors, kept), (kept > errors).detach()


def counted(part: Experience) -> TokenMask:
    """Return the tokens that the critic learns from: those in the loss, of completions in the statistics."""
    return part.mask & part.keep.unsqueeze(-1)


def variance(values: Tensor, mask: Tensor) -> PerReplica:
    """Variance over the tokens that count, ``[R]``."""
    deviations = values - masked_mean(values, mask, ALL)
    return masked_mean(deviations.square(), mask, ALL).squeeze(ALL)
