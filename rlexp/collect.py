"""Which groups a step trains on: those sampled first, and others in place of those that ``filter.refill`` drops.

Source: dynamic sampling of DAPO (arXiv 2503.14476, §3.2, algorithm 1) with ``zero_variance``; verl ``filter_groups``
with its cap ``max_num_gen_batches``, OpenRLHF ``--algo.dynamic_filtering_enable`` with ``difficulty``.

Each run keeps its own count: a round is sampled only for the runs that are short of groups and have rounds left, from
streams addressed by the round, so that a run takes the same groups whoever its neighbours are.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from rlexp.blocks import by_block
from rlexp.choose import ask
from rlexp.rollout import Rollout, sample
from rlexp.sampler import sampled
from rlexp.streams import Purpose
from rlexp.tasks import combine

if TYPE_CHECKING:
    from rlexp.fleet import Fleet
    from rlexp.models.tape import Tape


class Collected(NamedTuple):
    """The groups of a step and what they took, ``[R]``: rounds, tokens, groups that passed, those that are used; the
    tape of sampling them, None where the policy keeps none."""

    rollout: Rollout
    rounds: Tensor
    tokens: Tensor
    passed: Tensor
    used: Tensor
    tape: Tape | None


class Groups(NamedTuple):
    """Groups of a run and whether its ``refill`` keeps each, ``[R, P]``."""

    rollout: Rollout
    keep: Tensor


def collect(fleet: Fleet, step: int) -> Collected:
    """Sample P groups a run, and P more for every run that is short of groups to keep and has rounds left.

    A run uses its first P groups that are kept. Where there are fewer after its last round, the first of those that
    are not kept fill the places: they are used as they are. verl stops with an error there, which would end the run
    of a policy that has learnt all prompts; to leave such groups out of the loss as well is ``filter.loss``.
    """
    prompts = asked(fleet, step, 0)
    tape = fleet.policy.tape(prompts, fleet.group)
    groups = round_of(fleet, prompts, step, 0, tape)
    most = torch.tensor(
        [variant.rounds for variant, size in fleet.blocks for _ in range(size)], device=fleet.temperature.device
    )
    rounds, tokens, passed = torch.ones_like(most), tokens_of(groups), groups.keep.sum(-1)
    for number in range(1, max(variant.rounds for variant, _ in fleet.blocks)):
        short = (~groups.keep.all(-1) & (number < most)).nonzero().squeeze(-1)
        if not len(short):
            break
        few = only(fleet, short)
        more = round_of(few, asked(few, step, number), step, number)
        groups = refilled(groups, short, more)
        rounds[short] += 1
        tokens[short] += tokens_of(more)
        passed[short] += more.keep.sum(-1)
    if tape is not None and (rounds > 1).any():
        tape = rewritten(tape, fleet, (rounds > 1).nonzero().squeeze(-1), groups.rollout)
    return Collected(groups.rollout, rounds, tokens, passed, groups.keep.sum(-1), tape)


def rewritten(tape: Tape, fleet: Fleet, refilled: Tensor, rollout: Rollout) -> Tape:
    """Decode the completions of runs whose groups come from several rounds once more, for their part of the tape."""
    few, tokens = only(fleet, refilled), iter(rollout.completions[refilled].unbind(-1))
    own = few.policy.tape(rollout.prompts[refilled], fleet.group)
    given = rollout.prompts[refilled], rollout.old_log_probs[refilled], few.temperature
    sample(few.policy, few.task, *given, lambda *_: next(tokens), own)
    tape.put(refilled, own)
    return tape._replace(read=fleet.policy.read(rollout.prompts))


def asked(fleet: Fleet, step: int, number: int) -> Tensor:
    """Return the prompts of a round, ``[R, P, L]``."""
    drawn = fleet.uniforms(Purpose.PROMPTS, step, fleet.prompts, fleet.task.draws, round=number)
    return fleet.task.prompts(drawn, held_out=False)


def round_of(fleet: Fleet, prompts: Tensor, step: int, number: int, tape: Tape | None = None) -> Groups:
    """Sample and judge P groups a run, by the task's own rewards: a shaping that punishes length varies everywhere."""
    task = fleet.task
    noise = fleet.uniforms(Purpose.SAMPLING, step, fleet.prompts, fleet.group, task.cap, round=number)
    rollout = sampled(fleet, prompts, noise, step, number, tape)
    if all(variant.rounds == 1 for variant, _ in fleet.blocks):
        return Groups(rollout, torch.ones_like(rollout.finished[..., 0]))
    scores = task.score(rollout.prompts, rollout.completions, rollout.mask, rollout.finished)
    rewards = combine(scores.components, task.weights)
    return Groups(rollout, by_block(kept, fleet.blocks, rollout, rewards)["keep"])


def kept(variant, rollout: Rollout, rewards: Tensor) -> dict[str, Tensor]:
    """Return which groups the variant's ``refill`` keeps, ``[R, P]``; it is a filter of whole groups."""
    scored = ~rewards.isnan()
    offered = rollout._asdict() | {"rewards": rewards.where(scored, 0.0), "scored": scored}
    return {"keep": ask(variant.refill, offered)[..., 0]}


def refilled(groups: Groups, short: Tensor, more: Groups) -> Groups:
    """Put groups of ``more`` in the place of those that were not kept, for the runs with the indices ``short``.

    Kept ones first, each kind in the order in which it was sampled; runs that are not short stay bit by bit.
    """
    prompts = groups.keep.shape[1]
    order = torch.cat([~groups.keep[short], ~more.keep], 1).byte().argsort(dim=1, stable=True)[:, :prompts]

    def merged(mine: Tensor, others: Tensor) -> Tensor:
        both = torch.cat([mine[short], others], 1)
        chosen = torch.take_along_dim(both, order.view(*order.shape, *[1] * (both.dim() - 2)), 1)
        return mine.index_copy(0, short, chosen)

    rollout = Rollout(*map(merged, groups.rollout, more.rollout))
    return Groups(rollout, merged(groups.keep, more.keep))


def only(fleet: Fleet, replicas: Tensor) -> Fleet:
    """Return a fleet of these runs, in their order, to sample with: its weights are copies, not to be trained.

    Its sampling is not compiled, whatever that of the whole fleet is: another number of runs would compile it again.
    """
    variants, sizes = zip(*fleet.blocks, strict=True)
    owners = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    counts = owners[replicas.cpu()].bincount(minlength=len(sizes)).tolist()
    return replace(
        fleet,
        policy=narrowed(fleet.policy, replicas),
        seeds=[fleet.seeds[replica] for replica in replicas.tolist()],
        temperature=fleet.temperature[replicas],
        sample=sample,
        blocks=[(variant, size) for variant, size in zip(variants, counts, strict=True) if size],
    )


def narrowed(policy: nn.Module, replicas: Tensor) -> nn.Module:
    """Return a policy of some of the replicas: the same module with their rows of every parameter."""
    rows = {id(each): nn.Parameter(each.detach()[replicas], requires_grad=False) for each in policy.parameters()}
    return copy.deepcopy(policy, rows)


def tokens_of(groups: Groups) -> Tensor:
    """Count the tokens of every run, ``[R]``."""
    return groups.rollout.mask.flatten(1).sum(-1)
