"""Sampling through each variant's ``sampler``: the policy itself, or one that is not quite it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from rlexp.core.blocks import map_variants
from rlexp.core.registry import call_with, required_inputs
from rlexp.core.streams import Purpose, normals
from rlexp.core.types import Prompts
from rlexp.loop.rollout import Rollout, inverse_cdf, sample
from rlexp.loop.state import TrainState
from rlexp.loop.variant import Variant
from rlexp.models.policy import RolloutPolicy, gather_log_probs
from rlexp.tasks import Task


def sample_completions(
    state: TrainState, policy: RolloutPolicy, prompts: Prompts, uniforms: Tensor, step: int, round: int
) -> Rollout:
    """Complete the prompts, each variant through its own sampler if any differs from the policy."""
    inputs = policy, state.task, prompts, uniforms, state.temperature
    if all(variant.samples_exactly for variant, _ in state.blocks):
        return state.sample(*inputs)
    shape = (*uniforms.shape[1:], state.task.vocabulary)
    return sample_distorted(distortion(state.blocks, state.seeds, step, round, shape), *inputs)


def distortion(
    blocks: Sequence[tuple[Variant, int]], seeds: Sequence[int], step: int, round: int, shape: Sequence[int]
) -> Callable[[Tensor, int], Tensor]:
    """Return what the samplers of the blocks make of the log-probabilities ``[R P G V]`` of place t; shape: P G T V.

    Random numbers are drawn only for the runs whose sampler asks for them.
    """

    def draw_errors(variant: Variant, seeds: Tensor) -> Tensor:
        if "errors" not in required_inputs(variant.sampler):
            return torch.zeros(len(seeds), *shape)
        return normals(seeds.tolist(), Purpose.SAMPLER, step, shape, round=round)

    def distort(variant: Variant, log_probs: Tensor, errors: Tensor) -> Tensor:
        return call_with(variant.sampler, {"log_probs": log_probs, "errors": errors})

    errors = map_variants(draw_errors, blocks, torch.tensor(seeds))
    return lambda log_probs, t: map_variants(distort, blocks, log_probs, errors[..., t, :].to(log_probs))


@torch.no_grad()
def sample_distorted(
    distort: Callable[[Tensor, int], Tensor],
    policy: RolloutPolicy,
    task: Task,
    prompts: Prompts,
    uniforms: Tensor,
    temperature: Tensor,
) -> Rollout:
    """Sample from ``distort(log_probs, t)`` instead of the policy.

    The rollout's ``old_log_probs`` are the trainer's, its ``sampler_log_probs`` are those that the tokens were drawn
    from.
    """
    drawn_from = []

    def pick(log_probs: Tensor, uniforms: Tensor) -> Tensor:
        distorted = distort(log_probs, len(drawn_from))
        tokens = inverse_cdf(distorted, uniforms)
        drawn_from.append(gather_log_probs(distorted, tokens))
        return tokens

    rollout = sample(policy, task, prompts, uniforms, temperature, pick)
    padded = F.pad(torch.stack(drawn_from, -1), (0, uniforms.shape[-1] - len(drawn_from)))
    return rollout._replace(sampler_log_probs=padded.where(rollout.mask, 0.0))
