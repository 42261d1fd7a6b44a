"""Puzzles with a thought before the answer, or several answers: functions of strings, parities, progressions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from operator import attrgetter
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from rlexp.core import types as t
from rlexp.core.streams import splitmix64
from rlexp.tasks.task import BaseTask, Scores, task

NAMES = ("reverse", "rotate", "swap", "twice", "next", "mirror")  # of functions
SAME = len(NAMES)  # the function that changes nothing
FIRST_DRAWS = 4  # numbers that are no symbols: which prompt, two functions, the class of the string

CELLS = 2**24  # hashes are compared with shares in so many steps
PARITY_EVERY = 8  # one prompt of so many is held out
LOOKED_AT = 256  # numbers from a drawn one on, of which the first of the wanted part is taken

LENGTH = 3  # of a progression
PROGRESSIONS_EVERY = 4


@task
class Functions(BaseTask):
    """Prompt: two functions, a string of ``cap`` / 2 symbols, a separator. Completion: a thought and an answer.

    ``reverse``; ``rotate`` by one to the left; ``swap`` first and last; ``twice`` the first half; each symbol's
    ``next`` one, and its ``mirror`` image in the alphabet. The right function is applied first, and ``same`` changes
    nothing: it is one of the two in a share ``atoms`` of the prompts. Held out are strings whose symbols sum to a
    multiple of the alphabet, and of the 36 compositions six, in which each function is once the first and once the
    second: evaluation asks these, and functions alone, of these strings. Accuracy above ``atoms`` is therefore of
    compositions that were never trained on. Only the second half of a completion is judged; there is no end token.

    Components: ``atom`` and ``composed``, 1 for the right answer, else 0, NaN on prompts of the other kind; ``steps``,
    1 where the first half is what the first function makes. The oracle writes that. It shows answers to prompts of at
    most ``shown`` functions, its mask being empty for others: ``start=sft`` learns functions alone (1) or all (2).
    Source: the setting of "From f(x) and g(x) to f(g(x))" (arXiv 2509.25123), of which the abstract and summaries were
    read: functions, names and stages here are not its own, and there the thought is free text.
    """

    alphabet: Annotated[int, Ge(2), Le(t.LARGEST_SIZE)]
    cap: Annotated[int, Ge(4), Le(t.LARGEST_SIZE)]
    atoms: Annotated[float, Gt(0), Lt(1)]
    shown: Annotated[int, Ge(1), Le(2)]

    components = ("atom", "composed", "steps")
    length = property(lambda self: self.cap // 2)  # of a string
    vocabulary = property(lambda self: self.alphabet + len(NAMES) + 2)  # symbols, functions, ``same``, separator
    prompt_length = property(lambda self: self.length + 3)
    draws = property(lambda self: FIRST_DRAWS + self.length - 1)  # the last symbol is made by the class of the string

    def __post_init__(self):
        super().__post_init__()
        if self.cap % 2:
            raise ValueError(f"cap={self.cap} must be even: a string for thought and one for the answer")

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward that a completion can have: a prompt has one of atom and composed."""
        return 0.0, max(self.weights["atom"], self.weights["composed"]) + self.weights["steps"]

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        kind, second, first, residue = uniforms[..., :FIRST_DRAWS].unbind(-1)
        count = len(NAMES)
        inner = (first * count).long()
        # held out is the function after the inner one; in training the outer one is any of the others
        apart = torch.zeros_like(inner) if held_out else 1 + (second * (count - 1)).long()
        outer = ((inner + 1 + apart) % count).masked_fill(kind < self.atoms / 2, SAME)
        inner = inner.masked_fill((kind >= self.atoms / 2) & (kind < self.atoms), SAME)
        symbols = (uniforms[..., FIRST_DRAWS:] * self.alphabet).long()
        rest = torch.zeros_like(inner) if held_out else 1 + (residue * (self.alphabet - 1)).long()
        last = (rest - symbols.sum(-1)) % self.alphabet
        separator = torch.full_like(last, self.vocabulary - 1)
        functions, ending = (torch.stack(each, -1) for each in ((outer, inner), (last, separator)))
        return torch.cat([self.alphabet + functions, symbols, ending], -1)

    def apply(self, functions: Tensor, strings: Tensor) -> Tensor:
        """Apply a function, a token, to each string: ``[R, P], [R, P, length] -> [R, P, length]``."""
        place, last = torch.arange(self.length, device=strings.device), self.length - 1
        exchanged = torch.where((place == 0) | (place == last), last - place, place)
        half = place % ((self.length + 1) // 2)
        places = torch.stack([place.flip(0), (place + 1) % self.length, exchanged, half, place, place, place])
        chosen = functions - self.alphabet
        moved = strings.gather(-1, places[chosen])
        number = chosen.unsqueeze(-1)
        moved = torch.where(number == NAMES.index("next"), (moved + 1) % self.alphabet, moved)
        return torch.where(number == NAMES.index("mirror"), self.alphabet - 1 - moved, moved)

    def targets(self, prompts: t.Prompts) -> tuple[Tensor, Tensor]:
        """Return what the first function makes of the strings, and the second of that: ``[R, P, length]`` each."""
        thought = self.apply(prompts[..., 1], prompts[..., 2:-1])
        return thought, self.apply(prompts[..., 0], thought)

    def alone(self, prompts: t.Prompts) -> Tensor:
        """Whether prompts have one function, ``[R, P, 1]``."""
        return (prompts[..., :2] == self.alphabet + SAME).any(-1, keepdim=True)

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Think and answer; the mask is empty where that is not shown."""
        answers = torch.cat(self.targets(prompts), -1)
        return answers, (self.alone(prompts) | (self.shown > 1)).expand(answers.shape)

    def render(self, tokens: Sequence[int]) -> str:
        """`[5, 4, 0, 2, 11]` → `"rotate reverse a c →"` with four symbols: functions by name, symbols as letters."""
        words = [*(chr(ord("a") + symbol) for symbol in range(self.alphabet)), *NAMES, "same", "→"]
        return " ".join(words[token] for token in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]`` by their second half."""
        thought, answer = (each.unsqueeze(2) for each in self.targets(prompts))
        correct = (completions[..., self.length :] == answer).all(-1)
        alone, reward, nan = self.alone(prompts), correct.float(), float("nan")
        steps = (completions[..., : self.length] == thought).all(-1).float()
        parts = {"atom": reward.where(alone, nan), "composed": reward.where(~alone, nan), "steps": steps}
        return Scores(parts, correct)


@task
class Parity(BaseTask):
    """Prompt: ``bits`` bits and a separator. Completion: any bits and an end token; the last bit is the answer.

    A short answer is the parity alone. A long one is the parity of the first bit, of the first two, … of all: a chain
    of thought, each bit of which needs two others only. The oracle, from which ``start=sft`` learns, writes the chain
    for a share ``chains`` of the prompts and the short answer for the others; which ones is a hash of the prompt, so
    that nothing tells in advance. One prompt of eight is held out, by another part of the hash.

    Components: ``right`` 1 for the right last bit and an end token, else 0; ``chain`` 1 for the whole chain and nothing
    else. Source: the setting of "How Reinforcement Learning After Next-Token Prediction Facilitates Learning" (arXiv
    2510.11495): long demonstrations are rare, imitation does not learn parity by short ones, and reinforcement makes
    answers longer and right. Of that paper the abstract and summaries were read: sizes and shares here are not its own.
    """

    bits: Annotated[int, Ge(6), Le(40)]
    chains: t.Probability
    cap: t.Size

    components = ("right", "chain")
    words = ("0", "1", "pad", "end", "→")
    pad, end, separator, vocabulary = range(2, 6)
    prompt_length = property(lambda self: self.bits + 1)
    draws = property(attrgetter("bits"))

    def __post_init__(self):
        super().__post_init__()
        if self.cap <= self.bits:
            raise ValueError(
                f"cap={self.cap} leaves no room for a chain of {self.bits} bits and an end: at least {self.bits + 1}"
            )

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Draw prompts. The bits drawn are a number; the first one from there on that is (or is not) held out."""
        places = 2 ** torch.arange(self.bits, device=uniforms.device)
        drawn = ((uniforms >= 0.5) * places).sum(-1, keepdim=True)
        near = (drawn + torch.arange(LOOKED_AT, device=uniforms.device)) % 2**self.bits
        wanted = (splitmix64(near) % PARITY_EVERY == 0) == held_out
        number = near.gather(-1, wanted.to(torch.int8).argmax(-1, keepdim=True))
        bits = number // places % 2
        return torch.cat([bits, torch.full_like(number, self.separator)], -1)

    def has_chain(self, prompts: t.Prompts) -> Tensor:
        """Whether the oracle answers with a chain, ``[R, P, L] -> [R, P, 1]``."""
        places = 2 ** torch.arange(self.bits, device=prompts.device)
        number = (prompts[..., : self.bits] * places).sum(-1, keepdim=True)
        return (splitmix64(number) >> 40 & CELLS - 1) < self.chains * CELLS

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer right, by a chain or at once."""
        chain, long = prompts[..., : self.bits].cumsum(-1) % 2, self.has_chain(prompts)
        bits, length = torch.where(long, chain, chain[..., -1:]), torch.where(long, self.bits, 1)
        place = torch.arange(self.cap, device=prompts.device)
        answers = torch.nn.functional.pad(bits, (0, self.cap - self.bits), value=self.pad)
        return answers.where(place < length, self.pad).masked_fill(place == length, self.end), place <= length

    def render(self, tokens: Sequence[int]) -> str:
        """`[1, 0, 4]` → `"1 0 →"`."""
        return " ".join(self.words[token] for token in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]``; a completion that was cut off is wrong."""
        chain = prompts[:, :, None, : self.bits].cumsum(-1) % 2
        length = mask.sum(-1, keepdim=True)
        last = completions.gather(-1, (length - 2).clamp(min=0)).squeeze(-1)
        right = finished & (last == chain[..., -1]) & (length.squeeze(-1) > 1)
        whole = (completions[..., : self.bits] == chain).all(-1) & (length.squeeze(-1) == self.bits + 1) & finished
        return Scores({"right": right.float(), "chain": whole.float()}, right)


@task
class MultiSolution(BaseTask):
    """Prompt: ``items`` different numbers below ``numbers``, ascending. Completion: three of them, evenly spaced.

    Upwards or downwards, so that each progression is two answers; a prompt has at least ``solutions`` progressions. Of
    all such sets every fourth, in the order of their numbers, is only evaluated. There is no end token.

    Components: ``valid`` 1 for a right answer, else 0; ``first`` among right answers 1 for the smallest one, else 0,
    NaN for wrong ones: its mean says how much of what is right is one answer. The oracle always gives the smallest, so
    that ``start=sft`` is a start that prefers it; coverage is then seen in pass@k.
    """

    numbers: Annotated[int, Ge(LENGTH), Le(16)]
    items: Annotated[int, Ge(LENGTH), Le(t.LARGEST_SIZE)]
    solutions: t.Size
    weights: dict[str, t.FiniteNonNegative]
    cap: Literal[3]

    components = ("valid", "first")
    vocabulary, prompt_length = property(attrgetter("numbers")), property(attrgetter("items"))
    reward_range = property(lambda self: (0.0, self.weights["valid"]))

    def __post_init__(self):
        super().__post_init__()
        if self.weights["first"]:
            raise ValueError(
                "weights.first must be 0: it does not apply to wrong answers, which would earn nothing less"
            )
        if self.items > self.numbers:
            raise ValueError(f"items={self.items} must not exceed numbers={self.numbers}")
        training, held_out = number_sets(self.numbers, self.items, self.solutions)
        if not (len(training) and len(held_out)):
            found = f"solutions={self.solutions} leaves {len(training) + len(held_out)} prompts"
            raise ValueError(f"{found}; at least {PROGRESSIONS_EVERY} are needed")

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        prompts = number_sets(self.numbers, self.items, self.solutions)[held_out].to(uniforms.device)
        return prompts[(uniforms[..., 0] * len(prompts)).long().clamp(max=len(prompts) - 1)]

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer with the smallest progression, ascending."""
        triples = torch.tensor(list(combinations(range(self.items), LENGTH)), device=prompts.device)
        found = prompts[..., triples]
        first = evenly_spaced(found).to(torch.int8).argmax(-1)
        answers = found.gather(-2, first[..., None, None].expand(*first.shape, 1, LENGTH)).squeeze(-2)
        return answers, torch.ones_like(answers, dtype=torch.bool)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        among = (completions.unsqueeze(-1) == prompts[:, :, None, None]).any(-1).all(-1)
        valid = among & evenly_spaced(completions)
        first = (completions == self.oracle(prompts)[0].unsqueeze(2)).all(-1)
        return Scores({"valid": valid.float(), "first": first.float().where(valid, float("nan"))}, valid)


def evenly_spaced(triples: Tensor) -> Tensor:
    """Whether three numbers are evenly spaced and not equal, ``[..., 3] -> [...]``."""
    step = triples[..., 1] - triples[..., 0]
    return (triples[..., 2] - triples[..., 1] == step) & (step != 0)


@cache
def number_sets(numbers: int, items: int, solutions: int) -> tuple[Tensor, Tensor]:
    """All ascending sets with enough progressions, ``[N, items]`` each: those of training, those that are held out."""
    every = torch.tensor(list(combinations(range(numbers), items)))
    progressions = evenly_spaced(every[:, torch.tensor(list(combinations(range(items), LENGTH)))]).sum(-1)
    enough = every[progressions >= solutions]
    held_out = torch.arange(len(enough)) % PROGRESSIONS_EVERY == 0
    return enough[~held_out], enough[held_out]
