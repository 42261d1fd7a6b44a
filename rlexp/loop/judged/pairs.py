"""Pairs of completions of one prompt with a label which of them is better, to train reward models on.

A labeller knows the task's components. It weighs them by weights of its own, which need not be those of the task, and
adds something for every token: what it prefers is then not what the task wants. A share of its labels is turned round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from rlexp.core.blocks import map_tensors
from rlexp.core.streams import Purpose, uniforms
from rlexp.core.types import PairOfCompletions, PairOfMasks, PerPair, Prompts
from rlexp.loop.rewards import scores_of
from rlexp.loop.rollout import Rollout, sample
from rlexp.models.policy import Policy
from rlexp.tasks import Task, total_reward

ROUNDS = 16  # of sampling, as many pairs each as are wanted, after which a run has to do with what it has


class Pairs(NamedTuple):
    """Prompts, two completions each, the preferred one first, and whether the pair is one at all."""

    prompts: Prompts
    completions: PairOfCompletions
    mask: PairOfMasks
    valid: PerPair


@runtime_checkable
class Labelling(Protocol):
    """What a labeller prefers, which pairs it is shown, and how often it is wrong."""

    weights: dict[str, float]
    length_bonus: float
    smallest_gap: float
    largest_gap: float | None
    flips: float


class Place(NamedTuple):
    """Where random numbers belong: to the runs' seeds, a step, and a model of an ensemble."""

    seeds: Sequence[int]
    step: int
    member: int

    def uniforms(self, purpose: Purpose, round: int, *shape: int) -> Tensor:
        """Return numbers in [0, 1) of a round of this place, ``[R, *shape]``."""
        return uniforms(self.seeds, purpose, self.step, shape, round=self.member * ROUNDS + round)


def sample_pairs(
    policy: Policy, task: Task, temperature: Tensor, labelling: Labelling, wanted: int, place: Place
) -> Pairs:
    """Return so many pairs a run from a policy, those that are valid first, ``[R N …]``.

    Rounds of candidates are sampled until every run has enough; a run takes its first ones, whoever its neighbours are.
    """
    rounds = []
    for number in range(ROUNDS):
        rounds.append(candidates(policy, task, temperature, labelling, wanted, place, number))
        if (sum(each.valid.sum(1) for each in rounds) >= wanted).all():
            break
    return first_valid(map_tensors(lambda *parts: torch.cat(parts, 1), *rounds), wanted)


def candidates(
    policy: Policy, task: Task, temperature: Tensor, labelling: Labelling, wanted: int, place: Place, number: int
) -> Pairs:
    """Return two completions each of so many prompts of training, in the order that the labeller says."""
    device = temperature.device
    prompts = task.prompts(place.uniforms(Purpose.PAIR_PROMPTS, number, wanted, task.draws).to(device), held_out=False)
    noise = place.uniforms(Purpose.PAIR_SAMPLING, number, wanted, 2, task.cap).to(device)
    rollout = sample(policy, task, prompts, noise, temperature)
    gold = label_scores(task, rollout, labelling)
    gap = (gold[..., 0] - gold[..., 1]).abs()
    valid = (gap > labelling.smallest_gap) & (gap <= (labelling.largest_gap or torch.inf))
    flipped = place.uniforms(Purpose.PAIR_FLIPS, number, wanted).to(device) < labelling.flips
    better = ((gold[..., 1] > gold[..., 0]) ^ flipped).long()
    order = torch.stack([better, 1 - better], -1).unsqueeze(-1)
    chosen = (torch.take_along_dim(each, order, 2) for each in (rollout.completions, rollout.mask))
    return Pairs(prompts, *chosen, valid)


def label_scores(task: Task, rollout: Rollout, labelling: Labelling) -> Tensor:
    """Return what the labeller thinks of completions, ``[R P G]``: Σ weight · component + bonus · length."""
    scores = scores_of(task, rollout)
    total = total_reward(scores.components, labelling.weights)
    return total + labelling.length_bonus * rollout.mask.to(total.dtype).sum(-1)


def first_valid(pairs: Pairs, number: int) -> Pairs:
    """Return so many pairs, those that are valid first, each kind in its order."""
    return rows_of(pairs, valid_order(pairs)[:, :number])


def valid_order(pairs: Pairs) -> Tensor:
    """Return the places of all pairs, those that are valid first, ``[R N]``."""
    return (~pairs.valid).byte().argsort(dim=1, stable=True)


def rows_of(pairs: Pairs, places: Tensor) -> Pairs:
    """Return the pairs at places ``[R n]``."""

    def chosen(values: Tensor) -> Tensor:
        return torch.take_along_dim(values, places.view(*places.shape, *[1] * (values.dim() - 2)), 1)

    return map_tensors(chosen, pairs)
