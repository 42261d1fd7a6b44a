"""Answer by one of two habits, of which one is mostly right: what a start can do already, and does not always do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor
from torch.nn.functional import pad as padded

from rlexp.core import types as t
from rlexp.core.streams import fractions, splitmix64
from rlexp.tasks.hints import with_hints
from rlexp.tasks.task import BaseTask, Scores, task


@with_hints
@task
class TwoHabits(BaseTask):
    """Prompt: ``items`` numbers below ``alphabet``, a separator. Completion: a habit's name, numbers, an end.

    Habit A, ``steps``, writes the sums of the first number, of the first two, … of all, modulo ``alphabet``; habit B,
    ``guess``, writes the first number. The last number is the answer. On a share ``right_a`` of the prompts the sum is
    right. On the others no habit is right: right is the next number after the sum that B does not guess. A hash of the
    prompt says which, so that nothing tells in advance. B is right where A is and the sum happens to be the first
    number: so many prompts are made like this that B is right on a share ``right_b`` of all. A policy that uses A with
    share a therefore has an accuracy of a · ``right_a`` + (1 − a) · ``right_b``; with ``right_a`` at least 1/2 no
    answer that could be known in advance does better than A's. Held out are prompts with Σ i · xᵢ a multiple of
    ``alphabet``.

    Components: ``right`` 1 for a habit's name, the right number as the last, and an end, else 0; ``format`` 1 for a
    name with as many numbers as the habit writes, and an end; ``habit_a`` 1 if it begins with A's name. The oracle
    answers by A where A is right, elsewhere by B's name and the right number. ``corpus`` answers by habit, A in a share
    ``share_a``, right or wrong. Source: made for claims about elicitation, such as "Spurious Rewards" (arXiv
    2506.10947), where the habit is to reason in code and its share grows whatever is rewarded; of that paper the
    abstract and summaries were read.
    """

    items: Annotated[int, Ge(3), Le(1024)]
    alphabet: Annotated[int, Ge(3), Le(t.LARGEST_SIZE)]
    right_a: t.Share
    right_b: t.Probability
    share_a: t.Probability
    cap: t.Size
    prompt_set: t.Size | None

    components = ("right", "format", "habit_a")
    # Tokens are the numbers, the names of A and B, then pad, end and separator.
    name_a = property(lambda self: self.alphabet)
    name_b = property(lambda self: self.alphabet + 1)
    pad = property(lambda self: self.alphabet + 2)
    end = property(lambda self: self.alphabet + 3)
    separator = property(lambda self: self.alphabet + 4)
    vocabulary = property(lambda self: self.alphabet + 5)
    prompt_length = property(lambda self: self.items + 1)
    draws = property(lambda self: self.items + 1)  # does B's guess agree, the sum if not, what is held out, free items

    def __post_init__(self):
        super().__post_init__()
        if self.right_b > self.right_a:
            raise ValueError(
                f"right_b={self.right_b:g} must not exceed right_a={self.right_a:g}: B is right where A is"
            )
        if self.cap < self.items + 2:
            words = f"a name, {self.items} numbers and an end: at least {self.items + 2}"
            raise ValueError(f"cap={self.cap} leaves no room for {words}")

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Draw all items but two; these give the sum that is wanted, and Σ i · xᵢ what its part of the prompts has."""
        (agrees, other, part), free = uniforms[..., :3].unbind(-1), (uniforms[..., 3:] * self.alphabet).long()
        apart = (1 + (other * (self.alphabet - 1)).long()).where(agrees >= self.right_b / self.right_a, 0)
        weighted = torch.zeros_like(apart) if held_out else 1 + (part * (self.alphabet - 1)).long()
        place = torch.arange(1, self.items - 1, device=uniforms.device)
        rest = free[..., 0] + apart - free.sum(-1)
        last = (weighted - (place * free).sum(-1) - (self.items - 1) * rest) % self.alphabet
        ending = (rest - last) % self.alphabet, last, torch.full_like(last, self.separator)
        return torch.cat([free, torch.stack(ending, -1)], -1)

    def a_is_right(self, prompts: t.Prompts) -> Tensor:
        """Whether habit A is right, ``[R, P, L] -> [R, P]``."""
        places = torch.arange(self.items, device=prompts.device)
        hashed = splitmix64(splitmix64((prompts[..., : self.items] << 32) + places).sum(-1))
        return fractions(hashed) < self.right_a

    def truth(self, prompts: t.Prompts) -> Tensor:
        """Return the right numbers, ``[R, P, L] -> [R, P]``."""
        total, guess = prompts[..., : self.items].sum(-1) % self.alphabet, prompts[..., 0]
        after = (total + 1) % self.alphabet
        after = torch.where(after == guess, (after + 1) % self.alphabet, after)
        return torch.where(self.a_is_right(prompts), total, after)

    def write(self, prompts: t.Prompts, by_a: Tensor, guesses: Tensor) -> tuple[t.Answers, t.AnswerMask]:
        """Answer by the steps of A where it is said, elsewhere by the name of B and a guess: ``[R, P]`` each."""
        room = self.cap - self.items - 1
        steps = padded(prompts[..., : self.items].cumsum(-1) % self.alphabet, (1, room), value=self.name_a)
        at_once = padded(torch.stack([torch.full_like(guesses, self.name_b), guesses], -1), (0, self.cap - 2))
        answers = steps.where(by_a.unsqueeze(-1), at_once)
        place, length = (
            torch.arange(self.cap, device=prompts.device),
            torch.where(by_a, self.items + 1, 2).unsqueeze(-1),
        )
        answers = answers.where(place < length, self.pad).masked_fill(place == length, self.end)
        return answers, place <= length

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer right, by A where A is right."""
        return self.write(prompts, self.a_is_right(prompts), self.truth(prompts))

    def wrong_answers(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer as ``oracle`` does, but for the last number, which is the next one: never right."""
        answers, mask = self.oracle(prompts)
        last = torch.arange(self.cap, device=prompts.device) == mask.sum(-1, keepdim=True) - 2
        return ((answers + 1) % self.alphabet).where(last, answers), mask

    def corpus(self, prompts: t.Prompts, uniforms: t.CorpusDraws) -> tuple[t.Answers, t.AnswerMask]:
        """Answer by A where the number in [0, 1) of a prompt is below ``share_a``, elsewhere by B: right or wrong."""
        return self.write(prompts, uniforms < self.share_a, prompts[..., 0])

    def render(self, tokens: Sequence[int]) -> str:
        """With eight numbers `[8, 3, 1, 11]` → `"steps 3 1 end"`, `[3, 6, 12]` → `"3 6 →"`."""
        words = dict(enumerate(("steps", "guess", "pad", "end", "→"), self.alphabet))
        return " ".join(words.get(token, str(token)) for token in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]``; one that was cut off is neither right nor of the form of a habit."""
        first, length = completions[..., 0], mask.sum(-1)
        by_a, by_b = first == self.name_a, first == self.name_b
        # before the end, or its own name where there is no number
        last = completions.gather(-1, (length - 2).clamp(min=0).unsqueeze(-1)).squeeze(-1)
        right = finished & (by_a | by_b) & (last == self.truth(prompts).unsqueeze(-1))
        place = torch.arange(self.cap, device=prompts.device)
        numbers = (
            ((completions >= 0) & (completions < self.alphabet)) | (place == 0) | (place >= length.unsqueeze(-1) - 1)
        )
        whole = (by_a & (length == self.items + 2)) | (by_b & (length == 3))
        formed = finished & whole & numbers.all(-1)
        parts = {"right": right.float(), "format": formed.float(), "habit_a": (by_a & mask[..., 0]).float()}
        return Scores(parts, right)
