"""Sort some symbols: prompts of varying length, of chosen difficulties, and the three of CS336 lecture 17."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor
from torch.nn.functional import pad as padded

from rlexp.core import types as t
from rlexp.tasks.buckets import Buckets
from rlexp.tasks.task import BaseTask, Scores, task

NO_TOKEN = -1


class Sorting(BaseTask):
    """What tasks of sorting share: tokens, prompts of ``shortest`` to ``longest`` items of ``alphabet``, a verifier."""

    def __post_init__(self):
        if self.shortest > self.longest:
            raise ValueError(f"shortest={self.shortest} must not exceed longest={self.longest}")
        if self.cap < self.longest + self.ends:
            raise ValueError(
                f"cap={self.cap} leaves no room for {self.longest} items and an end token: at least {self.longest + 1}"
            )
        super().__post_init__()

    # Tokens are the symbols, then pad, end (if a completion says when it is done), separator and filler (if any).
    ends = property(lambda self: not self.shortest == self.longest == self.cap)
    pad = property(attrgetter("alphabet"))
    end = property(lambda self: self.alphabet + 1 if self.ends else -1)
    separator = property(lambda self: self.alphabet + 1 + self.ends)
    vocabulary = property(lambda self: self.alphabet + 2 + self.ends + self.filler)
    prompt_length = property(lambda self: self.longest + 1)
    draws = property(lambda self: self.longest + 1)  # for the length of a prompt, its class, its other items

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
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
        """Return the sorted items, ``NO_TOKEN`` behind them: ``[R, P, L] -> [R, P, T]``."""
        items = prompts[..., :-1]
        ordered = items.masked_fill(items == self.pad, self.vocabulary).sort(-1).values
        ordered = ordered.masked_fill(ordered == self.vocabulary, NO_TOKEN)
        return padded(ordered, (0, self.cap - self.longest), value=NO_TOKEN)

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer right, without fillers."""
        items = self.targets(prompts)
        place, length = torch.arange(self.cap, device=prompts.device), (items != NO_TOKEN).sum(-1, keepdim=True)
        answers = items.where(place < length, self.pad).masked_fill(place == length, self.end)
        return answers, place <= length

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]``; a completion that was cut off is judged by what it has."""
        symbol = mask & (completions < self.alphabet)
        stray = mask & ((completions == self.pad) | (completions == self.separator))
        answers = pack(completions, symbol | stray)
        items = self.targets(prompts).unsqueeze(-2)
        wanted, given = (items != NO_TOKEN).sum(-1), (answers != NO_TOKEN).sum(-1)
        exact = (answers == items).all(-1) & finished
        # inclusion and ordering look at as many symbols as are wanted, so that writing on is not paid
        beyond = torch.arange(self.cap, device=answers.device) >= wanted.unsqueeze(-1)
        window, asked = (each[..., : self.longest] for each in (answers.masked_fill(beyond, NO_TOKEN), items))
        ordering, most = in_order(window), 2 * wanted - 1
        components = {
            "exact": exact.float(),
            "graded": right_places(answers, items) / torch.maximum(wanted, given),
            "lecture": (included(asked, window) + ordering) / most,
            "multiset": (included_counted(asked, window, self.alphabet) + ordering) / most,
            "format": (finished & (given == wanted)).float(),
        }
        return Scores(components, exact)


@task
class Sort(Sorting):
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

    components = ("exact", "graded", "lecture", "multiset", "format")

    def wrong_answers(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer as ``oracle`` does, but for the first item, which is the next symbol of the alphabet: never right."""
        answers, mask = self.oracle(prompts)
        first = torch.arange(self.cap, device=prompts.device) == 0
        return ((answers + 1) % self.alphabet).where(first, answers), mask


@task
class SortPadded(Sorting):
    """``Sort`` with a corpus that writes on when it is done: 0 to ``most_fillers`` fillers behind the items, the end.

    A number is as likely as any other, so a policy that has read the corpus ends where it likes. Whether its items are
    right stands before the fillers: length can come to depend on it. What it writes beyond ``cap`` is cut off.
    """

    alphabet: Annotated[int, Ge(2), Le(t.LARGEST_SIZE)]
    shortest: t.Size
    longest: t.Size
    most_fillers: t.Size
    cap: t.Size
    prompt_set: t.Size | None

    components = Sort.components
    filler = 1

    def corpus(self, prompts: t.Prompts, uniforms: t.CorpusDraws) -> tuple[t.Answers, t.AnswerMask]:
        """Answer right, with fillers behind, cut off at ``cap``; ``uniforms`` are ``[R, P]``."""
        items = self.targets(prompts)
        place, length = torch.arange(self.cap, device=prompts.device), (items != NO_TOKEN).sum(-1, keepdim=True)
        end = length + (uniforms.unsqueeze(-1) * (self.most_fillers + 1)).long()
        answers = items.where(place < length, self.alphabet + 3).where(place < end, self.pad)
        return answers.masked_fill(place == end, self.end), place <= end


