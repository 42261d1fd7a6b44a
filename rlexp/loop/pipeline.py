"""Sampling that never waits for training: groups are in flight while the weights change under them.

A run has places for S groups. Between two steps every completion in flight grows by some tokens, drawn by the policy
as it is by then. A step trains on the P groups that are complete and were begun first; new ones take their places. So
a completion can have tokens of several policies, ``old_log_probs`` of a token are those of the policy that drew it, and
short completions come sooner.

What there is of a completion is decoded again whenever it goes on, by the newest weights: no cache of keys and values
outlives an update, as in AReaL; PipelineRL keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Annotated, NamedTuple

import torch
from annotated_types import Ge
from torch import Tensor

from rlexp.core.blocks import gather_rows, map_tensors
from rlexp.core.streams import Purpose
from rlexp.core.types import (
    CompletionMask,
    Completions,
    Counts,
    PerToken,
    PromptMask,
    PromptNumbers,
    Prompts,
    Size,
    TokenMask,
)
from rlexp.loop.rewards import score
from rlexp.loop.rollout import Rollout, sample
from rlexp.loop.sampling import Groups, draw_prompts, sample_completions
from rlexp.loop.state import Source, TrainState, subset
from rlexp.tasks import Task


class InFlight(NamedTuple):
    """Groups that are being sampled, in S places.

    ``number`` is the order in which they were begun, its complement −1 − number where a place is free; ``length`` is
    how many tokens their completions have, an end token and what stands behind it included; ``steps`` is when each
    token was drawn.
    """

    number: PromptNumbers
    length: PromptNumbers
    prompts: Prompts
    completions: Completions
    old_log_probs: PerToken
    sampler_log_probs: PerToken
    steps: Completions

    def places(self, begin: Tensor, end: Tensor) -> TokenMask:
        """Return which tokens are from ``begin`` on and before ``end``, ``[R S] -> [R S 1 T]``."""
        place = torch.arange(self.completions.shape[-1], device=self.length.device)
        return (place >= begin[..., None, None]) & (place < end[..., None, None])

    def written(self, task: Task) -> tuple[TokenMask, CompletionMask, PromptMask]:
        """Return the tokens up to the end, which completions have ended, and which groups are complete."""
        there = self.places(torch.zeros_like(self.length), self.length)
        ends = ((self.completions == task.end) & there).long()
        ended = ends.any(-1)
        return (ends.cumsum(-1) == ends) & there, ended, ended.all(-1) | (self.length >= task.cap)


class Continued:
    """A task whose completions have begun: its environment writes what is there, and an end behind ``until``."""

    def __init__(self, task: Task, flight: InFlight, until: Tensor):
        self.task, self.completions = task, flight.completions
        self.begun = flight.places(torch.zeros_like(until), flight.length)
        self.over = flight.places(until, torch.full_like(until, task.cap))

    def __getattr__(self, name: str) -> object:
        return getattr(self.task, name)

    def environment(self, prompts: Prompts, completions: Completions) -> Completions:
        time = completions.shape[-1]
        own = getattr(self.task, "environment", lambda *_: torch.full_like(completions, -1))(prompts, completions)
        own = own.masked_fill(self.over[..., :time], self.task.end)
        return self.completions[..., :time].where(self.begun[..., :time], own)


@dataclass(frozen=True, kw_only=True)
class Pipeline(Source):
    """Groups in flight while the weights change; ``rollouts`` · P of them.

    Between two steps completions grow by ``tokens``, or more often where fewer than P groups are complete: then
    training waits. When a group is used its first tokens are ``rollouts`` − 1 steps old, on average (Little's law).
    Groups that were begun more than ``max_age`` steps ago are dropped, in flight or complete, and others are begun in
    their places; null drops none. With one rollout and ``tokens`` as many as ``task.cap`` it is ``data=fresh`` to the
    bit. Source: PipelineRL (arXiv 2509.19128, in-flight weight updates); AReaL (arXiv 2505.24298, interruptible
    rollout); prime-rl ``max_off_policy_steps`` cancels by age.
    """

    rollouts: Size
    tokens: Size
    max_age: Annotated[int, Ge(0)] | None

    def empty(self, state: TrainState) -> InFlight:
        runs, task, device = len(state.seeds), state.task, state.temperature.device
        held = runs, self.rollouts * state.prompts
        tokens = *held, state.group, task.cap
        return InFlight(
            number=torch.full(held, -1, device=device),
            length=torch.zeros(held, dtype=torch.long, device=device),
            prompts=torch.zeros(*held, task.prompt_length, dtype=torch.long, device=device),
            completions=torch.zeros(tokens, dtype=torch.long, device=device),
            old_log_probs=torch.zeros(tokens, device=device),
            sampler_log_probs=torch.zeros(tokens, device=device),
            steps=torch.zeros(tokens, dtype=torch.long, device=device),
        )

    def gather(self, state: TrainState, step: int) -> Groups:
        """Let groups grow until each run has P complete ones, and return those that were begun first."""
        flight, dropped = self.drop(state.buffer, step)
        flight, begun, tokens = self.grow(state, flight, step, 0)
        rounds = torch.ones_like(begun)
        for number in count(1):  # of the round, which all runs that are short have in common
            short = (flight.written(state.task)[2].sum(-1) < state.prompts).nonzero().squeeze(-1)
            if not len(short):
                break
            mine = map_tensors(lambda each: each[short], flight)  # noqa: B023
            mine, _, drawn = self.grow(subset(state, short), mine, step, number)
            flight = map_tensors(lambda all, part: all.index_copy(0, short, part), flight, mine)  # noqa: B023
            rounds[short] += 1
            tokens[short] += drawn
        mask, ended, complete = flight.written(state.task)
        places = flight.number.masked_fill(~complete, torch.iinfo(torch.long).max).argsort(-1)[:, : state.prompts]
        taken = map_tensors(lambda each: gather_rows(each, places), flight)
        mask, ended = gather_rows(mask, places), gather_rows(ended, places)
        rollout = Rollout(
            prompts=taken.prompts,
            completions=taken.completions.where(mask, max(state.task.pad, 0)),
            old_log_probs=taken.old_log_probs.where(mask, 0.0),
            mask=mask,
            finished=ended if state.task.end >= 0 else torch.ones_like(ended),
            sampler_log_probs=taken.sampler_log_probs.where(mask, 0.0),
        )
        ages = (step - taken.steps).where(mask, 0).to(rollout.old_log_probs)
        left = flight._replace(number=flight.number.scatter(-1, places, ~taken.number))
        rewards, used = score(state, rollout, step), torch.full_like(begun, state.prompts)
        more = {"stored": left, "ages": ages, "dropped": dropped if self.max_age is not None else None}
        return Groups(rollout, rounds, tokens, used, used, state.policy, rewards, begun, begun * state.group, **more)

    def drop(self, flight: InFlight, step: int) -> tuple[InFlight, Counts]:
        """Free the places of groups that are too old; return how many they were."""
        number = flight.number
        if self.max_age is None:
            return flight, torch.zeros_like(number[:, 0])
        old = (number >= 0) & (flight.steps[..., 0, 0] < step - self.max_age)
        return flight._replace(number=number.where(~old, ~number)), old.sum(-1)

    def grow(self, state: TrainState, flight: InFlight, step: int, round: int) -> tuple[InFlight, Counts, Counts]:
        """Begin groups in all free places and let all grow; return also how many were begun and the tokens drawn.

        A free place keeps the number of its last group, so that numbers go on from the largest ever given.
        """
        wide = replace(state, prompts=flight.number.shape[1], sample=sample)
        free, last = flight.number < 0, torch.maximum(flight.number, ~flight.number).amax(-1, keepdim=True)
        flight = flight._replace(
            number=flight.number.where(~free, last + free.long().cumsum(-1)),
            length=flight.length.masked_fill(free, 0),
            prompts=draw_prompts(wide, step, round).where(free.unsqueeze(-1), flight.prompts),
        )
        until = (flight.length + self.tokens).clamp(max=state.task.cap)
        noise = state.uniforms(Purpose.SAMPLING, step, wide.prompts, state.group, state.task.cap, round=round)
        wide = replace(wide, task=Continued(state.task, flight, until))
        drawn = sample_completions(wide, state.policy, flight.prompts, noise, step, round)
        new = flight.places(flight.length, until) & ~flight.written(state.task)[1].unsqueeze(-1)
        flight = flight._replace(
            length=until,
            completions=drawn.completions.where(new, flight.completions),
            old_log_probs=drawn.old_log_probs.where(new, flight.old_log_probs),
            sampler_log_probs=drawn.sampler_log_probs.where(new, flight.sampler_log_probs),
            steps=flight.steps.masked_fill(new, step),
        )
        mask = flight.written(state.task)[0]
        return flight, free.sum(-1), (mask & new).flatten(1).sum(-1)
