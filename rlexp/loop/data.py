"""Where the completions of a step come from: the policy as it is, as it was some steps ago, or as it started.

Runs whose data are not fresh have a buffer, ``TrainState.buffer``: that of a pipeline is in ``loop.pipeline``, that of
groups whose rewards vary in ``loop.replay_variance``; those of the others have K rollouts, ``[R K P ...]``. Rollouts
have numbers: n has the prompts and the noise of step n. Before the first step the policy of the start samples those up
to K (``prefill_buffer``); step s then samples number s + K, if it samples at all, with the policy as it is before its
updates. Number n lies in slot (n − 1) mod K, in the place of n − K. So step s of stale runs has the prompts that it has
in fresh ones.

A rollout is kept as it was sampled: ``old_log_probs`` are those of the policy that sampled it, however long ago that
was, so that the ratios of a policy loss are to that policy. Rewards, advantages and the log-probabilities of the
reference are made anew whenever it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from rlexp.core.blocks import gather_rows
from rlexp.core.streams import Purpose
from rlexp.core.types import NonNegativeInt, Size
from rlexp.loop.pipeline import Pipeline
from rlexp.loop.replay_variance import ReplayVariance
from rlexp.loop.rewards import score
from rlexp.loop.rollout import Rollout, empty_rollout, loss_mask, right_answers
from rlexp.loop.sampling import Groups, sample_groups
from rlexp.loop.state import Source, TrainState

Row = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Fresh(Source):
    """Completions of the policy as it is: on-policy. Source: what all frameworks do unless they are told otherwise."""


class Rollouts(Source):
    """Data with a buffer of whole rollouts."""

    def empty(self, state: TrainState) -> Rollout | None:
        if not self.slots:
            return None
        held = len(state.seeds), self.slots, self.sampled(state.prompts)
        return empty_rollout(state.task, held, state.group, state.temperature.device)

    def slot(self, state: TrainState, number: int) -> Rollout:
        """Return a copy of what the buffer has in the slot of a rollout."""
        place = (number - 1) % self.slots
        return Rollout(*(each[:, place].clone(memory_format=torch.contiguous_format) for each in state.buffer))

    def store(self, state: TrainState, number: int, rollout: Rollout) -> None:
        """Put a rollout into its slot of the buffer."""
        for held, new in zip(state.buffer, rollout, strict=True):
            held[:, (number - 1) % self.slots] = new


@dataclass(frozen=True, kw_only=True)
class Stale(Rollouts):
    """Completions of the policy ``age`` steps ago; in the first ``age`` steps those of the policy of the start.

    The age in updates is ``age`` · inner_steps · minibatches, and 0 is ``data=fresh`` to the bit. What is sampled in
    the last ``age`` steps is not used. Source: the lag of asynchronous training (Noukhovitch et al., arXiv 2410.18252;
    AReaL, arXiv 2505.24298, with a bound; M2PO, arXiv 2510.01161, with 256 updates).
    """

    age: Annotated[int, Ge(0), Le(256)]
    oracle: ClassVar[int] = 0
    slots = property(attrgetter("age"))

    def gather(self, state: TrainState, step: int) -> Groups:
        """Return the rollout of ``age`` steps ago, and the one that takes its slot."""
        groups = sample_groups(state, step + self.age)
        rollout, age = self.slot(state, step), min(step - 1, self.age)
        ages = torch.full_like(rollout.old_log_probs, age)
        return from_buffer(state, step, rollout, groups._replace(stored=groups.rollout, ages=ages))


@dataclass(frozen=True, kw_only=True)
class Replay(Rollouts):
    """A share of the step's groups is sampled anew, the others are drawn from those of the last ``capacity`` steps.

    The share is ``fresh`` of the prompts of a step, rounded; the others are drawn without replacement from what the
    buffer holds, before the step's own groups take the place of the oldest; in the beginning it holds completions of
    the policy of the start. Fresh and old groups are shuffled, so that every minibatch has some of both. Source:
    experience replay (Lin, 1992); for language models ReMix (arXiv 2507.06892).
    """

    capacity: Size
    fresh: Annotated[float, Gt(0), Lt(1)]
    oracle: ClassVar[int] = 0
    slots = property(attrgetter("capacity"))

    def sampled(self, prompts: int) -> int:
        return round(self.fresh * prompts)

    def gather(self, state: TrainState, step: int) -> Groups:
        """Return new and old groups, and the new ones for the buffer."""
        groups = sample_groups(replace(state, prompts=self.sampled(state.prompts)), step + self.capacity)
        new = groups.rollout.mask.shape[1]
        chance = state.uniforms(Purpose.REPLAY, step, self.capacity * new)
        drawn = chance.argsort(dim=-1, stable=True)[:, : state.prompts - new]
        order = state.uniforms(Purpose.REPLAY, step, state.prompts, round=1).argsort(dim=-1, stable=True)
        old = (gather_rows(each.flatten(1, 2), drawn) for each in state.buffer)
        both = (torch.cat(pair, 1) for pair in zip(groups.rollout, old, strict=True))
        rollout = Rollout(*(gather_rows(each, order) for each in both))
        numbers = step + (torch.div(drawn, new, rounding_mode="floor") - (step - 1)) % self.capacity
        ages = (step - (numbers - self.capacity).clamp(min=1)).to(state.temperature)
        ages = gather_rows(torch.cat([ages.new_zeros(len(ages), new), ages], 1), order)[..., None, None]
        groups = groups._replace(stored=groups.rollout, ages=ages.expand(rollout.mask.shape).contiguous())
        return from_buffer(state, step, rollout, groups)


@dataclass(frozen=True, kw_only=True)
class Offline(Rollouts):
    """Completions that the policy of the start sampled, ``batches`` steps' worth of them, used again and again.

    The first ``oracle`` completions of every group are the task's right answer instead, with the log-probabilities
    that the policy of the start gives it. ``filter.refill`` acts once, on what is sampled: with ``zero_variance`` all
    groups have a pair to rank. Nothing is sampled during training. Source: DPO's data (arXiv 2305.18290, §4), sampled
    from the reference and ranked.
    """

    batches: Size
    oracle: NonNegativeInt
    slots = property(attrgetter("batches"))

    def gather(self, state: TrainState, step: int) -> Groups:
        """Return the step's rollout of the buffer; nothing is sampled."""
        none = torch.zeros(len(state.seeds), dtype=torch.long, device=state.temperature.device)
        rollout = self.slot(state, step)
        ages = torch.full_like(rollout.old_log_probs, step - 1)
        return Groups(rollout, *[none] * 4, state.policy, score(state, rollout, step), none, none, ages=ages)


