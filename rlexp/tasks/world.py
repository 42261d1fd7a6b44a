"""Worlds: tasks so small that a table can be the policy and every completion can be listed.

``model=tabular`` takes its rows, its states and where it starts from here; evaluation lists the completions and says
what the policy is worth without sampling (``loop/evaluation.py``).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from rlexp.core.types import (
    AllCompletions,
    LearnedLogits,
    NextTokens,
    PromptDraws,
    Prompts,
    States,
    TableLogits,
)

BARRED = -1e9  # logit of a token that may not be written: its probability is exactly 0, and nothing of it is NaN


@runtime_checkable
class World(Protocol):
    """What a task says beside ``Task`` to be a world.

    Each of its ``questions`` is a prompt of one token: ``first_question`` and those after it, which no completion has.
    A completion goes through ``states``, of which 0 is the first.
    """

    questions: int
    first_question: int
    states: int

    def next_states(self, states: States, tokens: NextTokens) -> States:
        """Return where one more token leads; whatever the token, it is one of ``states``."""

    def start_logits(self) -> TableLogits:
        """Return the logits before training, ``[questions, states, vocabulary]``; ``BARRED`` for what is no answer."""

    def learned(self) -> LearnedLogits:
        """Return which of them are learned, ``[states, vocabulary]``; the others stay as they are."""

    def every_completion(self, device: torch.device) -> AllCompletions:
        """Return all completions that are not barred, ``[N, T]``, padded behind their end."""


def asked(uniforms: PromptDraws, held_out: bool, questions: int) -> Tensor:
    """Numbers of questions: drawn for training, in turn for evaluation; ``[R, P, 1] -> [R, P, 1]``.

    A table learns nothing of one question from another, so both have the same ones.
    """
    if not held_out:
        return (uniforms * questions).long()
    replicas, count, _ = uniforms.shape
    turn = torch.arange(count, device=uniforms.device) % questions
    return turn.view(1, -1, 1).expand(replicas, -1, -1)


def barred_beyond(table: TableLogits, tokens: int) -> TableLogits:
    """Bar the tokens from ``tokens`` on, those of the questions."""
    return torch.where(torch.arange(table.shape[-1]) < tokens, table, BARRED)


def question_numbers(prompts: Prompts, first: int, questions: int) -> Tensor:
    """Return which question each prompt is, ``[R, P, L] -> [R, P, 1]``."""
    return (prompts[..., -1:] - first).clamp(0, questions - 1)
