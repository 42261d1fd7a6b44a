"""This project's own tasks as tasks of text: in the words of their ``render``, read back word by word.

A run on text has the prompts of the same step of a run on tokens, and the judge is the task itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import dropwhile, pairwise
from operator import attrgetter

import torch
from torch import Tensor

from rlexp.core.streams import Purpose, uniforms
from rlexp.language.text_task import Example, Score, TextTask
from rlexp.tasks import Scores, TabularTask, Task
from rlexp.tasks.sort import NO_TOKEN

Pieces = tuple[str, ...]


def as_text(task: Task) -> TextTask:
    """Return a task of tokens as one of text; ValueError, in one line, where its tokens cannot be had as text."""
    text = TokensAsText(task)
    for shorter, longer in pairwise(sorted(text.words)):
        if longer[: len(shorter)] == shorter:
            raise ValueError(f"cannot be text: {' '.join(longer)!r} begins with {' '.join(shorter)!r}, another token")
    for word in map(" ".join, text.words):
        if not word.isprintable() or tuple(word.split()) not in text.words:
            raise ValueError(f"cannot be text: {word!r} is a token and no word")
    if text.score_tokens(task.prompts(torch.zeros(1, 1, task.draws), held_out=False), [None]).token_rewards is not None:
        raise ValueError("cannot be text: pays each token when it is written, and the tokens of text are others")
    return text


@dataclass(frozen=True)
class TokensAsText:
    """A task of tokens, its prompts and completions written in words with a space between.

    Words are those of single tokens; those of ``pad`` and ``end`` are none. A completion that ends of itself has the
    end token, if the task has one. After ``cap`` tokens the replicas' loop stops: what is longer is judged by its first
    ``cap`` tokens, as cut off. Nonsense is text that has other words, or fewer than ``cap`` where a task without end
    token asks for exactly so many: it is wrong and earns the least of every component.
    """

    task: Task

    weights, reward_range = property(attrgetter("task.weights")), property(attrgetter("task.reward_range"))
    metric, floor = property(attrgetter("task.metric")), property(attrgetter("task.floor"))

    @cached_property
    def words(self) -> dict[Pieces, int]:
        """The words of tokens, cut at spaces: `{("0",): 0, ("action", "3"): 3}`; two tokens of one word are a fault."""
        written = [(token, self.task.render([token])) for token in range(self.task.vocabulary) if self.is_word(token)]
        words = {tuple(word.split(" ")): token for token, word in written}
        if len(words) < len(written):
            twice = next(word for token, word in written if words[tuple(word.split(" "))] != token)
            raise ValueError(f"cannot be text: {twice!r} is the word of several tokens")
        return words

    @cached_property
    def characters(self) -> str:
        """All characters of all words, and the space, in order."""
        return "".join(sorted({" ", *"".join(map("".join, self.words))}))

    def is_word(self, token: int) -> bool:
        """Whether a token is written; padding and the end are not."""
        return token not in (self.task.pad, self.task.end)

    def examples(self, seed: int, purpose: Purpose, step: int, count: int, held_out: bool) -> list[Example]:
        """Return the prompts that the replicas' loop draws from this stream; their entries are their tokens.

        They are drawn as ``loop.dynamic_sampling`` does: a ``prompt_set`` is for training only.
        """
        task, size = self.task, getattr(self.task, "prompt_set", None)
        numbers = uniforms([seed], purpose, step, (count, task.draws))
        if size is None or purpose != Purpose.PROMPTS:
            prompts = task.prompts(numbers, held_out)[0]
        else:
            known = task.prompts(uniforms([seed], Purpose.PROMPT_SET, 0, (size, task.draws)), held_out=False)[0]
            prompts = known[(numbers[0, :, 0] * size).long()]
        return [Example(task.render(list(dropwhile(task.pad.__eq__, row))), row) for row in prompts.tolist()]

    def read(self, text: str) -> list[int] | None:
        """Return the tokens of a text, the inverse of ``render``; None if it has something that is no word."""
        pieces, tokens, place = text.split(), [], 0
        sizes = sorted({len(word) for word in self.words}, reverse=True)
        while place < len(pieces):
            tried = (tuple(pieces[place : place + size]) for size in sizes)
            found = next((word for word in tried if word in self.words), None)
            if found is None:
                return None
            tokens.append(self.words[found])
            place += len(found)
        return tokens

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        """Judge one completion for each example by the task's ``score``."""
        if not examples:
            return []
        task, rows = self.task, []
        for text, done in zip(texts, finished, strict=True):
            tokens = self.read(text)
            if tokens is None or (task.end < 0 and len(tokens) < task.cap):
                rows.append(None)
            else:
                rows.append([*tokens, *([task.end] if task.end >= 0 and done else [])][: task.cap])
        scores = self.score_tokens(torch.tensor([[example.entry for example in examples]]), rows)
        components = {name: values.flatten().tolist() for name, values in scores.components.items()}
        return [
            Score({name: values[i] for name, values in components.items()}, right and rows[i] is not None)
            for i, right in enumerate(scores.correct.flatten().tolist())
        ]

    def score_tokens(self, prompts: Tensor, rows: Sequence[list[int] | None]) -> Scores:
        """Score a completion for each prompt ``[1, P, L]``.

        Nonsense is a completion of what no completion has: the question of a tabular task, or no token at all.
        """
        task = self.task
        nonsense = task.first_question if isinstance(task, TabularTask) else NO_TOKEN
        completions = torch.full((1, len(rows), 1, task.cap), max(task.pad, 0))
        mask = torch.zeros_like(completions, dtype=torch.bool)
        for i, row in enumerate(rows):
            if row is None:
                completions[0, i] = nonsense
            else:
                completions[0, i, 0, : len(row)] = torch.tensor(row, dtype=torch.long)
                mask[0, i, 0, : len(row)] = True
        ends = mask & (completions == task.end) if task.end >= 0 else mask
        return task.score(prompts, completions, mask, ends.any(-1))

    def solution(self, example: Example) -> str | None:
        """Write the answer of the task's ``oracle``; None where it shows none."""
        return self.write(self.task.oracle(torch.tensor([[example.entry]])))

    def wrong_solution(self, example: Example) -> str | None:
        """Write the answer of the task's ``wrong_answers``; None where it has none."""
        wrong_answers = getattr(self.task, "wrong_answers", None)
        return wrong_answers and self.write(wrong_answers(torch.tensor([[example.entry]])))

    def write(self, answer: tuple[Tensor, Tensor]) -> str | None:
        """Write an answer ``[1, 1, T]`` without its end; None where its mask is empty."""
        tokens, mask = (part.flatten() for part in answer)
        return self.task.render([t for t in tokens[mask].tolist() if self.is_word(t)]) if mask.any() else None
