"""Tabular tasks: so small that a table can be the policy and every completion can be listed.

``model=tabular`` takes its rows, its states and where it starts from here; evaluation lists the completions and says
what the policy is worth without sampling (``loop/evaluation.py``).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from rlexp.core import types as t

MASKED_LOGIT = -1e9  # logit of a token that may not be written: its probability is exactly 0, and nothing of it is NaN


@runtime_checkable
class TabularTask(Protocol):
    """What a task says beside ``Task`` to be tabular; as a base class, a task whose answers are single tokens.

    Each of its ``questions`` is a prompt of one token: ``first_question`` and those after it, which no completion has.
    A completion goes through ``states``, of which 0 is the first. Nothing is held out: a table learns nothing of one
    question from another.
    """

    questions: int
    first_question: int
    states = 1

    pad = end = -1
    prompt_length = draws = 1

    @property
    def vocabulary(self) -> int:
        """Number of tokens: those of answers, then the questions."""
        return self.first_question + self.questions

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Draw questions for training, ask all in turn for evaluation: ``[R, P, 1] -> [R, P, 1]``."""
        if not held_out:
            return self.first_question + (uniforms * self.questions).long()
        replicas, count, _ = uniforms.shape
        turn = torch.arange(count, device=uniforms.device) % self.questions
        return self.first_question + turn.view(1, -1, 1).expand(replicas, -1, -1)

    def next_states(self, states: t.States, tokens: t.NextTokens) -> t.States:
        """Return where one more token leads; whatever the token, it is one of ``states``."""
        return states

    def start_logits(self) -> t.TableLogits:
        """Return the logits before training, ``[questions, states, vocabulary]``.

        What is no answer has ``MASKED_LOGIT``. All answers are alike; ``model.std`` tells them apart.
        """
        return mask_questions(torch.zeros(self.questions, self.states, self.vocabulary), self.first_question)

    def learned(self) -> t.LearnedLogits:
        """Return which of them are learned, ``[states, vocabulary]``; the others stay as they are."""
        return (torch.arange(self.vocabulary) < self.first_question).expand(self.states, -1)

    def every_completion(self, device: torch.device) -> t.AllCompletions:
        """Return all completions that are not masked, ``[N, T]``, padded behind their end."""
        return torch.arange(self.first_question, device=device).unsqueeze(-1)


def mask_questions(table: t.TableLogits, first: int) -> t.TableLogits:
    """Mask the tokens from ``first`` on."""
    return torch.where(torch.arange(table.shape[-1]) < first, table, MASKED_LOGIT)


def question_numbers(prompts: t.Prompts, first: int, questions: int) -> Tensor:
    """Return which question each prompt is, ``[R, P, L] -> [R, P, 1]``."""
    return (prompts[..., -1:] - first).clamp(0, questions - 1)
