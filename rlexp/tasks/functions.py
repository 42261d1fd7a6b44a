"""String functions, alone and composed: whether practice on compositions teaches compositions that never came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from rlexp.core.types import (
    AnswerMask,
    Answers,
    CompletionMask,
    Completions,
    NonNegative,
    PromptDraws,
    Prompts,
    TokenMask,
)
from rlexp.tasks.scoring import check_weights
from rlexp.tasks.task import Scores

COMPONENTS = ("atom", "composed")
NAMES = ("reverse", "rotate", "swap", "twice", "next", "mirror")


@dataclass(frozen=True, kw_only=True)
class Functions:
    """Prompt: one function or two, a string of ``cap`` symbols, a separator. Completion: what they make of it.

    ``reverse``; ``rotate`` by one to the left; ``swap`` first and last; ``twice`` the first half; each symbol's
    ``next`` one, and its ``mirror`` image in the alphabet. Of two, the right one is applied first. A share ``atoms`` of
    the prompts has one function. Held out are strings whose symbols sum to a multiple of the alphabet, and of the 36
    compositions six, in which each function is once the first and once the second: evaluation asks these, and functions
    alone, of these strings. Accuracy above ``atoms`` is therefore of compositions that were never trained on. There is
    no end token.

    Components: ``atom`` and ``composed``, 1 for the right string, else 0, NaN on prompts of the other kind. The oracle
    answers prompts of at most ``shown`` functions and has an empty mask for the others, so that ``start=sft`` teaches
    functions alone (1), or everything (2). Source: the setting of "From f(x) and g(x) to f(g(x))" (arXiv 2509.25123),
    of which the abstract and summaries were read: functions, names and stages here are not its own.
    """

    alphabet: Annotated[int, Ge(2)]
    cap: Annotated[int, Ge(2)]
    atoms: Annotated[float, Gt(0), Lt(1)]
    shown: Annotated[int, Ge(1), Le(2)]
    weights: dict[str, NonNegative]
    metric: str
    floor: float

    end = -1

    def __post_init__(self):
        check_weights(self.weights, COMPONENTS)

    @property
    def pad(self) -> int:
        """Token in the place of the second function where there is one only."""
        return self.alphabet + len(NAMES)

    @property
    def vocabulary(self) -> int:
        """Number of tokens: symbols, functions, pad, separator."""
        return self.alphabet + len(NAMES) + 2

    @property
    def prompt_length(self) -> int:
        """Width of a prompt: two functions, a string, a separator."""
        return self.cap + 3

    @property
    def draws(self) -> int:
        """Random numbers that one prompt takes: how many functions, which, the class of its string, its symbols."""
        return self.cap + 3

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward that a completion can have: a prompt has one component."""
        return 0.0, max(self.weights.values())

    def prompts(self, uniforms: PromptDraws, held_out: bool) -> Prompts:
        """Numbers in [0, 1) to prompts: ``[R, P, draws] -> [R, P, L]``."""
        kind, second, first, residue = uniforms[..., :4].unbind(-1)
        count = len(NAMES)
        inner = (first * count).long()
        # held out is the function after the inner one; in training the outer one is any of the others
        apart = torch.zeros_like(inner) if held_out else 1 + (second * (count - 1)).long()
        outer = (inner + 1 + apart) % count
        outer = torch.where(kind < self.atoms, self.pad, self.alphabet + outer)
        symbols = (uniforms[..., 4:] * self.alphabet).long()
        rest = torch.zeros_like(inner) if held_out else 1 + (residue * (self.alphabet - 1)).long()
        last = (rest - symbols.sum(-1)) % self.alphabet
        separator = torch.full_like(last, self.pad + 1)
        left, right = (torch.stack(each, -1) for each in ((outer, self.alphabet + inner), (last, separator)))
        return torch.cat([left, symbols, right], -1)

    def apply(self, functions: Tensor, strings: Tensor) -> Tensor:
        """Apply a function to each string, or none where ``functions`` is pad: ``[R, P], [R, P, T] -> [R, P, T]``."""
        place = torch.arange(self.cap, device=strings.device)
        exchanged = place.where((place > 0) & (place < self.cap - 1), self.cap - 1 - place)
        half = place % ((self.cap + 1) // 2)
        places = torch.stack([place.flip(0), (place + 1) % self.cap, exchanged, half, place, place, place])
        shift, sign = torch.zeros(2, len(NAMES) + 1, dtype=torch.long, device=strings.device)
        shift[NAMES.index("next")], shift[NAMES.index("mirror")] = 1, -1
        sign += 1
        sign[NAMES.index("mirror")] = -1
        chosen = functions - self.alphabet
        moved = strings.gather(-1, places[chosen])
        return (sign[chosen].unsqueeze(-1) * moved + shift[chosen].unsqueeze(-1)) % self.alphabet

    def targets(self, prompts: Prompts) -> Tensor:
        """Return what the functions make of the strings, ``[R, P, L] -> [R, P, T]``."""
        return self.apply(prompts[..., 0], self.apply(prompts[..., 1], prompts[..., 2:-1]))

    def oracle(self, prompts: Prompts) -> tuple[Answers, AnswerMask]:
        """Answer right, ``[R, P, L]`` to tokens and mask ``[R, P, T]``; the mask is empty where it is not shown."""
        answers, shown = self.targets(prompts), (prompts[..., :1] == self.pad) | (self.shown > 1)
        return answers, shown.expand(answers.shape)

    def render(self, tokens: Sequence[int]) -> str:
        """`[8, 4, 0, 2, 11]` → `"rotate∘… a c →"` of four symbols: functions by name, symbols as letters."""
        words = [*(chr(ord("a") + symbol) for symbol in range(self.alphabet)), *NAMES, "", "→"]
        return " ".join(words[token] for token in tokens if words[token])

    def score(self, prompts: Prompts, completions: Completions, mask: TokenMask, finished: CompletionMask) -> Scores:
        """Judge completions ``[R, P, G, T]``."""
        correct = (completions == self.targets(prompts).unsqueeze(2)).all(-1)
        alone, reward = prompts[..., :1] == self.pad, correct.float()
        nan = float("nan")
        return Scores({"atom": reward.where(alone, nan), "composed": reward.where(~alone, nan)}, correct)
