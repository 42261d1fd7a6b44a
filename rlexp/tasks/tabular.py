"""Tabular tasks: so small that a table can be the policy and every completion can be listed.

``model=tabular`` takes its rows, its states and where it starts from here; evaluation lists the completions and says
what the policy is worth without sampling (``loop/evaluation.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from typing import Annotated, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from annotated_types import Ge, Gt, Le, Lt
from pydantic import FiniteFloat
from torch import Tensor

from rlexp.core import types as t
from rlexp.tasks.task import BaseTask, Scores, task

MASKED_LOGIT = -1e9  # logit of a token that may not be written: its probability is exactly 0, and nothing of it is NaN
MOST_NUMBERS, MOST_ANSWERS, MOST_STRINGS = 2**24, 16, 4096  # all strings are evaluated at once
APART = 5  # where the right actions of a bandit's question begin, next to those of the question before it
TRIGRAMS = 3
Probability = Annotated[float, Gt(0), Lt(1)]


@runtime_checkable
class TabularTask(Protocol):
    """What a task says beside ``Task`` to be tabular; as a base class, a task whose answers are single tokens.

    Each of its ``questions`` is a prompt of one token: ``first_question`` and those after it, which no completion has.
    A completion goes through ``states``, of which 0 is the first. Nothing is held out: a table learns nothing of one
    question from another.
    """

    questions: int
    first_question: int
    states = 1

    pad = end = -1
    prompt_length = draws = 1

    @property
    def vocabulary(self) -> int:
        """Number of tokens: those of answers, then the questions."""
        return self.first_question + self.questions

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Draw questions for training, ask all in turn for evaluation: ``[R, P, 1] -> [R, P, 1]``."""
        if not held_out:
            return self.first_question + (uniforms * self.questions).long()
        replicas, count, _ = uniforms.shape
        turn = torch.arange(count, device=uniforms.device) % self.questions
        return self.first_question + turn.view(1, -1, 1).expand(replicas, -1, -1)

    def next_states(self, states: t.States, tokens: t.NextTokens) -> t.States:
        """Return where one more token leads; whatever the token, it is one of ``states``."""
        return states

    def start_logits(self) -> t.TableLogits:
        """Return the logits before training, ``[questions, states, vocabulary]``.

        What is no answer has ``MASKED_LOGIT``. All answers are alike; ``model.std`` tells them apart.
        """
        logits = torch.zeros(self.questions, self.states, self.vocabulary)
        logits[..., self.first_question :] = MASKED_LOGIT
        return logits

    def learned(self) -> t.LearnedLogits:
        """Return which of them are learned, ``[states, vocabulary]``; the others stay as they are."""
        return (torch.arange(self.vocabulary) < self.first_question).expand(self.states, -1)

    def every_completion(self, device: torch.device) -> t.AllCompletions:
        """Return all completions that are not masked, ``[N, T]``, padded behind their end."""
        return torch.arange(self.first_question, device=device).unsqueeze(-1)


def question_numbers(prompts: t.Prompts, first: int, questions: int) -> Tensor:
    """Return which question each prompt is, ``[R, P, L] -> [R, P, 1]``."""
    return (prompts[..., -1:] - first).clamp(0, questions - 1)


