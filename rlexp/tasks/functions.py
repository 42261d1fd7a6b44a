"""String functions, alone and composed: whether practice on compositions teaches compositions that never came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from rlexp.core import types as t
from rlexp.tasks.scoring import check_weights
from rlexp.tasks.task import BaseTask, Scores

COMPONENTS = ("atom", "composed", "steps")
NAMES = ("reverse", "rotate", "swap", "twice", "next", "mirror")
SAME = len(NAMES)  # the function that changes nothing
FIRST_DRAWS = 4  # numbers that are no symbols: which prompt, two functions, the class of the string


@dataclass(frozen=True, kw_only=True)
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
    weights: dict[str, t.FiniteNonNegative]
    metric: str
    floor: float

    def __post_init__(self):
        check_weights(self.weights, COMPONENTS)
        if self.cap % 2:
            raise ValueError(f"cap={self.cap} must be even: a string for thought and one for the answer")

    @property
    def length(self) -> int:
        """Symbols of a string."""
        return self.cap // 2

    @property
    def vocabulary(self) -> int:
        """Number of tokens: symbols, functions, ``same``, separator."""
        return self.alphabet + len(NAMES) + 2

    @property
    def prompt_length(self) -> int:
        """Width of a prompt."""
        return self.length + 3

    @property
    def draws(self) -> int:
        """Random numbers that one prompt takes; the last symbol is made by the class of the string."""
        return FIRST_DRAWS + self.length - 1

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward that a completion can have: a prompt has one of atom and composed."""
        return 0.0, max(self.weights["atom"], self.weights["composed"]) + self.weights["steps"]

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Numbers in [0, 1) to prompts: ``[R, P, draws] -> [R, P, L]``."""
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
        """Think and answer, ``[R, P, L]`` to tokens and mask ``[R, P, T]``; the mask is empty where it is not shown."""
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
        return Scores(
            {"atom": reward.where(alone, nan), "composed": reward.where(~alone, nan), "steps": steps}, correct
        )
