"""Sorting prompts of several difficulties, in shares that are chosen, and some without a right answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from rlexp.core import types as t
from rlexp.tasks.scoring import check_weights
from rlexp.tasks.sort import COMPONENTS, Sort
from rlexp.tasks.task import Scores

BUCKETS = ("easy", "medium", "hard", "impossible")


@dataclass(frozen=True, kw_only=True)
class DifficultyMix:
    """``Sort``, with prompts of as many lengths as there are buckets: easy, medium, hard, impossible.

    ``items`` has the items of a prompt of each bucket, ``shares`` how often it comes, for training and for evaluation.
    Prompts of the impossible bucket look like the others, but their target is corrupted and no completion is right.
    Components ``easy``, ``medium``, ``hard``, ``impossible``: 1 for the sorted items and an end token, else 0, NaN on
    prompts of the other buckets. What is held out is what ``Sort`` holds out.
    """

    alphabet: Annotated[int, Ge(2), Le(t.LARGEST_SIZE)]
    items: dict[str, t.Size]
    shares: dict[str, t.FiniteNonNegative]
    cap: t.Size
    weights: dict[str, t.FiniteNonNegative]
    metric: str
    floor: float

    def __post_init__(self):
        check_weights(self.weights, BUCKETS)
        for name, numbers in (("items", self.items), ("shares", self.shares)):
            if set(numbers) != set(BUCKETS):
                raise ValueError(f"{name} must name {', '.join(BUCKETS)}")
        if len(set(self.items.values())) < len(BUCKETS):
            raise ValueError("items must differ between buckets: a prompt's bucket is told by its length")
        if not sum(self.shares.values()) > 0:
            raise ValueError("shares must not all be 0")
        _ = self.sort

    @cached_property
    def sort(self) -> Sort:
        """The task of sorting, whose tokens and verifier are those of all buckets."""
        lengths = dict(shortest=min(self.items.values()), longest=max(self.items.values()))
        weights = dict.fromkeys(COMPONENTS, 0.0) | {"exact": 1.0}
        sizes = dict(
            alphabet=self.alphabet, cap=self.cap, filler=0, prompt_set=None, metric=self.metric, floor=self.floor
        )
        return Sort(**sizes, **lengths, weights=weights)

    pad, end = property(attrgetter("sort.pad")), property(attrgetter("sort.end"))
    vocabulary, prompt_length = property(attrgetter("sort.vocabulary")), property(attrgetter("sort.prompt_length"))
    draws, render = property(attrgetter("sort.draws")), property(attrgetter("sort.render"))

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward that a completion can have: a prompt has one component."""
        return 0.0, max(self.weights.values())

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Numbers in [0, 1) to prompts: ``[R, P, draws] -> [R, P, L]``; the first number chooses the bucket."""
        shares = torch.tensor([self.shares[name] for name in BUCKETS], dtype=torch.float64, device=uniforms.device)
        bounds = (shares.cumsum(0) / shares.sum())[:-1].to(uniforms.dtype)
        bucket = (uniforms[..., :1] >= bounds).sum(-1, keepdim=True)
        length = torch.tensor([self.items[name] for name in BUCKETS], device=uniforms.device)[bucket]
        span = self.sort.longest - self.sort.shortest + 1
        middle = (length - self.sort.shortest + 0.5) / span
        return self.sort.prompts(torch.cat([middle, uniforms[..., 1:]], -1), held_out)

    def is_of(self, prompts: t.Prompts, bucket: str) -> Tensor:
        """Whether prompts are of a bucket, ``[R, P, 1]``."""
        return (prompts[..., :-1] != self.pad).sum(-1, keepdim=True) == self.items[bucket]

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer as ``Sort``, and with an empty mask where no answer is right."""
        answers, mask = self.sort.oracle(prompts)
        solvable = ~self.is_of(prompts, "impossible")
        return answers.where(solvable, self.pad), mask & solvable

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]``; a completion that was cut off is wrong."""
        correct = self.sort.score(prompts, completions, mask, finished).correct & ~self.is_of(prompts, "impossible")
        parts = {name: correct.float().where(self.is_of(prompts, name), float("nan")) for name in BUCKETS}
        return Scores(parts, correct)
