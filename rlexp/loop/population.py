"""A population: copies of a policy with noise on their weights, which complete prompts in the place of the policy.

The g-th completion of every prompt of a step comes from member g. An optimizer that asks for ``noise`` and ``fitness``
moves the weights by them, and no loss has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rlexp.axes.optimizer import OF_POPULATION
from rlexp.core.blocks import map_tensors
from rlexp.core.registry import required_inputs
from rlexp.core.streams import Purpose, normals
from rlexp.core.types import CompletionMask, PerCompletion, PerMember, PerMemberAndParameter, PerToken, Prompts
from rlexp.loop.rollout import Rollout, sample
from rlexp.loop.state import Experience, TrainState, take_replicas
from rlexp.models.policy import Policy


def asks_for_population(optimizer: Callable) -> bool:
    """Return whether an optimizer moves weights by what members of a population were rewarded with."""
    return bool(OF_POPULATION & {*required_inputs(optimizer)})


def has_population(state: TrainState) -> bool:
    """Return whether members sample: runs of which that is true share no batch with others."""
    return asks_for_population(state.blocks[0][0].optimizer)


def noise_of_members(state: TrainState) -> PerMemberAndParameter:
    """Return what the members of the next update have on their weights, over its standard deviation."""
    width = sum(parameter[0].numel() for parameter in state.policy.parameters())
    shape = state.group, width
    return normals(state.seeds, Purpose.POPULATION, state.optimizer.updates, shape).to(state.temperature)


def members(state: TrainState) -> Policy:
    """Return the population of every run as one stack ``[R · G, ...]``: the members of a run side by side."""
    replicas = torch.arange(len(state.seeds), device=state.temperature.device).repeat_interleave(state.group)
    policy = take_replicas(state.policy, replicas)
    sigma = state.per_run(lambda variant: variant.optimizer.keywords["sigma"], state.temperature.dtype)
    noise = noise_of_members(state).mul_(sigma[:, None, None]).flatten(0, 1)
    for parameter, part in zip(
        policy.parameters(), noise.split([p[0].numel() for p in policy.parameters()], -1), strict=True
    ):
        parameter.add_(part.view_as(parameter))
    return policy


@torch.no_grad()
def sample_by_members(state: TrainState, prompts: Prompts, uniforms: PerToken) -> Rollout:
    """Return G completions of every prompt, one by each member; ``uniforms`` are those of ``sample``."""

    def apart(tensor: Tensor) -> Tensor:
        return tensor.transpose(1, 2).flatten(0, 1).unsqueeze(2).contiguous()

    def together(tensor: Tensor) -> Tensor:
        return tensor.squeeze(2).unflatten(0, (-1, state.group)).transpose(1, 2).contiguous()

    of_members, temperature = (each.repeat_interleave(state.group, 0) for each in (prompts, state.temperature))
    rollout = sample(members(state), state.task, of_members, apart(uniforms), temperature)
    return map_tensors(together, rollout._replace(prompts=of_members.unsqueeze(2)))._replace(prompts=prompts)


def tensors_of_population(state: TrainState, batch: Experience) -> dict[str, Tensor]:
    """Return the ``noise`` and the ``fitness`` of the members; nothing where there are none."""
    return (
        {"noise": noise_of_members(state), "fitness": fitness(batch.rewards, batch.keep)}
        if has_population(state)
        else {}
    )


def fitness(rewards: PerCompletion, keep: CompletionMask) -> PerMember:
    """Return each member's mean reward over its prompts; of one that has none, the mean of the others."""
    means = rewards.where(keep, torch.nan).nanmean(1)
    return means.where(~means.isnan(), means.nanmean(-1, keepdim=True)).nan_to_num(0.0)
