"""Sampling: prompts and a policy to completions, with the log-probabilities of the policy that sampled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Rollout(NamedTuple):
    """Prompts ``[R, P, L]``; completions, old_log_probs and mask ``[R, P, G, T]``; finished ``[R, P, G]``.

    The mask covers the tokens up to the end token, which counts; elsewhere old_log_probs are 0. ``sampler_log_probs``
    are those that the tokens were drawn from: the same tensor, unless ``sampler`` has changed them.
    """

    prompts: Tensor
    completions: Tensor
    old_log_probs: Tensor
    mask: Tensor
    finished: Tensor
    sampler_log_probs: Tensor

    @property
    def pairs(self) -> tuple[Tensor, Tensor]:
        """Return every completion behind its prompt and which of these tokens count, ``[R, P, G, L + T]`` each."""
        prompts = self.prompts.unsqueeze(2).expand(-1, -1, self.mask.shape[2], -1)
        present = torch.ones_like(prompts, dtype=torch.bool)
        return torch.cat([prompts, self.completions], -1), torch.cat([present, self.mask], -1)


def draw(log_probs: Tensor, uniforms: Tensor) -> Tensor:
    """Sample by the inverse of the cumulative distribution: ``[..., V], [...] -> [...]``."""
    cumulative = log_probs.exp().cumsum(-1)
    return (cumulative <= uniforms.unsqueeze(-1) * cumulative[..., -1:]).sum(-1).clamp(max=log_probs.shape[-1] - 1)


def best(log_probs: Tensor, uniforms: Tensor) -> Tensor:
    """Take the most likely token: ``[..., V] -> [...]``."""
    return log_probs.argmax(-1)


def distributions(policy, prompts: Tensor, completions: Tensor, temperature: Tensor, tape=None) -> Tensor:
    """Log-probabilities of the whole vocabulary at the ``temperature`` ``[R]`` of each run, ``[R P G T V]``.

    ``tape`` is what ``sample`` has left, if the policy still is what it was.
    """
    return F.log_softmax(policy(prompts, completions, tape) / temperature.view(-1, 1, 1, 1, 1), -1)


def taken(every: Tensor, completions: Tensor) -> Tensor:
    """Log-probabilities of the tokens of the completions: ``[R P G T V] -> [R P G T]``."""
    return every.gather(-1, completions.unsqueeze(-1)).squeeze(-1)


@torch.no_grad()
def sample(
    policy, task, prompts: Tensor, uniforms: Tensor, temperature: Tensor, pick: Callable = draw, tape=None
) -> Rollout:
    """Complete every prompt G times, at the ``temperature`` ``[R]`` of its run; ``uniforms`` are ``[R, P, G, T]``.

    All T numbers of a completion exist beforehand and tensors keep the width T, so that stopping when every
    completion of the batch has ended changes no bit of any run. ``tape`` is the policy's, to be written.
    """
    # inference mode makes small operations cheaper; compiled code has none, and cannot write to a tape in it
    with torch.no_grad() if torch.compiler.is_compiling() else torch.inference_mode():
        tokens, log_probs, state = decoded(policy, task, prompts, uniforms, temperature, pick, tape)
        if tape is not None:
            tape.fill(state.tokens)
    after = (0, uniforms.shape[-1] - len(tokens))
    tokens, log_probs = (F.pad(torch.stack(each, -1), after) for each in (tokens, log_probs))
    ends = (tokens == task.end).long()
    mask = ends.cumsum(-1) == ends
    finished = ends.any(-1) if task.end >= 0 else torch.ones_like(mask[..., 0])
    old = log_probs.where(mask, 0.0)
    return Rollout(prompts, tokens.where(mask, max(task.pad, 0)), old, mask, finished, old)


def decoded(
    policy, task, prompts: Tensor, uniforms: Tensor, temperature: Tensor, pick: Callable, tape
) -> tuple[list[Tensor], list[Tensor], Any]:
    """Return the tokens ``[R, P, G]``, place by place until all have ended, their log-probabilities, the last state."""
    scale = temperature.view(-1, 1, 1, 1)
    logits, state = policy.prefill(prompts, uniforms.shape[2], tape)
    ended = torch.zeros_like(uniforms[..., 0], dtype=torch.bool)
    tokens, log_probs = [], []
    for noise in uniforms.unbind(-1):
        if tokens:
            logits, state = policy.decode(tokens[-1], state)
        every = F.log_softmax(logits / scale, -1)
        tokens.append(pick(every, noise))
        log_probs.append(taken(every, tokens[-1]))
        if task.end >= 0:
            ended = ended | (tokens[-1] == task.end)
            if ended.all():
                break
    return tokens, log_probs, state
