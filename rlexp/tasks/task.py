"""What the training loop asks of a task, and what a task says of completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, dataclass_transform, runtime_checkable

import torch

from rlexp.core import types as t


class Scores(NamedTuple):
    """What a task says about completions.

    ``components`` are parts of the reward by name, NaN where one does not apply; ``correct`` says whether a completion
    is right. ``token_rewards`` are rewards of single tokens, None where the task judges completions as wholes.
    ``quality`` grades completions as −1, 0 or 1; None where a completion is right or wrong and no more.
    """

    components: dict[str, t.PerCompletion]
    correct: t.CompletionMask
    token_rewards: t.PerToken | None = None
    quality: t.PerCompletion | None = None


@runtime_checkable
class Task(Protocol):
    """Prompts, a verifier and the sizes of both; a frozen set of numbers without state.

    Sizes: ``vocabulary`` tokens, ``prompt_length`` L, ``cap`` T = most tokens of a completion, ``draws`` = random
    numbers that a prompt takes. Tokens: ``pad`` fills a prompt on the left and a completion behind its end, ``end`` is
    a completion's last one; −1 if there is none. ``weights`` are those of the components in the reward, which lies in
    ``reward_range``. ``metric`` scores a run that is not told otherwise; one that ends below ``floor`` has collapsed.

    A task may have more. With a ``prompt_set`` a run is trained on so many prompts of its own, drawn from the same
    numbers as all others, again and again (None: new ones at every step); what is held out stays what it is.
    ``wrong_answers`` takes and gives what ``oracle`` does: answers of the form of right ones that are never right.
    ``corpus(prompts, uniforms) -> (answers, mask)`` is what a start has read: answers right and wrong, in the shares
    that are among the task's settings, as one number in [0, 1) a prompt says, ``[R, P]``; shapes and an empty mask are
    as ``oracle`` has them.

    A task whose completions are conversations has an ``environment(prompts, completions)``, ``[R P G t] -> [R P G t]``
    for any t from 1 on: the token that it writes at each place, or −1 where the policy writes. It looks at the tokens
    before a place alone and writes no end token. Such a task says by ``train_on_environment`` whether losses see its
    environment's tokens; its ``oracle`` and ``wrong_answers`` have them inside.
    """

    vocabulary: int
    prompt_length: int
    cap: int
    draws: int
    pad: int
    end: int
    reward_range: tuple[float, float]
    weights: Mapping[str, float]
    metric: str
    floor: float

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Make prompts of numbers in [0, 1), for training or held out from it."""

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions; ``mask`` covers the tokens up to the end, ``finished`` says that there is one."""

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer each prompt right, the end token included.

        The mask is empty where it shows no answer, or where none is right: a warm-up learns nothing of such prompts.
        """

    def render(self, tokens: Sequence[int]) -> str:
        """Write a prompt or a completion as one line of text."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def task(cls: type) -> type:
    """Make a frozen dataclass of a class of hyperparameters, with those that all tasks have as the last ones."""
    for name, kind in (("weights", dict[str, t.FiniteNonNegative]), ("metric", str), ("floor", float)):
        cls.__annotations__.setdefault(name, kind)
    return dataclass(frozen=True, kw_only=True)(cls)


class Weighed:
    """What tasks of tokens and of text have in common: weights of their ``components``, which are between 0 and 1."""

    weights: Mapping[str, float]
    components: Sequence[str] = ()  # of which there must be weights; with none nothing is checked

    def __post_init__(self):
        if self.components and (set(self.weights) != set(self.components) or not any(self.weights.values())):
            raise ValueError(f"weights must name {', '.join(self.components)}, at least one of them above 0")

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, sum(self.weights.values())


class BaseTask(Weighed):
    """Defaults of a task: neither padding nor end, one random number a prompt, tokens that are written as numbers."""

    pad = end = -1
    draws = 1

    def render(self, tokens: Sequence[int]) -> str:
        """`[3, 2, 4]` → `"3 2 4"`."""
        return " ".join(map(str, tokens))


def total_reward(components: Mapping[str, t.PerCompletion], weights: Mapping[str, float]) -> t.PerCompletion:
    """Σ weight · component over the components that apply; NaN where none does.

    Source: TRL ``GRPOTrainer`` (``nansum`` over reward functions). Components without a weight do not enter.
    """
    stack = torch.stack([weight * components[name] for name, weight in weights.items() if weight])
    return stack.nansum(0).masked_fill(stack.isnan().all(0), float("nan"))
