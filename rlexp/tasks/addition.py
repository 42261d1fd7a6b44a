"""Add two numbers, at once or on a scratchpad: answers that are free in length and right at their end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor
from torch.nn.functional import pad as padded

from rlexp.core import types as t
from rlexp.core.streams import splitmix64
from rlexp.tasks.buckets import Buckets
from rlexp.tasks.hints import with_hints
from rlexp.tasks.sort import NO_TOKEN, pack, right_places
from rlexp.tasks.task import BaseTask, Scores, task

PROCEDURES = ("full", "carries", "direct")
STEP = {"full": 9, "carries": 3, "direct": 0}  # tokens for each digit: `7 + 6 + 0 = 1 3 ,`, `1 3 ,`, none
CELLS = 2**24  # hashes are compared with shares in so many steps


class Adding(BaseTask):
    """What tasks of sums share: tokens, prompts of ``shortest`` to ``longest`` digits, procedures, a verifier."""

    words = (*map(str, range(10)), "+", "=", ",", "→", "pad", "end")
    plus, equals, comma, answer, pad, end, vocabulary = range(10, 17)
    prompt_length = property(lambda self: 2 * self.longest + 2)
    draws = property(lambda self: 2 * self.longest + 1)  # for the number of digits, all digits, the last one's class

    def __post_init__(self):
        super().__post_init__()
        if self.shortest > self.longest:
            raise ValueError(f"shortest={self.shortest} must not exceed longest={self.longest}")
        if set(self.procedures) != set(PROCEDURES) or not any(self.procedures.values()):
            raise ValueError(f"procedures must name {', '.join(PROCEDURES)}, at least one of them above 0")
        if self.cap < self.longest + 3:
            raise ValueError(
                f"cap={self.cap} leaves no room for a sum of {self.longest} digits: at least {self.longest + 3}"
            )

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        digits = self.shortest + (uniforms[..., :1] * (self.longest - self.shortest + 1)).long()
        place = torch.arange(self.longest, 0, -1, device=uniforms.device)  # 1 for the last digit
        drawn = uniforms[..., 1:].unflatten(-1, (2, self.longest))
        first = ((place == digits) & (digits > 1)).unsqueeze(-2)
        numbers = ((drawn * 9).long() + 1).where(first, (drawn * 10).long())
        numbers = numbers.masked_fill((place > digits).unsqueeze(-2), 0)
        # the last digit of the second number makes the sum of all digits what it has to be
        residue = torch.zeros_like(digits) if held_out else 1 + (drawn[..., 1, -1:] * 9).long()
        first_number, second = numbers[..., 0, :], numbers[..., 1, :-1]
        last = (residue - first_number.sum(-1, keepdim=True) - second.sum(-1, keepdim=True)) % 10
        plus, equals = (torch.full_like(digits, token) for token in (self.plus, self.equals))
        line = torch.cat([first_number, plus, second, last, equals], -1)
        present = torch.cat([place <= digits, torch.ones_like(plus, dtype=torch.bool)] * 2, -1)
        order = present.to(torch.int8).argsort(dim=-1, stable=True)
        return line.masked_fill(~present, self.pad).gather(-1, order)

    def numbers(self, prompts: t.Prompts) -> tuple[Tensor, Tensor, Tensor]:
        """Return both numbers, the last digit first and 0 where there is none, and how many digits they have."""
        count = ((prompts != self.pad).sum(-1, keepdim=True) - 2) // 2
        place = torch.arange(self.longest, device=prompts.device)
        last = torch.full_like(count, prompts.shape[-1] - 2)
        ends = last - 1 - count, last  # of their last digits
        first, second = (prompts.gather(-1, (at - place).clamp(min=0)).masked_fill(place >= count, 0) for at in ends)
        return first, second, count

    def write(self, prompts: t.Prompts, procedure: Tensor, wrong: Tensor) -> tuple[t.Answers, t.AnswerMask]:
        """Write out the addition.

        Args:
            prompts: ``[R, P, L]``.
            procedure: which of ``PROCEDURES``, ``[R, P]``.
            wrong: place of the digit that is wrong, 0 for the last one; −1 for none, ``[R, P]``.

        Returns:
            Tokens and their mask, ``[R, P, T]`` each.
        """
        left, right, count = self.numbers(prompts)
        carry, sums, steps = torch.zeros_like(left[..., 0]), [], []
        for place in range(self.longest):
            a, b = left[..., place], right[..., place]
            total = a + b + carry
            units, tens = total % 10, total // 10
            units = units.where(wrong != place, units + torch.where(units == 9, -1, 1))
            plus, equals, comma = (torch.full_like(a, token) for token in (self.plus, self.equals, self.comma))
            steps.append(torch.stack([a, plus, b, plus, carry, equals, tens, units, comma], -1))
            sums.append(units.where(place < count[..., 0], carry))
            carry = tens.where(place < count[..., 0], 0)
        # behind the numbers' own digits stands the last carry, once
        digits = torch.stack([*sums, carry], -1).flip(-1)
        highest = torch.arange(self.longest, -1, -1, device=prompts.device)
        shown = (highest < count) | ((highest == count) & (digits > 0))
        tokens = torch.stack(steps, -2)
        taken = torch.tensor([STEP[name] for name in PROCEDURES], device=prompts.device)[procedure]
        within = torch.arange(tokens.shape[-1], 0, -1, device=prompts.device) <= taken[..., None, None]
        present = torch.arange(self.longest, device=prompts.device).unsqueeze(-1) < count.unsqueeze(-1)
        answer, end = (torch.full_like(count, token) for token in (self.answer, self.end))
        one = torch.ones_like(shown[..., :1])
        line = torch.cat([tokens.flatten(-2), answer, digits, end], -1)
        kept = torch.cat([(within & present).flatten(-2), one, shown, one], -1)
        line = padded(pack(line, kept), (0, max(self.cap - line.shape[-1], 0)), value=NO_TOKEN)[..., : self.cap]
        return line.masked_fill(line == NO_TOKEN, self.pad), line != NO_TOKEN

    def all_by(self, prompts: t.Prompts, name: str) -> t.Answers:
        """Write all sums by one procedure, right."""
        procedure = torch.full_like(prompts[..., 0], PROCEDURES.index(name))
        return self.write(prompts, procedure, torch.full_like(procedure, -1))[0]

    def shown(self, prompts: t.Prompts) -> Tensor:
        """Say by which of ``PROCEDURES`` a demonstration is written: a hash of the prompt, ``[R, P]``."""
        key = torch.zeros_like(prompts[..., 0])
        for token in prompts.unbind(-1):
            key = splitmix64(key * self.vocabulary + token)
        shares = torch.tensor([self.procedures[name] for name in PROCEDURES], dtype=torch.float64)
        bounds = (shares.cumsum(0) / shares.sum())[:-1].to(prompts.device) * CELLS
        return ((key >> 40 & CELLS - 1).unsqueeze(-1) >= bounds).sum(-1)

    def fitting(self, prompts: t.Prompts) -> Tensor:
        """Say which of ``PROCEDURES`` is the prompt's, or the next one that ends within ``cap``, ``[R, P]``."""
        needed = (
            torch.tensor([STEP[name] + 1 for name in PROCEDURES], device=prompts.device) * self.numbers(prompts)[2] + 3
        )
        first = (needed <= self.cap).int().argmax(-1)
        return torch.maximum(self.shown(prompts), first)

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Add right, by the procedure of the prompt if it fits."""
        procedure = self.fitting(prompts)
        return self.write(prompts, procedure, torch.full_like(procedure, -1))

    def wrong_answers(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer as ``oracle`` does, with a wrong last digit."""
        procedure = self.fitting(prompts)
        return self.write(prompts, procedure, torch.zeros_like(procedure))

    def corpus(self, prompts: t.Prompts, uniforms: Tensor) -> tuple[t.Answers, t.AnswerMask]:
        """Add by the prompt's procedure, a share ``mistakes`` with one wrong digit; ``uniforms`` are ``[R, P]``."""
        digits = self.numbers(prompts)[2][..., 0]
        place = (uniforms / max(self.mistakes, 1 / CELLS) * digits).long().clamp(max=digits - 1)
        return self.write(prompts, self.shown(prompts), place.where(uniforms < self.mistakes, -1))

    def render(self, tokens: Sequence[int]) -> str:
        """`[3, 4, 10, 5, 8, 11]` → `"3 4 + 5 8 ="`; padding before a prompt is left out."""
        shown = dropwhile(self.pad.__eq__, tokens) if tokens and tokens[-1] == self.equals else tokens
        return " ".join(map(self.words.__getitem__, shown))

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]`` by what is behind the last `→`; one that was cut off is not exact."""
        tokens = completions.masked_fill(~mask, self.pad)
        place = torch.arange(self.cap, device=tokens.device)
        marks = tokens == self.answer
        last = (marks * (place + 1)).amax(-1, keepdim=True)  # 0 where there is none
        wanted = self.all_by(prompts, "direct")[..., 1 : self.longest + 3].unsqueeze(2)
        behind = last + torch.arange(wanted.shape[-1], device=tokens.device)
        given = padded(tokens, (0, 1), value=self.pad).gather(-1, behind.clamp(max=self.cap))
        given = given.masked_fill(last == 0, NO_TOKEN)
        exact = (given == wanted).all(-1)  # the end token included
        rest = mask & (place >= last) & (last > 0) & (tokens != self.end)
        targets = wanted.masked_fill(wanted >= 10, NO_TOKEN)
        most = torch.maximum(rest.sum(-1), (targets != NO_TOKEN).sum(-1))
        written = (rest.sum(-1) > 0) & (~rest | (tokens < 10)).all(-1)
        thought = [(tokens == self.all_by(prompts, name).unsqueeze(2)).all(-1) for name in ("full", "carries")]
        components = {
            "exact": exact.float(),
            "digits": right_places(given, targets) / most,
            "format": (finished & written).float(),
            "scratchpad": (finished & (thought[0] | thought[1])).float(),
        }
        return Scores(components, exact)


@with_hints
@task
class Addition(Adding):
    """Prompt: `3 4 7 + 5 8 6 =`. Completion: anything, then `→`, the digits of the sum and an end token.

    What stands before the last `→` is the scratchpad, which is not judged: it may be right, wrong, long or left out.
    Demonstrations are written by one of three procedures, each in its share: ``full`` adds digit by digit, the last
    first, with the carry (`7 + 6 + 0 = 1 3 , 4 + 8 + 1 = 1 3 , 3 + 5 + 1 = 0 9 ,`); ``carries`` writes the sums alone
    (`1 3 , 1 3 , 0 9 ,`); ``direct`` writes nothing. Which one a prompt gets is a hash of it, so that nothing tells in
    advance. In ``corpus`` a share ``mistakes`` of them has one digit wrong, in the scratchpad and in the sum, and what
    is longer than ``cap`` is cut off; ``oracle`` takes the next procedure there.

    Both numbers have as many digits, ``shortest`` to ``longest``; the first one is above 0 unless it is the only one.
    Held out are prompts whose digits sum to a multiple of ten.

    Components: ``exact`` 1 for the right sum and an end token, else 0; ``digits`` share of the digits behind the last
    `→` that are right; ``format`` 1 if it ended and has digits and nothing else behind a `→`; ``scratchpad`` 1 where
    the completion is the one that ``full`` or ``carries`` writes. Source: the setting of "Show Your Work: Scratchpads
    for Intermediate Computation" (arXiv 2112.00114, section 3); the format here is its own.
    """

    shortest: t.Size
    longest: Annotated[int, Ge(1), Le(12)]
    procedures: dict[str, t.FiniteNonNegative]
    mistakes: t.Probability
    cap: t.Size
    prompt_set: t.Size | None

    components = ("exact", "digits", "format", "scratchpad")


@task
class AdditionMix(Buckets, Adding):
    """``Addition``, with sums of as many lengths as there are buckets: easy, medium, hard, impossible.

    ``digits`` has the digits of both numbers of each bucket, ``shares`` how often it comes, for training and for
    evaluation. Prompts of the impossible bucket look like the others, and no completion is right; the corpus has none.
    Components ``easy``, ``medium``, ``hard``, ``impossible``: 1 for the right sum and an end token, else 0, NaN on
    prompts of the other buckets. All else is as in ``Addition``.
    """

    digits: dict[str, Annotated[int, Ge(1), Le(12)]]
    shares: dict[str, t.FiniteNonNegative]
    procedures: dict[str, t.FiniteNonNegative]
    mistakes: t.Probability
    cap: t.Size

    told_by = "digits"

    def length(self, prompts: t.Prompts) -> Tensor:
        """Count the digits of a number of prompts, ``[R, P, L] -> [R, P, 1]``."""
        return self.numbers(prompts)[2]

    def corpus(self, prompts: t.Prompts, uniforms: t.CorpusDraws) -> tuple[t.Answers, t.AnswerMask]:
        """Add as ``Addition`` does where an answer is right."""
        return self.solvable(prompts, *super().corpus(prompts, uniforms))
