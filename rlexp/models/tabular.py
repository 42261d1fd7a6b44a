"""A table of logits: one row for each question and state of a task, nothing shared between them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlexp.core.types import Completions, FiniteNonNegative, NextToken, NextTokens, PerVocabulary, Prompts, States
from rlexp.models.layers import Embedding, Init
from rlexp.models.policy import Policy
from rlexp.tasks.tabular import TabularTask, question_numbers


class Tabular(Policy):
    """Logits ``[R, questions · states, vocabulary]``; the softmax policy of Sutton and Barto (2018), section 13.2.

    It starts at the task's own logits plus noise from N(0, std²). What the task does not let it learn has no noise
    and no gradient and stays as it is, unless the optimizer decays weights.
    """

    reads_completions = False

    def __init__(self, init: Init, task: TabularTask, *, std: FiniteNonNegative):
        super().__init__()
        self.task = task
        self.register_buffer("learned", task.learned(), persistent=False)
        start = task.start_logits()
        self.table = Embedding(init, task.questions * task.states, start.shape[-1], std)
        noise = self.table.weight.data.view(-1, *start.shape)
        self.table.weight.data.copy_((start + noise.where(self.learned, 0.0)).flatten(1, 2))

    def rows(self, prompts: Prompts, group: int) -> Tensor:
        """Return the first row of each completion's question, ``[R, P, L] -> [R, P, G]``."""
        numbers = question_numbers(prompts, self.task.first_question, self.task.questions)
        return (numbers * self.task.states).expand(-1, -1, group)

    def look_up(self, rows: Tensor, states: Tensor) -> Tensor:
        """Return the logits of states, those that are not learned without a gradient: ``[R, ...] -> [R, ..., V]``."""
        logits = self.table(rows + states)
        return logits.where(self.learned[states], logits.detach())

    def head_parameters(self) -> list[nn.Parameter]:
        return [self.table.weight]

    def prefill(self, prompts: Prompts, group: int) -> tuple[NextToken, tuple[Tensor, States]]:
        rows = self.rows(prompts, group)
        states = torch.zeros_like(rows)
        return self.look_up(rows, states), (rows, states)

    def decode(self, tokens: NextTokens, state: tuple[Tensor, States]) -> tuple[NextToken, tuple[Tensor, States]]:
        rows, states = state
        states = self.task.next_states(states, tokens)
        return self.look_up(rows, states), (rows, states)

    def logits(self, prompts: Prompts, completions: Completions) -> PerVocabulary:
        rows = self.rows(prompts, completions.shape[2])
        states = [torch.zeros_like(rows)]
        for tokens in completions[..., :-1].unbind(-1):
            states.append(self.task.next_states(states[-1], tokens))
        return self.look_up(rows.unsqueeze(-1), torch.stack(states, -1))
