"""One question, one token, a number for each answer: gradients and KLs can be written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import FiniteFloat

from rlexp.core import types as t
from rlexp.tasks.scoring import check_weights
from rlexp.tasks.tabular import TabularTask
from rlexp.tasks.task import Scores

MOST = 16


@dataclass(frozen=True, kw_only=True)
class Categorical(TabularTask):
    """Answers are tokens, and ``rewards`` has the reward of each; correct is one of the largest.

    The bed on which formulas are tried: with ``model=tabular`` the policy is a softmax of as many logits, and what an
    update does on average is a sum over answers (``tests/tasks/test_categorical.py``). Component ``worth``: the reward.
    Nothing is held out.
    """

    rewards: list[FiniteFloat]
    weights: dict[str, t.FiniteNonNegative]
    cap: Literal[1]
    metric: str
    floor: float

    questions = 1

    def __post_init__(self):
        if not 2 <= len(self.rewards) <= MOST:
            raise ValueError(f"rewards must be 2 to {MOST} numbers, one for each answer, and are {len(self.rewards)}")
        check_weights(self.weights, ("worth",))

    @property
    def first_question(self) -> int:
        """Token of the question; those below it are the answers."""
        return len(self.rewards)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward of an answer."""
        return self.weights["worth"] * min(self.rewards), self.weights["worth"] * max(self.rewards)

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Give the first of the best answers: ``[R, P, 1]`` each."""
        answers = torch.full_like(prompts, self.rewards.index(max(self.rewards)))
        return answers, torch.ones_like(answers, dtype=torch.bool)

    def render(self, tokens: Sequence[int]) -> str:
        """`[3]` → `"?"` with three answers, `[1]` → `"answer 1"`."""
        return " ".join("?" if token == self.first_question else f"answer {token}" for token in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Look answers ``[R, P, G, 1]`` up; the question is no answer and gets the least."""
        rewards = torch.tensor([*self.rewards, min(self.rewards)], device=completions.device)
        worth, answer = rewards[completions.squeeze(-1)], completions.squeeze(-1)
        return Scores({"worth": worth}, (worth == rewards.max()) & (answer < self.first_question))
