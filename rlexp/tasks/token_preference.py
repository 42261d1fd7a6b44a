"""Prefer high tokens: completions sampled from the policy, rewarded by their share of low tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Le

from rlexp.core.types import (
    LARGEST_SIZE,
    AnswerMask,
    Answers,
    CompletionMask,
    Completions,
    FiniteNonNegative,
    PromptDraws,
    Prompts,
    Size,
    TokenMask,
)
from rlexp.tasks.scoring import check_weights
from rlexp.tasks.task import Scores

COMPONENTS = ("ternary", "share")


@dataclass(frozen=True, kw_only=True)
class TokenPreference:
    """Random prompts of ``prompt_length`` tokens, completions of exactly ``cap``; tokens below ``low`` are low.

    The GRPO-TCR notebook scores random sequences instead of samples of the policy; here they are the policy's own.
    Components: ``ternary`` +1 if less than ``good`` of the tokens are low, −1 if more than ``bad`` are, else 0;
    ``share`` 1 − share of low tokens. A completion is correct if its ternary reward is +1.
    """

    vocabulary: Annotated[int, Ge(2), Le(LARGEST_SIZE)]
    prompt_length: Size
    cap: Size
    low: Size
    good: FiniteNonNegative
    bad: FiniteNonNegative
    prompt_set: Size | None
    weights: dict[str, FiniteNonNegative]
    metric: str
    floor: float

    pad = -1
    end = -1

    def __post_init__(self):
        if self.low >= self.vocabulary:
            raise ValueError(f"low={self.low} must be below vocabulary={self.vocabulary}: some tokens must be good")
        if self.good > self.bad:
            raise ValueError(f"good={self.good} must not exceed bad={self.bad}")
        check_weights(self.weights, COMPONENTS)

    @property
    def draws(self) -> int:
        """Random numbers that one prompt takes."""
        return self.prompt_length

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward that a completion can have."""
        return -self.weights["ternary"], self.weights["ternary"] + self.weights["share"]

    def prompts(self, uniforms: PromptDraws, held_out: bool) -> Prompts:
        """Numbers in [0, 1) to prompts: ``[R, P, L] -> [R, P, L]``; held-out ones come from another stream."""
        return (uniforms * self.vocabulary).long()

    def oracle(self, prompts: Prompts) -> tuple[Answers, AnswerMask]:
        """Answer with the prompt over and over, moved to high tokens: ``[R, P, L]`` to tokens, mask ``[R, P, T]``."""
        repeated = prompts[..., torch.arange(self.cap, device=prompts.device) % self.prompt_length]
        answers = self.low + repeated % (self.vocabulary - self.low)
        return answers, torch.ones_like(answers, dtype=torch.bool)

    def render(self, tokens: Sequence[int]) -> str:
        """`[3, 2, 4]` → `"3 2 4"`."""
        return " ".join(map(str, tokens))

    def score(self, prompts: Prompts, completions: Completions, mask: TokenMask, finished: CompletionMask) -> Scores:
        """Judge completions ``[R, P, G, T]``."""
        share = (completions < self.low).float().mean(-1)
        ternary = (share < self.good).float() - (share > self.bad).float()
        return Scores({"ternary": ternary, "share": 1 - share}, ternary > 0, quality=ternary)


class TokenPreferenceDense(TokenPreference):
    """The same, and each token is paid when it is written: ``share`` by the tokens, ``ternary`` at the last one.

    A token that is not low has weight / ``cap`` of ``share``; the tokens of a completion add up to its reward. Who
    looks at rewards of completions sees no difference to ``token_preference``.
    """

    def score(self, prompts: Prompts, completions: Completions, mask: TokenMask, finished: CompletionMask) -> Scores:
        """Judge completions ``[R, P, G, T]`` and their tokens."""
        scores = super().score(prompts, completions, mask, finished)
        paid = (completions >= self.low).float() * (self.weights["share"] / self.cap)
        paid[..., -1] += self.weights["ternary"] * scores.components["ternary"]
        return scores._replace(token_rewards=paid)
