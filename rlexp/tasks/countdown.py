"""Reach a target with given numbers by + − × ÷: search, several right answers, few of all expressions right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement, permutations, product
from math import comb
from typing import Annotated, NamedTuple

import torch
from annotated_types import Ge, Le
from torch import Tensor
from torch.nn.functional import pad as padded

from rlexp.core import types as t
from rlexp.core.streams import fractions, splitmix64
from rlexp.tasks.hints import with_hints
from rlexp.tasks.task import BaseTask, Scores, task

OPERATORS = ("+", "−", "×", "÷")
TIMES, OVER = 2, 3  # places among them
PRECEDENCE = dict(zip(OPERATORS, (1, 1, 2, 2), strict=True))
BOUND = 3  # precedence of a number: it needs no brackets
HELD_OUT_EVERY = 8  # of the pairs of numbers and a target, one of so many is held out
MOST_VALUES = 2**23  # expressions over all sets of numbers: a table of their values is kept
AT_ONCE = 2**18  # expressions that are evaluated together, which bounds the memory
NO_VALUE = -(2**31)  # of an expression that has none, or is not tidy
TINY = 1e-9  # in place of a share of 0 that is divided by


@with_hints
@task
class Countdown(BaseTask):
    """Prompt: ``numbers`` numbers of 1 to ``largest``, a separator, a target. Completion: an expression and an end.

    The given numbers come the largest first. An expression uses each at most once. Its tokens are in postfix order,
    `3 4 + 2 ×`, and it is rendered as `(3 + 4) × 2`. ÷ must be exact; values on the way may be negative. A *tidy*
    expression has the larger operand first and is at least 1 on the way, as in the game. The target is the value of one
    that is drawn among the tidy ones of all given numbers, so that every prompt has a right answer; it is 1 to
    ``target`` and none of the given numbers. Of the pairs of numbers and a target, a hash holds out one of eight.

    Components: ``exact`` 1 if the value is the target, else 0; ``format`` 1 for an expression of the given numbers;
    ``close`` 1 / (1 + |value − target|) for such a one, else 0. The oracle answers by a right expression, tidy and of
    all numbers, which a hash of the prompt chooses. In ``corpus`` a share ``mistakes`` of the answers are of that kind
    with another value. × is a rare skill there: it solves a share ``times`` of the prompts that it solves at all, and
    the mask is empty for the others of those that nothing else solves.
    Source: the game of "Stream of Search" (arXiv 2404.03683), of which summaries were read; there the search is text.
    """

    numbers: Annotated[int, Ge(2), Le(4)]
    largest: Annotated[int, Ge(2), Le(1000)]
    target: Annotated[int, Ge(2), Le(t.LARGEST_SIZE // 2)]
    cap: t.Size
    mistakes: t.Probability
    times: t.Probability
    prompt_set: t.Size | None

    components = ("exact", "format", "close")
    # Tokens are the numbers themselves, then the four operators, pad, end and separator.
    top = property(lambda self: max(self.largest, self.target))
    pad = property(lambda self: self.top + 5)
    end = property(lambda self: self.top + 6)
    separator = property(lambda self: self.top + 7)
    vocabulary = property(lambda self: self.top + 8)
    prompt_length = property(lambda self: self.numbers + 2)
    longest = property(lambda self: 2 * self.numbers - 1)  # tokens of an expression
    draws = 2  # for the numbers and for the expression

    def __post_init__(self):
        super().__post_init__()
        if self.cap <= self.longest:
            words = f"an expression of {self.numbers} numbers and an end: at least {self.longest + 1}"
            raise ValueError(f"cap={self.cap} leaves no room for {words}")
        sets, each = comb(self.largest + self.numbers - 1, self.numbers), len(expressions(self.numbers))
        if sets * each > MOST_VALUES:
            made = f"numbers={self.numbers} largest={self.largest} make {sets} sets of {each} expressions"
            raise ValueError(f"{made}; at most {MOST_VALUES} in all")
        if not all(len(part.rows) for part in self.games().parts):
            raise ValueError(
                f"target={self.target} leaves nothing to train on or nothing to evaluate; take a larger one"
            )

    def games(self, device: torch.device | str = "cpu") -> Games:
        return games(self.numbers, self.largest, self.target, str(device))

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        known = self.games(uniforms.device)
        part = known.parts[held_out]
        row = part.rows[below(len(part.rows), uniforms[..., 0])]
        chosen = part.order[row, below(part.counts[row], uniforms[..., 1])].long()
        ending = torch.full_like(row, self.separator), known.values[row, chosen].long()
        return torch.cat([known.sets[row], torch.stack(ending, -1)], -1)

    def values(self, prompts: t.Prompts) -> tuple[Tensor, Tensor]:
        """Return the values of all expressions of all numbers, and where they are the target: ``[R, P, E]`` each."""
        known = self.games(prompts.device)
        keys = as_one_number(prompts[..., : self.numbers], self.largest)
        values = known.values[torch.searchsorted(known.keys, keys)]
        return values, values == prompts[..., -1:]

    def write(self, prompts: t.Prompts, which: Tensor, uniforms: Tensor) -> tuple[t.Answers, t.AnswerMask]:
        """Write one of the expressions that are ``which`` ``[R, P, E]``, as numbers in [0, 1) ``[R, P]`` choose.

        The mask is empty where there is none.
        """
        wanted = below(which.sum(-1), uniforms) + 1
        chosen = (which & (which.cumsum(-1) == wanted.unsqueeze(-1))).to(torch.int8).argmax(-1)
        operators = (torch.arange(len(OPERATORS), device=prompts.device) + self.top + 1).expand(*chosen.shape, -1)
        words = torch.cat([prompts[..., : self.numbers], operators], -1)
        expression = words.gather(-1, self.games(prompts.device).expressions[chosen])
        place = torch.arange(self.cap, device=prompts.device)
        mask = (place <= self.longest) & which.any(-1, keepdim=True)
        answers = padded(expression, (0, self.cap - self.longest)).masked_fill(place == self.longest, self.end)
        return answers.where(mask, self.pad), mask

    def hashed(self, prompts: t.Prompts) -> Tensor:
        """Return numbers in [0, 1) that belong to prompts: ``[R, P]``."""
        key = as_one_number(prompts[..., : self.numbers], self.largest) * (self.target + 1) + prompts[..., -1]
        return fractions(splitmix64(splitmix64(key)))  # hashed once, it says what is held out

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer by one of the right expressions of all numbers."""
        return self.write(prompts, self.values(prompts)[1], self.hashed(prompts))

    def wrong_answers(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer by one of the expressions of all numbers that have another value."""
        values, right = self.values(prompts)
        return self.write(prompts, ~right & (values != NO_VALUE), self.hashed(prompts))

    def corpus(self, prompts: t.Prompts, uniforms: t.CorpusDraws) -> tuple[t.Answers, t.AnswerMask]:
        """Answer right or by a mistake, with × or without, as one number in [0, 1) a prompt says."""
        values, right = self.values(prompts)
        mistaken, again = split(uniforms.double(), self.mistakes)
        by_times, last = split(again, self.times)
        with_times = (self.games(prompts.device).expressions == self.numbers + TIMES).any(-1)
        solved = (right & with_times).any(-1)
        shown = right & torch.where((by_times & solved).unsqueeze(-1), with_times, ~with_times)
        which = torch.where(mistaken.unsqueeze(-1), ~right & (values != NO_VALUE), shown)
        return self.write(prompts, which, again.where(mistaken, last))

    def word(self, token: int) -> str:
        """Return a single token as it is read."""
        special = {self.pad: "pad", self.end: "end", self.separator: "→"}
        return OPERATORS[token - self.top - 1] if self.top < token < self.pad else special.get(token, str(token))

    def render(self, tokens: Sequence[int]) -> str:
        """`[3, 4, +, 2, ×, end]` → `"(3 + 4) × 2 end"`; what is no expression stays in its order: `"3 + 4 end"`.

        `[3, 4, 2, →, 14]` → `"3 4 2 → 14"`.
        """
        ended = bool(tokens) and tokens[-1] == self.end
        words = [self.word(token) for token in tokens]
        read = infix(words[: len(words) - ended])
        return " ".join([read, *words[len(words) - ended :]] if read else words)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]``; one that was cut off is no expression."""
        counted = mask & (completions != self.end)
        numbers, asked = prompts[..., None, : self.numbers], prompts[..., None, -1]
        used = ((completions.unsqueeze(-1) == completions.unsqueeze(-2)) & counted.unsqueeze(-2)).sum(-1)
        given = (completions.unsqueeze(-1) == numbers.unsqueeze(-2)).sum(-1)
        fair = (~counted | (completions > self.top) | (used <= given)).all(-1)
        values, formed = evaluate(completions, counted, finished & fair, self.top, self.numbers)
        distance = (values - asked).abs()
        exact = formed & (distance == 0)
        close = (1 / (1 + distance.float())).where(formed, 0.0)
        return Scores({"exact": exact.float(), "format": formed.float(), "close": close}, exact)


def evaluate(
    tokens: Tensor, counted: Tensor, fair: Tensor, top: int, depth: int, tidy: bool = False
) -> tuple[Tensor, Tensor]:
    """Evaluate postfix expressions on a stack, all of them a token at a time.

    Tokens to ``top`` are numbers, the four above it operators; those that are not ``counted`` are passed over.

    Args: tokens and counted ``[..., T]``; fair ``[...]``, False where nothing is to be found; depth, that of the stack.
    Returns: int64 values, 0 where there is none, and whether there is one, ``[...]`` each. There is none if a number
    does not fit on the stack, an operator lacks an operand, ÷ is not exact, or not exactly one number is left; if they
    are to be ``tidy``, also if an operator has the smaller operand first or makes less than 1.
    """
    stack = tokens.new_zeros(*fair.shape, max(depth, 2))  # its top is the first
    height = tokens.new_zeros(fair.shape)
    for token, here in zip(tokens.unbind(-1), counted.unbind(-1), strict=True):
        operator = token - top - 1
        pushed, applied = here & (token >= 0) & (token <= top), here & (operator >= 0) & (operator < len(OPERATORS))
        left, right = stack[..., 1], stack[..., 0]
        divisor = right.where(right != 0, 1)
        exact = (right != 0) & (left % divisor == 0)
        able = applied & (height >= 2) & (exact | (operator != OVER))
        results = torch.stack([left + right, left - right, left * right, left // divisor], -1)
        result = results.gather(-1, operator.clamp(0, OVER).unsqueeze(-1))
        if tidy:
            able &= (left >= right) & (result.squeeze(-1) >= 1)
        fair = fair & (~here | able | (pushed & (height < depth)))
        after_push = torch.cat([token.unsqueeze(-1), stack[..., :-1]], -1)
        after_operator = torch.cat([result, padded(stack[..., 2:], (0, 1))], -1)
        stack = after_push.where(pushed.unsqueeze(-1), after_operator.where(applied.unsqueeze(-1), stack))
        stack = stack.where(fair.unsqueeze(-1), 0)  # so that nothing grows where there is no value
        height = height + pushed.long() - applied.long()
    found = fair & (height == 1)
    return stack[..., 0].where(found, 0), found


def infix(words: Sequence[str]) -> str:
    """Return a postfix expression as it is read, with brackets; nothing if it is none or one word only.

    Two expressions are never read alike: a right operand keeps its brackets unless its operator binds more strongly.
    """
    stack: list[tuple[str, int]] = []
    for word in words:
        bound = PRECEDENCE.get(word, 0 if word in ("pad", "end", "→") else BOUND)
        if bound == BOUND:
            stack.append((word, bound))
        elif bound == 0 or len(stack) < 2:
            return ""
        else:
            right, left = stack.pop(), stack.pop()
            sides = (
                f"({text})" if low else text
                for text, low in ((left[0], left[1] < bound), (right[0], right[1] <= bound))
            )
            stack.append((f" {word} ".join(sides), bound))
    return stack[0][0] if len(stack) == 1 and len(words) > 1 else ""


class Part(NamedTuple):
    """Games for training, or those held out; of a set they are the first ``counts`` expressions of its ``order``."""

    rows: Tensor  # [N]: sets of numbers that have any
    order: Tensor  # [S, E]: places of expressions
    counts: Tensor  # [S]


class Games(NamedTuple):
    """All expressions E of all numbers and their values for each set of numbers, S in all."""

    expressions: Tensor  # [E, T]: places among the numbers, then among the operators, counted on behind them
    sets: Tensor  # [S, numbers]: each with the largest first
    keys: Tensor  # [S]: each as one number, ascending
    values: Tensor  # [S, E]
    parts: tuple[Part, Part]


@cache
def games(numbers: int, largest: int, target: int, device: str) -> Games:
    """Make the tables of all games of these sizes."""
    sets = torch.tensor(list(combinations_with_replacement(range(largest, 0, -1), numbers))).flip(0)
    known, operators = torch.tensor(expressions(numbers)), torch.arange(len(OPERATORS)) + largest + 1
    found = []
    for some in sets.split(max(1, AT_ONCE // len(known))):
        tokens = torch.cat([some, operators.expand(len(some), -1)], -1)[:, known]
        every = torch.ones_like(tokens, dtype=torch.bool)
        values, sound = evaluate(tokens, every, every[..., 0], largest, numbers, tidy=True)
        found.append(values.where(sound, NO_VALUE).int())
    values, keys = torch.cat(found), as_one_number(sets, largest)
    asked = (values >= 1) & (values <= target) & (values.unsqueeze(-1) != sets.unsqueeze(-2)).all(-1)
    held_out = splitmix64(keys.unsqueeze(-1) * (target + 1) + values) % HELD_OUT_EVERY == 0
    parts = []
    for of_part in (asked & ~held_out, asked & held_out):
        order, counts = (~of_part).to(torch.int8).argsort(dim=-1, stable=True).short(), of_part.sum(-1)
        parts.append(Part(*(each.to(device) for each in (counts.nonzero().squeeze(-1), order, counts))))
    tables = (each.to(device) for each in (known, sets, keys, values))
    return Games(*tables, (parts[0], parts[1]))


@cache
def expressions(numbers: int) -> list[tuple[int, ...]]:
    """Return all postfix expressions of the places 0, 1, … of so many numbers; operators are counted on behind them."""

    def of(items: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(items) == 1:
            yield items
        for cut in range(1, len(items)):
            for left, right, operator in product(of(items[:cut]), of(items[cut:]), range(len(OPERATORS))):
                yield (*left, *right, numbers + operator)

    return [each for items in permutations(range(numbers)) for each in of(items)]


def as_one_number(numbers: Tensor, largest: int) -> Tensor:
    """Return one number for each row of numbers of 1 to ``largest``: ``[..., numbers] -> [...]``."""
    return (numbers * (largest + 1) ** torch.arange(numbers.shape[-1] - 1, -1, -1, device=numbers.device)).sum(-1)


def below(count: Tensor | int, uniforms: Tensor) -> Tensor:
    """Return whole numbers from 0 to below ``count`` of numbers in [0, 1); −1 for a count of 0."""
    most = torch.as_tensor(count, device=uniforms.device) - 1
    return torch.minimum((uniforms.double() * count).long(), most)


def split(uniforms: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Say which numbers in [0, 1) are below a share, and return what is left to choose by, again in [0, 1)."""
    first = uniforms < share
    return first, torch.where(first, uniforms / max(share, TINY), (uniforms - share) / max(1 - share, TINY))
