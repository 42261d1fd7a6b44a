"""A conversation of two turns: ask a tool for what the prompt does not say, then answer with what it has written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from torch import Tensor

from rlexp.core import types as t
from rlexp.core.streams import splitmix64
from rlexp.tasks.task import BaseTask, Scores, task

OPERATIONS = ("same", "next", "mirror", "reverse")
SPECIAL = ("call", "result", "error", "end", "pad", "→")
LETTERS = 26
LARGEST = 2**62  # numbers that are hashed are below it


@task
class Tool(BaseTask):
    """Prompt: the name of a table, a key, an operation, a separator. Completion: a call, its result, the answer.

    A table has a row of ``value`` symbols for each of ``keys`` keys, which is a hash of the table's name, of ``table``
    symbols, and the key: nothing in the prompt tells it. ``call`` and a key make the environment write ``result`` and
    the row of that key, or as many ``error`` if what follows ``call`` is no key. Right is what the ``operation`` makes
    of the row of the prompt's key, then an end token. ``same`` changes nothing; symbols become the ``next`` ones, or
    those at the ``mirror`` place of the alphabet; ``reverse`` turns their order. A prompt has one of the first
    ``operations`` of these.

    Only the first call is answered. What stands before it does not matter, and what stands behind its result is the
    answer. Without a call all of the completion is, so that a guess is right once in symbols^value times.
    The environment's tokens are in the completion and are read as all others are, but were not drawn: no loss trains
    the policy to write them, unless ``train_on_environment``. Warm-ups never do. Held out are tables whose names have
    symbols that sum to a multiple of the alphabet.

    Components: ``exact`` 1 for the right answer and an end token, else 0; ``called`` 1 where the row of the prompt's
    key was asked for and begins to be written; ``format`` 1 for a call of a key at the start, its result, as many
    symbols and the end token. Source: the setting of tools in TRL's ``GRPOTrainer`` (``tool_mask``), and the masking of
    retrieved tokens of Search-R1 (arXiv 2503.09516, §3.1); table, operations and sizes are not theirs.
    """

    symbols: Annotated[int, Ge(2), Le(t.LARGEST_SIZE)]
    table: Annotated[int, Ge(1), Le(t.LARGEST_SIZE)]
    keys: Annotated[int, Ge(1), Le(LETTERS)]
    value: Annotated[int, Ge(1), Le(t.LARGEST_SIZE)]
    operations: Annotated[int, Ge(1), Le(len(OPERATIONS))]
    cap: t.Size
    train_on_environment: bool

    components = ("exact", "called", "format")
    operation = property(lambda self: self.symbols + self.keys)  # the first of them
    call = property(lambda self: self.operation + self.operations)
    result = property(lambda self: self.call + 1)
    error = property(lambda self: self.call + 2)
    end = property(lambda self: self.call + 3)
    pad = property(lambda self: self.call + 4)
    separator = property(lambda self: self.call + 5)
    vocabulary = property(lambda self: self.call + len(SPECIAL))
    prompt_length = property(lambda self: self.table + 3)
    draws = property(lambda self: self.table + 2)  # the last symbol of a name is made by the class of the table
    conversation = property(lambda self: 2 * self.value + 4)  # tokens of the shortest right one that asks

    def __post_init__(self):
        super().__post_init__()
        if self.cap < self.conversation:
            short = f"value={self.value} and its end"
            raise ValueError(
                f"cap={self.cap} leaves no room for a call, a result and an answer of {short}: at least "
                f"{self.conversation}"
            )
        if self.symbols**self.table * self.keys * self.value > LARGEST:
            raise ValueError(
                f"table={self.table} makes too many tables of symbols={self.symbols}: at most 2^62 symbols"
            )

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        residue, key, operation = uniforms[..., :3].unbind(-1)
        name = (uniforms[..., 3:] * self.symbols).long()
        rest = torch.zeros_like(residue).long() if held_out else 1 + (residue * (self.symbols - 1)).long()
        last = (rest - name.sum(-1)) % self.symbols
        key, operation = self.symbols + (key * self.keys).long(), self.operation + (operation * self.operations).long()
        ending = torch.stack([last, key, operation, torch.full_like(last, self.separator)], -1)
        return torch.cat([name, ending], -1)

    def rows(self, prompts: t.Prompts, keys: Tensor) -> Tensor:
        """Return the rows of keys, numbered from 0, in the prompts' tables: ``[R, P, G] -> [R, P, G, value]``."""
        places = self.symbols ** torch.arange(self.table - 1, -1, -1, device=prompts.device)
        number = (prompts[..., : self.table] * places).sum(-1)
        first = (number.unsqueeze(-1) * self.keys + keys) * self.value
        return splitmix64(first.unsqueeze(-1) + torch.arange(self.value, device=prompts.device)) % self.symbols

    def environment(self, prompts: t.Prompts, completions: t.Completions) -> t.Completions:
        """Return what the tool writes at each place, −1 where the policy does: ``[R, P, G, T] -> [R, P, G, T]``.

        A place depends on the tokens before it alone.
        """
        ended = (completions == self.end).cumsum(-1) > 0
        called = (completions == self.call) & ~ended
        first = called.byte().argmax(-1, keepdim=True)
        # one place more, for a call that is the last token of what was written so far
        key = F.pad(completions, (0, 1), value=self.pad).gather(-1, first + 1).squeeze(-1) - self.symbols
        known = (key >= 0) & (key < self.keys)
        rows = self.rows(prompts, key.clamp(0, self.keys - 1)).where(known.unsqueeze(-1), self.error)
        written = F.pad(rows, (1, 0), value=self.result)
        place = torch.arange(completions.shape[-1], device=completions.device) - first - 2
        inside = (place >= 0) & (place <= self.value) & called.any(-1, keepdim=True)
        inside = inside & (key + self.symbols != self.end).unsqueeze(-1)
        return written.gather(-1, place.clamp(0, self.value)).where(inside, -1)

    def answers(self, prompts: t.Prompts) -> tuple[Tensor, Tensor]:
        """Return the row of each prompt's key, and what its operation makes of it: ``[R, P, value]`` each."""
        key, operation = prompts[..., self.table : self.table + 2].unbind(-1)
        row = self.rows(prompts, (key - self.symbols).unsqueeze(-1)).squeeze(-2)
        made = [row, (row + 1) % self.symbols, self.symbols - 1 - row, row.flip(-1)]
        chosen = (operation - self.operation)[..., None, None].expand(*row.shape, 1)
        return row, torch.stack(made, -1).gather(-1, chosen).squeeze(-1)

    def conversations(self, prompts: t.Prompts, rows: Tensor, answers: Tensor) -> tuple[t.Answers, t.AnswerMask]:
        """Write a call of each prompt's key, its result and an answer, with the end token and padding behind it."""
        call, result, end = (torch.full_like(rows[..., :1], token) for token in (self.call, self.result, self.end))
        key = prompts[..., self.table : self.table + 1]
        tokens = torch.cat([call, key, result, rows, answers, end], -1)
        tokens = F.pad(tokens, (0, self.cap - self.conversation), value=self.pad)
        place = torch.arange(self.cap, device=prompts.device)
        return tokens, (place < self.conversation).expand(tokens.shape)

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Ask for the prompt's key and answer right; the result is among the tokens, as the environment writes it."""
        return self.conversations(prompts, *self.answers(prompts))

    def wrong_answers(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Ask for the prompt's key and answer with the last symbol one too far."""
        rows, right = self.answers(prompts)
        wrong = torch.cat([right[..., :-1], (right[..., -1:] + 1) % self.symbols], -1)
        return self.conversations(prompts, rows, wrong)

    def render(self, tokens: Sequence[int]) -> str:
        """Symbols as numbers, keys as letters: `"3 1 4 0 b mirror →"`, `"call b result 2 4 2 0 end"`."""
        keys = (chr(ord("a") + key) for key in range(self.keys))
        words = [*map(str, range(self.symbols)), *keys, *OPERATIONS[: self.operations], *SPECIAL]
        return " ".join(words[token] for token in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]`` by what stands behind the environment's tokens."""
        tokens, length = completions.where(mask, self.pad), mask.sum(-1)
        written = (self.environment(prompts, tokens) >= 0) & mask
        first, number = written.byte().argmax(-1), written.sum(-1)
        asked, begin = number > 0, first + number  # of the answer
        places = (begin.unsqueeze(-1) + torch.arange(self.value, device=tokens.device)).clamp(max=self.cap - 1)
        answer = tokens.gather(-1, places)
        whole = finished & (length == begin + self.value + 1)
        exact = whole & (answer == self.answers(prompts)[1].unsqueeze(2)).all(-1)
        key = tokens.gather(-1, (first - 1).clamp(min=0).unsqueeze(-1)).squeeze(-1)
        called = asked & (key == prompts[..., self.table].unsqueeze(-1))
        is_key = (key >= self.symbols) & (key < self.operation)
        form = whole & asked & (first == 2) & is_key & (answer < self.symbols).all(-1)
        return Scores({"exact": exact.float(), "called": called.float(), "format": form.float()}, exact)
