"""Whether an answer is right is decided by its first token, whose odds are fixed: nothing but length is learned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le, Lt

from rlexp.core import types as t
from rlexp.tasks.scoring import check_weights
from rlexp.tasks.tabular import MASKED_LOGIT, TabularTask
from rlexp.tasks.task import Scores

COMPONENTS = ("right", "exact")
RIGHT, WRONG, FILLER, END, PAD, FIRST_QUESTION = range(6)
WORDS = ("right", "wrong", "·", "end", "pad")
START, AFTER_RIGHT, AFTER_WRONG = range(3)
Probability = Annotated[float, Gt(0), Lt(1)]


@dataclass(frozen=True, kw_only=True)
class LengthWorld(TabularTask):
    """Completion: ``right`` or ``wrong``, any number of fillers, the end token; at most ``cap`` tokens.

    With ``model=tabular`` each question says ``right`` with its own probability of ``right``, which is fixed unless
    ``learn_answer``. Then every token ends the answer with a probability that begins at ``hazard``, for wrong answers
    at ``hazard_wrong``, and is learned, one for right and one for wrong answers of each question; without a cap the
    mean length is 1 + 1/hazard. With ``model.std=0`` all begin there exactly. Others learn the first token too.

    Components: ``right`` 1 for an answer that begins with the right token, whether it ends or not: no reward depends on
    length. ``exact`` wants the end too: to be cut off costs what the answer was worth. Correct is what begins right.
    Nothing is held out. Source: the mechanism of Dr. GRPO (arXiv 2503.20783, section 3): losses averaged over a
    completion's own length push long wrong answers less, and short right ones more.
    """

    cap: Annotated[int, Ge(2), Le(t.LARGEST_SIZE)]
    right: list[Probability]
    hazard: Probability
    hazard_wrong: Probability | None  # None: as hazard
    learn_answer: bool
    weights: dict[str, t.FiniteNonNegative]
    metric: str
    floor: float

    pad, end, first_question = PAD, END, FIRST_QUESTION
    states = 3

    def __post_init__(self):
        if not self.right:
            raise ValueError("right=[] leaves no question: a probability for each")
        check_weights(self.weights, COMPONENTS)

    @property
    def questions(self) -> int:
        """Number of questions: one for each probability."""
        return len(self.right)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward that a completion can have."""
        return 0.0, sum(self.weights.values())

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer right and end at once: ``[R, P, 1]`` to tokens and mask ``[R, P, T]``."""
        answers = torch.full((*prompts.shape[:2], self.cap), PAD, device=prompts.device)
        answers[..., 0], answers[..., 1] = RIGHT, END
        return answers, answers != PAD

    def render(self, tokens: Sequence[int]) -> str:
        """`[5]` → `"question 0"`, `[0, 2, 2, 3]` → `"right · · end"`."""
        return " ".join(WORDS[i] if i < FIRST_QUESTION else f"question {i - FIRST_QUESTION}" for i in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]`` by their first token; those after it do not matter."""
        right = completions[..., 0] == RIGHT
        return Scores({"right": right.float(), "exact": (right & finished).float()}, right)

    def next_states(self, states: t.States, tokens: t.NextTokens) -> t.States:
        """From the first state into that of right or wrong answers, where every completion stays."""
        first = torch.where(tokens == RIGHT, AFTER_RIGHT, AFTER_WRONG)
        return torch.where(states == START, first, states)

    def start_logits(self) -> t.TableLogits:
        """Log-odds of the first token and of ending; everything else is masked."""
        table = torch.full((self.questions, self.states, self.vocabulary), MASKED_LOGIT)
        for question, probability in enumerate(self.right):
            table[question, START, RIGHT] = math.log(probability)
            table[question, START, WRONG] = math.log1p(-probability)
        table[:, START + 1 :, FILLER] = 0.0
        of_wrong = self.hazard if self.hazard_wrong is None else self.hazard_wrong
        for state, hazard in ((AFTER_RIGHT, self.hazard), (AFTER_WRONG, of_wrong)):
            table[:, state, END] = math.log(hazard) - math.log1p(-hazard)
        return table

    def learned(self) -> t.LearnedLogits:
        """The logit of ending, and with ``learn_answer`` that of the right first token."""
        learned = torch.zeros(self.states, self.vocabulary, dtype=torch.bool)
        learned[START, RIGHT] = self.learn_answer
        learned[START + 1 :, END] = True
        return learned

    def every_completion(self, device: torch.device) -> t.AllCompletions:
        """Right and wrong answers of 2 to ``cap`` tokens, and those that were cut off: ``[2 · cap, cap]``."""
        place = torch.arange(self.cap, device=device)
        ends = torch.arange(1, self.cap + 1, device=device).unsqueeze(-1)
        rest = torch.where(place < ends, FILLER, PAD).where(place != ends, END)
        return torch.cat([rest.where(place > 0, first) for first in (RIGHT, WRONG)])