@task
class Bandit(TabularTask, BaseTask):
    """Questions of one token, answers of one of ``actions`` tokens, each of which stands for a whole completion.

    The first ``easy`` questions have ``easy_right`` right actions, the ``hard`` ones after them ``hard_right``, the
    ``impossible`` ones none. Those of question q are the actions from 5q on, modulo ``actions``. Components ``easy``,
    ``hard``, ``impossible``: 1 for a right action of such a question, else 0, NaN on the others. Whatever noise a table
    starts with, a question begins with right actions / ``actions`` on average over seeds, 1/64 for a hard one.
    Nothing is held out: a table learns nothing of one question from another.
    """

    actions: t.Size
    easy: t.Count
    hard: t.Count
    impossible: t.Count
    easy_right: t.Size
    hard_right: t.Size
    weights: dict[str, t.FiniteNonNegative]
    cap: Literal[1]

    components = ("easy", "hard", "impossible")
    first_question = property(attrgetter("actions"))
    questions = property(lambda self: self.easy + self.hard + self.impossible)
    reward_range = property(lambda self: (0.0, max(self.weights.values())))  # a question has one component

    def __post_init__(self):
        if not self.questions:
            raise ValueError("easy=0 hard=0 impossible=0 leave no question")
        for name in ("easy_right", "hard_right"):
            if getattr(self, name) > self.actions:
                raise ValueError(f"{name}={getattr(self, name)} must not exceed actions={self.actions}")
        if self.questions * self.vocabulary > MOST_NUMBERS:
            size = f"{self.questions} questions of {self.actions} actions"
            raise ValueError(f"actions={self.actions} makes {size}; at most {MOST_NUMBERS} numbers in a table")
        super().__post_init__()

    def right(self, prompts: t.Prompts) -> tuple[Tensor, Tensor]:
        """Return the first right action of each question and how many there are, ``[R, P, 1]`` each."""
        question = question_numbers(prompts, self.first_question, self.questions)
        counts = [self.easy_right] * self.easy + [self.hard_right] * self.hard + [0] * self.impossible
        return APART * question % self.actions, torch.tensor(counts, device=prompts.device)[question]

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Return the first right action, and an empty mask where there is none."""
        first, count = self.right(prompts)
        return first, count > 0

    def render(self, tokens: Sequence[int]) -> str:
        """`[66]` → `"question 2"` with 64 actions, `[3]` → `"action 3"`."""
        first = self.first_question
        return " ".join(f"action {token}" if token < first else f"question {token - first}" for token in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        action, (first, count) = completions.squeeze(-1), self.right(prompts)
        correct = ((action - first) % self.actions < count) & (action < self.actions)
        question = question_numbers(prompts, self.first_question, self.questions)
        kind = (question >= self.easy).long() + (question >= self.easy + self.hard)
        reward = correct.float()
        parts = {name: reward.where(kind == k, float("nan")) for k, name in enumerate(self.components)}
        return Scores(parts, correct)


@task
class Categorical(TabularTask, BaseTask):
    """Answers are tokens, and ``rewards`` has the reward of each; correct is one of the largest.

    The bed on which formulas are tried: with ``model=tabular`` the policy is a softmax of as many logits, and what an
    update does on average is a sum over answers (``tests/tasks/test_categorical.py``). Component ``worth``: the reward.
    Nothing is held out.
    """

    rewards: list[FiniteFloat]
    weights: dict[str, t.FiniteNonNegative]
    cap: Literal[1]

    components = ("worth",)
    questions = 1
    first_question = property(lambda self: len(self.rewards))

    def __post_init__(self):
        if not 2 <= len(self.rewards) <= MOST_ANSWERS:
            raise ValueError(
                f"rewards must be 2 to {MOST_ANSWERS} numbers, one for each answer, and are {len(self.rewards)}"
            )
        super().__post_init__()

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.weights["worth"] * min(self.rewards), self.weights["worth"] * max(self.rewards)

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Give the first of the best answers."""
        answers = torch.full_like(prompts, self.rewards.index(max(self.rewards)))
        return answers, torch.ones_like(answers, dtype=torch.bool)

    def render(self, tokens: Sequence[int]) -> str:
        """`[3]` → `"?"` with three answers, `[1]` → `"answer 1"`."""
        return " ".join("?" if token == self.first_question else f"answer {token}" for token in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Look answers ``[R, P, G, 1]`` up; the question is no answer and gets the least."""
        rewards = torch.tensor([*self.rewards, min(self.rewards)], device=completions.device)
        worth, answer = rewards[completions.squeeze(-1)], completions.squeeze(-1)
        return Scores({"worth": worth}, (worth == rewards.max()) & (answer < self.first_question))


@task
class LengthWorld(TabularTask, BaseTask):
    """Completion: ``right`` or ``wrong``, any number of fillers, the end token; at most ``cap`` tokens.

    With ``model=tabular`` each question says ``right`` with its own probability of ``right``, which is fixed unless
    ``learn_answer``. Then every token ends the answer with a probability that begins at ``hazard``, for wrong answers
    at ``hazard_wrong``, and is learned, one for right and one for wrong answers of each question; without a cap the
    mean length is 1 + 1/hazard. With ``model.std=0`` all begin there exactly. Others learn the first token too.

    Components: ``right`` 1 for an answer that begins with the right token, whether it ends or not: no reward depends on
    length. ``exact`` wants the end too: to be cut off costs what the answer was worth. Correct is what begins right.
    Nothing is held out. Source: the mechanism of Dr. GRPO (arXiv 2503.20783, section 3): losses averaged over a
    completion's own length push long wrong answers less, and short right ones more.
    """

    cap: Annotated[int, Ge(2), Le(t.LARGEST_SIZE)]
    right: list[Probability]
    hazard: Probability
    hazard_wrong: Probability | None  # None: as hazard
    learn_answer: bool

    components = ("right", "exact")
    words = ("right", "wrong", "·", "end", "pad")
    RIGHT, WRONG, FILLER, end, pad, first_question = range(6)  # tokens
    START, AFTER_RIGHT, AFTER_WRONG = range(3)
    states = 3
    questions = property(lambda self: len(self.right))

    def __post_init__(self):
        if not self.right:
            raise ValueError("right=[] leaves no question: a probability for each")
        super().__post_init__()

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer right and end at once."""
        answers = torch.full((*prompts.shape[:2], self.cap), self.pad, device=prompts.device)
        answers[..., 0], answers[..., 1] = self.RIGHT, self.end
        return answers, answers != self.pad

    def render(self, tokens: Sequence[int]) -> str:
        """`[5]` → `"question 0"`, `[0, 2, 2, 3]` → `"right · · end"`."""
        first = self.first_question
        return " ".join(self.words[token] if token < first else f"question {token - first}" for token in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]`` by their first token; those after it do not matter."""
        right = completions[..., 0] == self.RIGHT
        return Scores({"right": right.float(), "exact": (right & finished).float()}, right)

    def next_states(self, states: t.States, tokens: t.NextTokens) -> t.States:
        """From the first state into that of right or wrong answers, where every completion stays."""
        first = torch.where(tokens == self.RIGHT, self.AFTER_RIGHT, self.AFTER_WRONG)
        return torch.where(states == self.START, first, states)

    def start_logits(self) -> t.TableLogits:
        """Log-odds of the first token and of ending; everything else is masked."""
        table = torch.full((self.questions, self.states, self.vocabulary), MASKED_LOGIT)
        for question, probability in enumerate(self.right):
            table[question, self.START, self.RIGHT] = math.log(probability)
            table[question, self.START, self.WRONG] = math.log1p(-probability)
        table[:, self.AFTER_RIGHT :, self.FILLER] = 0.0
        of_wrong = self.hazard if self.hazard_wrong is None else self.hazard_wrong
        for state, hazard in ((self.AFTER_RIGHT, self.hazard), (self.AFTER_WRONG, of_wrong)):
            table[:, state, self.end] = math.log(hazard) - math.log1p(-hazard)
        return table

    def learned(self) -> t.LearnedLogits:
        """The logit of ending, and with ``learn_answer`` that of the right first token."""
        learned = torch.zeros(self.states, self.vocabulary, dtype=torch.bool)
        learned[self.START, self.RIGHT] = self.learn_answer
        learned[self.AFTER_RIGHT :, self.end] = True
        return learned

    def every_completion(self, device: torch.device) -> t.AllCompletions:
        """Right and wrong answers of 2 to ``cap`` tokens, and those that were cut off: ``[2 · cap, cap]``."""
        place = torch.arange(self.cap, device=device)
        ends = torch.arange(1, self.cap + 1, device=device).unsqueeze(-1)
        rest = torch.where(place < ends, self.FILLER, self.pad).where(place != ends, self.end)
        return torch.cat([rest.where(place > 0, first) for first in (self.RIGHT, self.WRONG)])


class RewardTables(NamedTuple):
    """Log-probabilities of the symbols at the start ``[V]``; gold and proxy of every string ``[V^T]`` in its place."""

    start: Tensor
    gold: Tensor
    proxy: Tensor


@task
class Enumerable(TabularTask, BaseTask):
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

    components = ("gold", "proxy")
    questions = 1
    first_question = property(attrgetter("symbols"))
    states = property(lambda self: (self.symbols**self.cap - 1) // (self.symbols - 1))  # beginnings, the empty one too
    rewards = property(lambda self: rewards_of(self.symbols, self.cap, self.world, self.spread, self.features))

    def __post_init__(self):
        super().__post_init__()
        made = self.symbols**self.cap
        if made > MOST_STRINGS:
            many = made if made < 10**12 else "too many"
            raise ValueError(f"cap={self.cap} makes {many} strings of {self.symbols} symbols; at most {MOST_STRINGS}")
        best = self.rewards.gold.max().item()
        if self.good > best:
            raise ValueError(f"good={self.good} is more than any string of world={self.world} has; at most {best:.3f}")

    @property
    def reward_range(self) -> tuple[float, float]:
        """Reward of what is no string, the least of everything, and the largest of a string."""
        parts = [self.weights[name] * getattr(self.rewards, name) for name in self.components]
        return sum(part.min().item() for part in parts), sum(parts).max().item()

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer with the string of most gold."""
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
        tables = {name: getattr(self.rewards, name).to(completions.device) for name in self.components}
        components = {name: table[number].where(legal, table.min()) for name, table in tables.items()}
        return Scores(components, (components["gold"] >= self.good) & legal)

    def next_states(self, states: t.States, tokens: t.NextTokens) -> t.States:
        """From a beginning to the one that is a symbol longer."""
        longer = states * self.symbols + tokens.clamp(max=self.symbols - 1) + 1
        return longer.clamp(max=self.states - 1)

    def start_logits(self) -> t.TableLogits:
        """Log-probabilities of the symbols, whatever was written before."""
        logits = torch.nn.functional.pad(self.rewards.start, (0, self.questions), value=MASKED_LOGIT)
        return logits.repeat(self.questions, self.states, 1)

    def every_completion(self, device: torch.device) -> t.AllCompletions:
        """All strings, ``[symbols^cap, cap]``, in the order of the numbers that they are."""
        return torch.from_numpy(strings(self.symbols, self.cap)).to(device)


@cache
def strings(symbols: int, length: int) -> np.ndarray:
    """All strings of so many symbols, ``[symbols^length, length]``."""
    return np.indices((symbols,) * length).reshape(length, -1).T.copy()


@cache
def rewards_of(symbols: int, length: int, world: int, spread: float, features: int) -> RewardTables:
    """Draw a world. Rounded, so that no library's last bits are in the rewards of a run."""

    def counts(size: int) -> np.ndarray:
        """How often each string of ``size`` symbols is in each string: ``[symbols^length, symbols^size]``."""
        windows = np.lib.stride_tricks.sliding_window_view(strings(symbols, length), size, axis=1)
        numbers = windows @ symbols ** np.arange(size)
        return (numbers[:, :, None] == np.arange(symbols**size)).sum(1)

    def standardized(values: np.ndarray) -> np.ndarray:
        """Mean 0 and standard deviation 1 under π₀."""
        centered = values - chances @ values
        return centered / np.sqrt(chances @ centered**2)

    random = np.random.default_rng(world)
    worth, odds = random.standard_normal(symbols**TRIGRAMS), spread * random.standard_normal(symbols)
    start = odds - np.log(np.exp(odds).sum())
    chances = np.exp(start[strings(symbols, length)].sum(-1))
    gold = standardized(counts(TRIGRAMS) @ worth)
    seen, root = counts(features), np.sqrt(chances)
    fit = np.linalg.lstsq(seen * root[:, None], gold * root, rcond=None)[0]
    proxy = gold if features == TRIGRAMS else standardized(seen @ fit)
    return RewardTables(*(torch.from_numpy(np.round(each, 5).astype(np.float32)) for each in (start, gold, proxy)))
