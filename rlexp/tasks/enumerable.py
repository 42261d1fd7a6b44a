"""All strings of a few symbols: a gold reward to evaluate by, and a proxy to train on that sees less of a string."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Annotated, NamedTuple

import numpy as np
import torch
from annotated_types import Ge, Le
from pydantic import FiniteFloat
from torch import Tensor

from rlexp.core import types as t
from rlexp.tasks.scoring import check_weights
from rlexp.tasks.tabular import TabularTask, mask_questions
from rlexp.tasks.task import Scores

COMPONENTS = ("gold", "proxy")
TRIGRAMS = 3
MOST = 4096  # strings, all of which are evaluated at once


class RewardTables(NamedTuple):
    """Log-probabilities of the symbols at the start ``[V]``; gold and proxy of every string ``[V^T]`` in its place."""

    start: Tensor
    gold: Tensor
    proxy: Tensor


@dataclass(frozen=True, kw_only=True)
class Enumerable(TabularTask):
    """One question; answers are all strings of ``cap`` out of ``symbols`` symbols, without an end token.

    A string's ``gold`` is the sum of the weights of its trigrams, drawn from N(0, 1) for each ``world``. Where training
    starts, π₀, symbols are independent, with log-odds from N(0, ``spread``²); gold has mean 0 and standard deviation 1
    there. The ``proxy`` is the best linear fit to gold, in the mean square under π₀, of how often each string of
    ``features`` symbols occurs, scaled to mean 0 and standard deviation 1 as well. With 3 it is gold: nothing can be
    over-optimised. With 1 it knows what symbols are worth as π₀ mixes them, which says little of strings that π₀ hardly
    writes. A string is correct if its gold is at least ``good``. Nothing is held out.

    Components: ``gold``, ``proxy``; train on the proxy, and gold is logged beside it. Source: gold and proxy rewards of
    Gao et al. (arXiv 2210.10760), whose proxies are fitted to samples of comparisons; this one to all of them at once.
    """

    symbols: Annotated[int, Ge(2), Le(t.LARGEST_SIZE)]
    cap: Annotated[int, Ge(TRIGRAMS), Le(t.LARGEST_SIZE)]
    world: t.NonNegativeInt
    spread: t.FiniteNonNegative
    features: Annotated[int, Ge(1), Le(TRIGRAMS)]
    good: FiniteFloat
    weights: dict[str, t.FiniteNonNegative]
    metric: str
    floor: float

    questions, first_question = 1, property(attrgetter("symbols"))

    def __post_init__(self):
        check_weights(self.weights, COMPONENTS)
        made = self.symbols**self.cap
        if made > MOST:
            many = made if made < 10**12 else "too many"
            raise ValueError(f"cap={self.cap} makes {many} strings of {self.symbols} symbols; at most {MOST}")
        best = self.rewards.gold.max().item()
        if self.good > best:
            raise ValueError(f"good={self.good} is more than any string of world={self.world} has; at most {best:.3f}")

    @property
    def rewards(self) -> RewardTables:
        """Start and rewards of this world."""
        return rewards_of(self.symbols, self.cap, self.world, self.spread, self.features)

    @property
    def states(self) -> int:
        """Number of beginnings of a string, the empty one included."""
        return (self.symbols**self.cap - 1) // (self.symbols - 1)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Reward of what is no string, the least of everything, and the largest of a string."""
        parts = [self.weights[name] * getattr(self.rewards, name) for name in COMPONENTS]
        return sum(part.min().item() for part in parts), sum(parts).max().item()

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer with the string of most gold: ``[R, P, 1]`` to tokens and mask ``[R, P, T]``."""
        best = self.every_completion(prompts.device)[self.rewards.gold.argmax()]
        answers = best.expand(*prompts.shape[:2], -1)
        return answers, torch.ones_like(answers, dtype=torch.bool)

    def render(self, tokens: Sequence[int]) -> str:
        """`[4]` → `"?"` with four symbols, `[0, 2, 1]` → `"a c b"`."""
        return " ".join("?" if token == self.symbols else chr(ord("a") + token) for token in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Look strings ``[R, P, G, T]`` up; one that has the question in it gets the least of everything."""
        places = self.symbols ** torch.arange(self.cap - 1, -1, -1, device=completions.device)
        legal, number = (completions < self.symbols).all(-1), (completions * places).sum(-1)
        number = number.clamp(max=self.symbols**self.cap - 1)
        tables = {name: getattr(self.rewards, name).to(completions.device) for name in COMPONENTS}
        components = {name: table[number].where(legal, table.min()) for name, table in tables.items()}
        return Scores(components, (components["gold"] >= self.good) & legal)

    def next_states(self, states: t.States, tokens: t.NextTokens) -> t.States:
        """From a beginning to the one that is a symbol longer."""
        longer = states * self.symbols + tokens.clamp(max=self.symbols - 1) + 1
        return longer.clamp(max=self.states - 1)

    def start_logits(self) -> t.TableLogits:
        """Log-probabilities of the symbols, whatever was written before."""
        logits = torch.nn.functional.pad(self.rewards.start, (0, self.questions))
        return mask_questions(logits.expand(self.questions, self.states, -1), self.symbols)

    def every_completion(self, device: torch.device) -> t.AllCompletions:
        """All strings, ``[symbols^cap, cap]``, in the order of the numbers that they are."""
        return strings(self.symbols, self.cap).to(device)


@cache
def strings(symbols: int, length: int) -> Tensor:
    """All strings of so many symbols, ``[symbols^length, length]``."""
    return torch.from_numpy(np.indices((symbols,) * length).reshape(length, -1).T.copy())


@cache
def rewards_of(symbols: int, length: int, world: int, spread: float, features: int) -> RewardTables:
    """Draw a world. Rounded, so that no library's last bits are in the rewards of a run."""
    random = np.random.default_rng(world)
    worth, odds = random.standard_normal(symbols**TRIGRAMS), spread * random.standard_normal(symbols)
    start = odds - np.log(np.exp(odds).sum())
    chances = np.exp(start[strings(symbols, length).numpy()].sum(-1))
    gold = standardized(counts(symbols, length, TRIGRAMS) @ worth, chances)
    seen, root = counts(symbols, length, features), np.sqrt(chances)
    fit = np.linalg.lstsq(seen * root[:, None], gold * root, rcond=None)[0]
    proxy = gold if features == TRIGRAMS else standardized(seen @ fit, chances)
    return RewardTables(*(torch.from_numpy(np.round(each, 5).astype(np.float32)) for each in (start, gold, proxy)))


def counts(symbols: int, length: int, features: int) -> np.ndarray:
    """How often each string of ``features`` symbols is in each string: ``[symbols^length, symbols^features]``."""
    windows = np.lib.stride_tricks.sliding_window_view(strings(symbols, length).numpy(), features, axis=1)
    numbers = windows @ symbols ** np.arange(features)
    return (numbers[:, :, None] == np.arange(symbols**features)).sum(1)


def standardized(values: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Mean 0 and standard deviation 1 where ``chances`` are the probabilities."""
    centered = values - chances @ values
    return centered / np.sqrt(chances @ centered**2)