@task
class DifficultyMix(Buckets, Sorting):
    """``Sort``, with prompts of as many lengths as there are buckets: easy, medium, hard, impossible.

    ``items`` has the items of a prompt of each bucket, ``shares`` how often it comes, for training and for evaluation.
    Prompts of the impossible bucket look like the others, but their target is corrupted and no completion is right.
    Components ``easy``, ``medium``, ``hard``, ``impossible``: 1 for the sorted items and an end token, else 0, NaN on
    prompts of the other buckets. What is held out is what ``Sort`` holds out.
    """

    alphabet: Annotated[int, Ge(2), Le(t.LARGEST_SIZE)]
    items: dict[str, t.Size]
    shares: dict[str, t.FiniteNonNegative]
    cap: t.Size

    told_by = "items"
    filler = 0

    def length(self, prompts: t.Prompts) -> Tensor:
        """Count the items of prompts, ``[R, P, L] -> [R, P, 1]``."""
        return (prompts[..., :-1] != self.pad).sum(-1, keepdim=True)


@task
class SortLecture(BaseTask):
    """Prompts ``[1, 0, 2]``, ``[3, 2, 4]``, ``[1, 2, 3]``, five symbols, no end token; nothing is held out.

    Components, in points as in the lecture: ``distance`` positions that are right (0 to 3); ``inclusion_ordering``
    prompt items that occur plus neighbours in order (0 to 5), which pays an answer for repeating a duplicate and for
    repeating anything; ``multiset_ordering`` the same with multiset counting (0 to 5).
    """

    cap: Literal[3]

    vocabulary, prompt_length = 5, 3
    components = ("distance", "inclusion_ordering", "multiset_ordering")
    lecture_prompts = ((1, 0, 2), (3, 2, 4), (1, 2, 3))

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, sum(self.weights[name] * most for name, most in zip(self.components, (3, 5, 5), strict=True))

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Return the three prompts over and over."""
        replicas, count, _ = uniforms.shape
        prompts = torch.tensor(self.lecture_prompts, device=uniforms.device)
        return prompts[torch.arange(count, device=uniforms.device) % len(prompts)].expand(replicas, -1, -1)

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        return prompts.sort(-1).values, torch.ones_like(prompts, dtype=torch.bool)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        items = prompts.unsqueeze(-2)
        targets = items.sort(-1).values
        ordering = in_order(completions)
        components = {
            "distance": right_places(completions, targets).float(),
            "inclusion_ordering": (included(items, completions) + ordering).float(),
            "multiset_ordering": (included_counted(items, completions, self.vocabulary) + ordering).float(),
        }
        return Scores(components, (completions == targets).all(-1))


def pack(tokens: Tensor, keep: Tensor) -> Tensor:
    """Move the kept tokens to the front in their order, fill the rest with ``NO_TOKEN``: ``[..., T] -> [..., T]``."""
    order = (~keep).to(torch.int8).argsort(dim=-1, stable=True)
    return tokens.masked_fill(~keep, NO_TOKEN).gather(-1, order)


def right_places(answers: Tensor, targets: Tensor) -> Tensor:
    """Number of positions where answer and target agree on a symbol (lecture 17: ``sort_distance_reward``)."""
    return ((answers == targets) & (targets != NO_TOKEN)).sum(-1)


def included(prompts: Tensor, answers: Tensor) -> Tensor:
    """Number of prompt items that occur in the answer: an answer ``[1, 2, 2]`` holds all of ``[1, 1, 2]``."""
    return ((prompts.unsqueeze(-1) == answers.unsqueeze(-2)).any(-1) & (prompts != NO_TOKEN)).sum(-1)


def included_counted(prompts: Tensor, answers: Tensor, symbols: int) -> Tensor:
    """Size of the common multiset: each answer symbol pays for one prompt item only, which closes the hack above."""
    symbol = torch.arange(symbols, device=prompts.device)
    wanted, given = ((x.unsqueeze(-1) == symbol).sum(-2) for x in (prompts, answers))
    return torch.minimum(wanted, given).sum(-1)


def in_order(answers: Tensor) -> Tensor:
    """Number of neighbouring pairs that do not descend."""
    left, right = answers[..., :-1], answers[..., 1:]
    return ((left <= right) & (left != NO_TOKEN) & (right != NO_TOKEN)).sum(-1)
