"""The sorting task of CS336 lecture 17: three prompts of three symbols, answers of fixed length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from rlexp.core import types as t
from rlexp.tasks.scoring import check_weights, in_order, included, included_counted, right_places
from rlexp.tasks.task import BaseTask, Scores

PROMPTS = ((1, 0, 2), (3, 2, 4), (1, 2, 3))
POINTS = {"distance": 3, "inclusion_ordering": 5, "multiset_ordering": 5}


@dataclass(frozen=True, kw_only=True)
class SortLecture(BaseTask):
    """Prompts ``[1, 0, 2]``, ``[3, 2, 4]``, ``[1, 2, 3]``, five symbols, no end token; nothing is held out.

    Components, in points as in the lecture: ``distance`` positions that are right (0 to 3); ``inclusion_ordering``
    prompt items that occur plus neighbours in order (0 to 5), which pays an answer for repeating a duplicate and for
    repeating anything; ``multiset_ordering`` the same with multiset counting (0 to 5).
    """

    cap: Literal[3]
    weights: dict[str, t.FiniteNonNegative]
    metric: str
    floor: float

    vocabulary = 5
    prompt_length = 3

    def __post_init__(self):
        check_weights(self.weights, tuple(POINTS))

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward that an answer can have."""
        return 0.0, sum(weight * POINTS[name] for name, weight in self.weights.items())

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Return the three prompts over and over: ``[R, P, 1] -> [R, P, 3]``."""
        replicas, count, _ = uniforms.shape
        prompts = torch.tensor(PROMPTS, device=uniforms.device)
        return prompts[torch.arange(count, device=uniforms.device) % len(PROMPTS)].expand(replicas, -1, -1)

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer right: ``[R, P, 3]`` to tokens and mask ``[R, P, 3]``."""
        return prompts.sort(-1).values, torch.ones_like(prompts, dtype=torch.bool)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, 3]``."""
        items = prompts.unsqueeze(-2)
        targets = items.sort(-1).values
        ordering = in_order(completions)
        components = {
            "distance": right_places(completions, targets).float(),
            "inclusion_ordering": (included(items, completions) + ordering).float(),
            "multiset_ordering": (included_counted(items, completions, self.vocabulary) + ordering).float(),
        }
        return Scores(components, (completions == targets).all(-1))
