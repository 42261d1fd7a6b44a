"""Sampling: prompts and a policy to completions, with the log-probabilities of the policy that sampled."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Rollout(NamedTuple):
    """Prompts ``[R, P, L]``; completions, old_log_probs and mask ``[R, P, G, T]``; finished ``[R, P, G]``.

    The mask covers the tokens up to the end token, which counts; elsewhere old_log_probs are 0. ``sampler_log_probs``
    are None where the tokens were drawn from the policy itself, see ``sampler``.
    """

    prompts: Tensor
    completions: Tensor
    old_log_probs: Tensor
    mask: Tensor
    finished: Tensor
    sampler_log_probs: Tensor | None = None


def draw(log_probs: Tensor, uniforms: Tensor) -> Tensor:
    """Sample by the inverse of the cumulative distribution: ``[..., V], [...] -> [...]``."""
    cumulative = log_probs.exp().cumsum(-1)
    return (cumulative <= uniforms.unsqueeze(-1) * cumulative[..., -1:]).sum(-1).clamp(max=log_probs.shape[-1] - 1)


def best(log_probs: Tensor, uniforms: Tensor) -> Tensor:
    """Take the most likely token: ``[..., V] -> [...]``."""
    return log_probs.argmax(-1)


@torch.no_grad()
def sample(policy, task, prompts: Tensor, uniforms: Tensor, temperature: Tensor, pick: Callable = draw) -> Rollout:
    """Complete every prompt G times, at the ``temperature`` ``[R]`` of its run; ``uniforms`` are ``[R, P, G, T]``.

    All T numbers of a completion exist beforehand and tensors keep the width T, so that stopping when every
    completion of the batch has ended changes no bit of any run.
    """
    scale = temperature.view(-1, 1, 1, 1)
    logits, state = policy.prefill(prompts, uniforms.shape[2])
    alive = torch.ones_like(uniforms[..., 0], dtype=torch.bool)
    completions = torch.full(uniforms.shape, max(task.pad, 0), device=uniforms.device)
    old_log_probs, mask = torch.zeros_like(uniforms), torch.zeros_like(uniforms, dtype=torch.bool)
    for t in range(uniforms.shape[-1]):
        log_probs = F.log_softmax(logits / scale, -1)
        tokens = pick(log_probs, uniforms[..., t])
        completions[..., t] = tokens.where(alive, completions[..., t])
        old_log_probs[..., t] = log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).where(alive, 0.0)
        mask[..., t] = alive
        alive = alive & (tokens != task.end)
        if t + 1 == uniforms.shape[-1] or not alive.any():
            break
        logits, state = policy.decode(completions[..., t], state)
    return Rollout(prompts, completions, old_log_probs, mask, ~alive if task.end >= 0 else torch.ones_like(alive))
