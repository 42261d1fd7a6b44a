"""A bandit whose arms are whole answers: each question has many right ones, one, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import torch
from torch import Tensor

from rlexp.core import types as t
from rlexp.tasks.scoring import check_weights
from rlexp.tasks.tabular import TabularTask, question_numbers
from rlexp.tasks.task import Scores

DIFFICULTIES = ("easy", "hard", "impossible")
LARGEST_TABLE = 2**24  # numbers
APART = 5  # where the right actions of a question begin, next to those of the question before it


@dataclass(frozen=True, kw_only=True)
class Bandit(TabularTask):
    """Questions of one token, answers of one of ``actions`` tokens, each of which stands for a whole completion.

    The first ``easy`` questions have ``easy_right`` right actions, the ``hard`` ones after them ``hard_right``, the
    ``impossible`` ones none. Those of question q are the actions from 5q on, modulo ``actions``. Components ``easy``,
    ``hard``, ``impossible``: 1 for a right action of such a question, else 0, NaN on the others. Whatever noise a table
    starts with, a question begins with right actions / ``actions`` on average over seeds, 1/64 for a hard one.
    Nothing is held out: a table learns nothing of one question from another.
    """

    actions: t.Size
    easy: t.Count
    hard: t.Count
    impossible: t.Count
    easy_right: t.Size
    hard_right: t.Size
    weights: dict[str, t.FiniteNonNegative]
    cap: Literal[1]
    metric: str
    floor: float

    first_question = property(attrgetter("actions"))

    def __post_init__(self):
        if not self.questions:
            raise ValueError("easy=0 hard=0 impossible=0 leave no question")
        for name in ("easy_right", "hard_right"):
            if getattr(self, name) > self.actions:
                raise ValueError(f"{name}={getattr(self, name)} must not exceed actions={self.actions}")
        if self.questions * self.vocabulary > LARGEST_TABLE:
            size = f"{self.questions} questions of {self.actions} actions"
            raise ValueError(f"actions={self.actions} makes {size}; at most {LARGEST_TABLE} numbers in a table")
        check_weights(self.weights, DIFFICULTIES)

    @property
    def questions(self) -> int:
        """Number of questions."""
        return self.easy + self.hard + self.impossible

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward that an action can have: a question has one component."""
        return 0.0, max(self.weights.values())

    def right(self, prompts: t.Prompts) -> tuple[Tensor, Tensor]:
        """Return the first right action of each question and how many there are, ``[R, P, 1]`` each."""
        question = question_numbers(prompts, self.first_question, self.questions)
        counts = [self.easy_right] * self.easy + [self.hard_right] * self.hard + [0] * self.impossible
        return APART * question % self.actions, torch.tensor(counts, device=prompts.device)[question]

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Return the first right action, and an empty mask where there is none: ``[R, P, 1]`` each."""
        first, count = self.right(prompts)
        return first, count > 0

    def render(self, tokens: Sequence[int]) -> str:
        """`[66]` → `"question 2"` with 64 actions, `[3]` → `"action 3"`."""
        first = self.first_question
        return " ".join(f"action {token}" if token < first else f"question {token - first}" for token in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge actions ``[R, P, G, 1]``."""
        action, (first, count) = completions.squeeze(-1), self.right(prompts)
        correct = ((action - first) % self.actions < count) & (action < self.actions)
        question = question_numbers(prompts, self.first_question, self.questions)
        kind = (question >= self.easy).long() + (question >= self.easy + self.hard)
        reward = correct.float()
        parts = {name: reward.where(kind == k, float("nan")) for k, name in enumerate(DIFFICULTIES)}
        return Scores(parts, correct)
