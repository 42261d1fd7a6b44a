"""Sort a prompt of varying length and say when you are done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from rlexp.core import types as t
from rlexp.tasks.scoring import (
    NO_TOKEN,
    check_weights,
    in_order,
    included,
    included_counted,
    pack,
    right_places,
)
from rlexp.tasks.task import BaseTask, Scores

COMPONENTS = ("exact", "graded", "lecture", "multiset", "format")


@dataclass(frozen=True, kw_only=True)
class Sort(BaseTask):
    """Prompt: items and a separator, padded on the left. Completion: the items in order and an end token.

    Items are drawn from ``alphabet`` symbols with repetition. A prompt is *held out* if its items sum to a multiple
    of the alphabet: no permutation of an evaluation prompt is ever trained on, and both sets are sampled uniformly.

    Components: ``exact`` 1 for the sorted items and an end token, else 0; ``graded`` share of positions that are
    right; ``lecture`` inclusion + ordering of CS336 lecture 17 as a share of its maximum, duplicates hackable;
    ``multiset`` the same with multiset counting; ``format`` 1 if it ended after as many symbols as were asked for.
    Filler symbols are allowed anywhere and ignored by every component, but they use up ``cap``. Where ``cap`` is the
    length of every answer (``shortest`` = ``longest`` = ``cap``) there is no end token: it ends by itself.
    """

    alphabet: Annotated[int, Ge(2), Le(t.LARGEST_SIZE)]
    shortest: t.Size
    longest: t.Size
    cap: t.Size
    filler: Annotated[int, Ge(0), Le(1)]
    prompt_set: t.Size | None
    weights: dict[str, t.FiniteNonNegative]
    metric: str
    floor: float

    def __post_init__(self):
        if self.shortest > self.longest:
            raise ValueError(f"shortest={self.shortest} must not exceed longest={self.longest}")
        if self.cap < self.longest + self.ends:
            raise ValueError(
                f"cap={self.cap} leaves no room for {self.longest} items and an end token: at least {self.longest + 1}"
            )
        check_weights(self.weights, COMPONENTS)

    @property
    def ends(self) -> bool:
        """Whether a completion says when it is done."""
        return not self.shortest == self.longest == self.cap

    @property
    def pad(self) -> int:
        """Token that fills a prompt on the left and a completion after its end."""
        return self.alphabet

    @property
    def end(self) -> int:
        """Token that ends a completion, −1 if there is none."""
        return self.alphabet + 1 if self.ends else -1

    @property
    def separator(self) -> int:
        """Token after the items of a prompt."""
        return self.alphabet + 1 + self.ends

    @property
    def vocabulary(self) -> int:
        """Number of tokens: symbols, pad, end (if any), separator, filler."""
        return self.alphabet + 2 + self.ends + self.filler

    @property
    def prompt_length(self) -> int:
        """Width of a prompt with its separator."""
        return self.longest + 1

    @property
    def draws(self) -> int:
        """Random numbers that one prompt takes: its length, its class, its other items."""
        return self.longest + 1

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Numbers in [0, 1) to prompts: ``[R, P, draws] -> [R, P, L]``."""
        lengths = self.shortest + (uniforms[..., :1] * (self.longest - self.shortest + 1)).long()
        items = (uniforms[..., 2:] * self.alphabet).long()
        place = torch.arange(self.longest, 0, -1, device=uniforms.device)
        present = place <= lengths
        items = items.masked_fill(~present[..., :-1], 0)
        residue = torch.zeros_like(lengths) if held_out else 1 + (uniforms[..., 1:2] * (self.alphabet - 1)).long()
        last = (residue - items.sum(-1, keepdim=True)) % self.alphabet
        prompt = torch.cat([items, last, torch.full_like(last, self.separator)], -1)
        return prompt.masked_fill(~torch.cat([present, torch.ones_like(present[..., :1])], -1), self.pad)

    def render(self, tokens: Sequence[int]) -> str:
        """`[8, 3, 1, 10]` → `"3 1 →"`, `[1, 3, 9]` → `"1 3 end"`; padding before a prompt is left out."""
        words = {self.pad: "pad", self.end: "end", self.separator: "→", self.alphabet + 3: "·"}
        items = list(tokens)
        while items and items[0] == self.pad and items[-1] == self.separator:
            items.pop(0)
        return " ".join(words.get(token, str(token)) for token in items)

    def targets(self, prompts: Tensor) -> Tensor:
        """Return the sorted items, ``NO_TOKEN`` behind them: ``[R, P, L] -> [R, P, L − 1]``."""
        items = prompts[..., :-1]
        ordered = items.masked_fill(items == self.pad, self.vocabulary).sort(-1).values
        return ordered.masked_fill(ordered == self.vocabulary, NO_TOKEN)

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer right, without fillers: ``[R, P, L]`` to tokens and mask ``[R, P, T]``, the end token included."""
        items = torch.nn.functional.pad(self.targets(prompts), (0, self.cap - self.longest), value=NO_TOKEN)
        place, length = torch.arange(self.cap, device=prompts.device), (items != NO_TOKEN).sum(-1, keepdim=True)
        answers = items.where(place < length, self.pad).masked_fill(place == length, self.end)
        return answers, place <= length

    def wrong_answers(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer as ``oracle`` does, but for the first item, which is the next symbol of the alphabet: never right."""
        answers, mask = self.oracle(prompts)
        first = torch.arange(self.cap, device=prompts.device) == 0
        return ((answers + 1) % self.alphabet).where(first, answers), mask

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]``; a completion that was cut off is judged by what it has."""
        symbol = mask & (completions < self.alphabet)
        stray = mask & ((completions == self.pad) | (completions == self.separator))
        answers = pack(completions, symbol | stray)
        targets = torch.nn.functional.pad(self.targets(prompts), (0, self.cap - self.longest), value=NO_TOKEN)
        items = targets.unsqueeze(-2)
        wanted, given = (items != NO_TOKEN).sum(-1), (answers != NO_TOKEN).sum(-1)
        exact = (answers == items).all(-1) & finished
        # inclusion and ordering look at as many symbols as are wanted, so that writing on is not paid
        beyond = torch.arange(self.cap, device=answers.device) >= wanted.unsqueeze(-1)
        window = answers.masked_fill(beyond, NO_TOKEN)
        ordering, most = in_order(window), 2 * wanted - 1
        components = {
            "exact": exact.float(),
            "graded": right_places(answers, items) / torch.maximum(wanted, given),
            "lecture": (included(items, window) + ordering) / most,
            "multiset": (included_counted(items, window, self.alphabet) + ordering) / most,
            "format": (finished & (given == wanted)).float(),
        }
        return Scores(components, exact)
