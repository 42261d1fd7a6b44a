"""What the sampler makes of the policy: ``sampler(log_probs, *, knobs) -> log_probs``, ``[*R P G V]``.

A simulation of the disagreement between an inference engine and a trainer. Given are the trainer's log-probabilities of
the next token at the sampling temperature (the scaled logits, up to a constant); tokens are drawn from what comes back,
also log-probabilities. Evaluation samples from the policy itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rlexp.blocks import by_block
from rlexp.choose import ask, needs
from rlexp.rollout import Rollout, draw, sample
from rlexp.streams import Purpose, normals
from rlexp.types import FiniteNonNegative, NextToken

if TYPE_CHECKING:
    from rlexp.fleet import Fleet
    from rlexp.models.tape import Tape


def exact(log_probs: NextToken) -> NextToken:
    """The policy itself: sampler and trainer agree."""
    return log_probs


def noisy(log_probs: NextToken, errors: NextToken, *, std: FiniteNonNegative) -> NextToken:
    """log softmax(log π + std · errors): Gaussian noise on the logits, in units of the logits after the temperature.

    ``errors`` are independent standard normal numbers for every token of the vocabulary at every place. To first order
    KL(π_sampler‖π) at a place is std²/2 · (1 − Σ_v π_v²) nats. Source: a model of this project, no framework has it.
    """
    return F.log_softmax(log_probs + std * errors, -1)


def bf16(log_probs: NextToken) -> NextToken:
    """log softmax of log π rounded to bfloat16 (8 bits of precision): a sampler whose logits are of that type.

    Source: bfloat16 as the cause of the disagreement (arXiv 2510.26788). Only the last rounding is simulated.
    """
    return F.log_softmax(log_probs.bfloat16().to(log_probs.dtype), -1)


FUNCTIONS = {"exact": exact, "noisy": noisy, "bf16": bf16}


def distortion(
    blocks: Sequence[tuple[Any, int]], seeds: Sequence[int], step: int, round: int, shape: Sequence[int]
) -> Callable[[Tensor, int], Tensor]:
    """Return what the samplers of the blocks make of the log-probabilities ``[R P G V]`` of place t; shape: P G T V.

    Random numbers are drawn only for the runs whose sampler asks for them.
    """

    def drawn(variant: Any, seeds: Tensor) -> Tensor:
        asked = "errors" in needs(variant.sampler)
        if not asked:
            return torch.zeros(len(seeds), *shape)
        return normals(seeds.tolist(), Purpose.SAMPLER, step, shape, round=round)

    def distorted(variant: Any, log_probs: Tensor, errors: Tensor) -> Tensor:
        return ask(variant.sampler, {"log_probs": log_probs, "errors": errors})

    errors = by_block(drawn, blocks, torch.tensor(seeds))
    return lambda log_probs, t: by_block(distorted, blocks, log_probs, errors[..., t, :].to(log_probs))


def sampled(
    fleet: Fleet, prompts: Tensor, uniforms: Tensor, step: int, round: int, tape: Tape | None = None
) -> Rollout:
    """Complete the prompts, each variant through its own sampler if any differs from the policy."""
    given = fleet.policy, fleet.task, prompts, uniforms, fleet.temperature
    if not fleet.uses("inexact"):
        return fleet.sample(*given, tape=tape)
    shape = (*uniforms.shape[1:], fleet.task.vocabulary)
    return sample_through(distortion(fleet.blocks, fleet.seeds, step, round, shape), *given, tape)


@torch.no_grad()
def sample_through(
    distort: Callable[[Tensor, int], Tensor],
    policy,
    task,
    prompts: Tensor,
    uniforms: Tensor,
    temperature: Tensor,
    tape: Tape | None = None,
) -> Rollout:
    """Sample from ``distort(log_probs, t)`` instead of the policy.

    The rollout's ``old_log_probs`` are the trainer's, its ``sampler_log_probs`` are those that the tokens were drawn
    from.
    """
    notes = []

    def pick(log_probs: Tensor, uniforms: Tensor) -> Tensor:
        distorted = distort(log_probs, len(notes))
        tokens = draw(distorted, uniforms)
        notes.append(distorted.gather(-1, tokens.unsqueeze(-1)).squeeze(-1))
        return tokens

    rollout = sample(policy, task, prompts, uniforms, temperature, pick, tape)
    unused = uniforms.shape[-1] - len(notes)
    noted = F.pad(torch.stack(notes, -1), (0, unused))
    return rollout._replace(sampler_log_probs=noted.where(rollout.mask, 0.0))
