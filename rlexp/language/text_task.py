"""Tasks of text: what a backend that trains language models asks of them, and this project's own tasks as such.

Those are in the words that ``render`` has for their tokens, read back word by word. A run on text has the prompts of
the same step of a run on tokens, and the judge is the task itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import dropwhile, pairwise
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from rlexp.core.streams import Purpose, uniforms
from rlexp.tasks import Scores, TabularTask, Task
from rlexp.tasks.sort import NO_TOKEN


class Example(NamedTuple):
    """A prompt as text, and what its verifier needs to know of it: plain values, as JSON has them."""

    prompt: str
    entry: Any


class Score(NamedTuple):
    """What a task says of one completion: the components of its reward, NaN where one does not apply; is it right."""

    components: dict[str, float]
    correct: bool


@runtime_checkable
class TextTask(Protocol):
    """Prompts as text and a verifier; a frozen set of settings.

    ``weights``, ``reward_range``, ``metric`` and ``floor`` are as in ``tasks.Task``. ``characters`` are all that
    prompts and right answers are made of, in order: the vocabulary of a model that is made for the task.
    """

    weights: Mapping[str, float]
    reward_range: tuple[float, float]
    metric: str
    floor: float
    characters: str

    def examples(self, seed: int, purpose: Purpose, step: int, count: int, held_out: bool) -> list[Example]:
        """Draw so many prompts from the stream of a run's seed, a purpose and a step: the same ones whenever asked.

        No prompt is among both those that are ``held_out`` and the others, whatever the seed.
        """

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        """Score one completion for each example; those not ``finished`` were cut off."""

    def solution(self, example: Example) -> str | None:
        """Answer right, in the shortest way; None where no answer is known."""

    def wrong_solution(self, example: Example) -> str | None:
        """Answer wrong in the form of a right answer; None where that cannot be made."""


def is_held_out(prompt: str, share: float) -> bool:
    """Whether a prompt is among the ``share`` of all texts that is held out: by a hash, so whatever seed drew it."""
    digest = blake2b(prompt.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64


def as_text(task: Task) -> TextTask:
    """Return a task of tokens as one of text; ValueError, in one line, where its tokens cannot be had as text."""
    if hasattr(task, "environment"):
        raise ValueError("cannot be text: its environment writes into completions; take backend=replicas")
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
    def words(self) -> dict[tuple[str, ...], int]:
        """The words of tokens, cut at spaces: `{("0",): 0, ("action", "3"): 3}`; two tokens of one word are a fault."""
        words: dict[tuple[str, ...], int] = {}
        for token in filter(self.is_word, range(self.task.vocabulary)):
            word = self.task.render([token])
            if words.setdefault(tuple(word.split(" ")), token) != token:
                raise ValueError(f"cannot be text: {word!r} is the word of several tokens")
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
        return [Example(self.write(list(dropwhile(task.pad.__eq__, row))), row) for row in prompts.tolist()]

    def write(self, tokens: Sequence[int]) -> str:
        """Return the words of tokens in their order, where ``render`` may say the same as it is better read."""
        return " ".join(self.task.render([token]) for token in tokens)

    def read(self, text: str) -> list[int] | None:
        """Return the tokens of a text, the inverse of ``write``; None if it has something that is no word."""
        tokens, word, longest = [], (), max(map(len, self.words))
        for piece in text.split():
            word += (piece,)
            if word in self.words:  # of which none begins with another
                tokens.append(self.words[word])
                word = ()
            elif len(word) == longest:
                return None
        return None if word else tokens

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        if not examples:
            return []
        task, rows = self.task, []
        for text, done in zip(texts, finished, strict=True):
            row = self.read(text)
            if row is not None and task.end >= 0:
                row += [task.end] * done
            rows.append(None if row is None or (task.end < 0 and len(row) < task.cap) else row[: task.cap])
        scores = self.score_tokens(torch.tensor([[example.entry for example in examples]]), rows)
        components = zip(*(values.flatten().tolist() for values in scores.components.values()), strict=True)
        return [
            Score(dict(zip(scores.components, values, strict=True)), right and row is not None)
            for values, right, row in zip(components, scores.correct.flatten().tolist(), rows, strict=True)
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
        return self.write_answer(self.task.oracle(torch.tensor([[example.entry]])))

    def wrong_solution(self, example: Example) -> str | None:
        """Write the answer of the task's ``wrong_answers``; None where it has none."""
        wrong_answers = getattr(self.task, "wrong_answers", None)
        return wrong_answers and self.write_answer(wrong_answers(torch.tensor([[example.entry]])))

    def write_answer(self, answer: tuple[Tensor, Tensor]) -> str | None:
        """Write an answer ``[1, 1, T]`` without its end; None where its mask is empty."""
        tokens, mask = (part.flatten() for part in answer)
        return self.write([t for t in tokens[mask].tolist() if self.is_word(t)]) if mask.any() else None