def from_buffer(state: TrainState, step: int, rollout: Rollout, groups: Groups) -> Groups:
    """Return the groups with another rollout to train on, which is judged where it is used."""
    return groups._replace(rollout=rollout, rewards=score(state, rollout, step), policy=state.policy)


DATA = {"fresh": Fresh, "stale": Stale, "pipeline": Pipeline, "replay": Replay, "offline": Offline}
DATA |= {"replay_variance": ReplayVariance}


def gather_groups(state: TrainState, step: int) -> Groups:
    """Return the groups that a step trains on; with a buffer also what is to be put into it, which this does not."""
    return sample_groups(state, step) if state.buffer is None else state.data.gather(state, step)


@torch.no_grad()
def prefill_buffer(state: TrainState) -> Row:
    """Fill the buffer, if there is one, by the policy of a fresh state; return what each run has sampled for it."""
    row = {name: torch.zeros(len(state.seeds), dtype=torch.long) for name in ("tokens", "completions")}
    for number in range(1, state.data.slots + 1):
        groups = sample_groups(replace(state, prompts=state.data.sampled(state.prompts)), number)
        state.data.store(state, number, with_right_answers(state, groups.rollout, state.data.oracle))
        row["tokens"] += groups.tokens.cpu()
        row["completions"] += groups.completions.cpu()
    return row


def with_right_answers(state: TrainState, rollout: Rollout, number: int) -> Rollout:
    """Put the task's right answer in the place of the first ``number`` completions of every group."""
    if not number:
        return rollout
    answers, mask = right_answers(state.task, rollout.prompts)
    right = torch.arange(state.group, device=answers.device) < number
    log_probs = state.policy.log_probs(rollout.prompts, answers, state.temperature).log_probs
    log_probs = log_probs.where(loss_mask(state.task, rollout.prompts, answers, mask), 0.0)
    tokens = right.unsqueeze(-1)
    return Rollout(
        prompts=rollout.prompts,
        completions=answers.where(tokens, rollout.completions),
        old_log_probs=log_probs.where(tokens, rollout.old_log_probs),
        mask=mask.where(tokens, rollout.mask),
        finished=rollout.finished | right,
        sampler_log_probs=log_probs.where(tokens, rollout.sampler_log_probs),
    )
