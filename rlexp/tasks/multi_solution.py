"""Prompts with several right answers: name any arithmetic progression that is among some numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from operator import attrgetter
from typing import Annotated, Literal, NamedTuple

import torch
from annotated_types import Ge, Le
from torch import Tensor

from rlexp.core import types as t
from rlexp.tasks.scoring import check_weights
from rlexp.tasks.task import BaseTask, Scores

COMPONENTS = ("valid", "first")
LENGTH = 3  # of a progression
EVERY = 4  # one prompt of so many is held out


class Sets(NamedTuple):
    """Sets of numbers ``[N, items]`` in ascending order, for training and held out, and each one's first answer."""

    training: Tensor
    held_out: Tensor


@dataclass(frozen=True, kw_only=True)
class MultiSolution(BaseTask):
    """Prompt: ``items`` different numbers below ``numbers``, ascending. Completion: three of them, evenly spaced.

    Upwards or downwards, so that each progression is two answers; a prompt has at least ``solutions`` progressions. Of
    all such sets every fourth, in the order of their numbers, is only evaluated. There is no end token.

    Components: ``valid`` 1 for a right answer, else 0; ``first`` among right answers 1 for the smallest one, else 0,
    NaN for wrong ones: its mean says how much of what is right is one answer. The oracle always gives the smallest, so
    that ``start=sft`` is a start that prefers it; coverage is then seen in pass@k.
    """

    numbers: Annotated[int, Ge(LENGTH), Le(16)]
    items: Annotated[int, Ge(LENGTH), Le(t.LARGEST_SIZE)]
    solutions: t.Size
    weights: dict[str, t.FiniteNonNegative]
    cap: Literal[3]
    metric: str
    floor: float

    vocabulary, prompt_length = property(attrgetter("numbers")), property(attrgetter("items"))

    def __post_init__(self):
        check_weights(self.weights, COMPONENTS)
        if self.weights["first"]:
            raise ValueError(
                "weights.first must be 0: it does not apply to wrong answers, which would earn nothing less"
            )
        if self.items > self.numbers:
            raise ValueError(f"items={self.items} must not exceed numbers={self.numbers}")
        if not all(len(each) for each in self.sets):
            found = sum(len(each) for each in self.sets)
            raise ValueError(f"solutions={self.solutions} leaves {found} prompts; at least {EVERY} are needed")

    @property
    def sets(self) -> Sets:
        """All prompts."""
        return sets_of(self.numbers, self.items, self.solutions)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward that a completion can have."""
        return 0.0, self.weights["valid"]

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Numbers in [0, 1) to prompts: ``[R, P, 1] -> [R, P, items]``."""
        prompts = (self.sets.held_out if held_out else self.sets.training).to(uniforms.device)
        return prompts[(uniforms[..., 0] * len(prompts)).long().clamp(max=len(prompts) - 1)]

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer with the smallest progression, ascending: ``[R, P, items]`` to tokens and mask ``[R, P, 3]``."""
        triples = torch.tensor(list(combinations(range(self.items), LENGTH)), device=prompts.device)
        found = prompts[..., triples]
        first = is_even(found).to(torch.int8).argmax(-1)
        answers = found.gather(-2, first[..., None, None].expand(*first.shape, 1, LENGTH)).squeeze(-2)
        return answers, torch.ones_like(answers, dtype=torch.bool)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, 3]``."""
        among = (completions.unsqueeze(-1) == prompts[:, :, None, None]).any(-1).all(-1)
        valid = among & is_even(completions)
        first = (completions == self.oracle(prompts)[0].unsqueeze(2)).all(-1)
        return Scores({"valid": valid.float(), "first": first.float().where(valid, float("nan"))}, valid)


def is_even(triples: Tensor) -> Tensor:
    """Whether three numbers are evenly spaced and not equal, ``[..., 3] -> [...]``."""
    step = triples[..., 1] - triples[..., 0]
    return (triples[..., 2] - triples[..., 1] == step) & (step != 0)


@cache
def sets_of(numbers: int, items: int, solutions: int) -> Sets:
    """All sets with enough progressions, apart."""

    def progressions(chosen: tuple[int, ...]) -> int:
        return sum(b - a == c - b for a, b, c in combinations(chosen, LENGTH))

    every = [chosen for chosen in combinations(range(numbers), items) if progressions(chosen) >= solutions]
    parts = [c for i, c in enumerate(every) if i % EVERY], every[::EVERY]
    return Sets(*(torch.tensor(part, dtype=torch.long).view(-1, items) for part in parts))
