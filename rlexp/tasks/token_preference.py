"""Prefer high tokens: completions sampled from the policy, rewarded by their share of low tokens."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated

import torch
from annotated_types import Ge, Le

from rlexp.core import types as t
from rlexp.tasks.task import BaseTask, Scores, task


@task
class TokenPreference(BaseTask):
    """Random prompts of ``prompt_length`` tokens, completions of exactly ``cap``; tokens below ``low`` are low.

    The GRPO-TCR notebook scores random sequences instead of samples of the policy; here they are the policy's own.
    Components: ``ternary`` +1 if less than ``good`` of the tokens are low, −1 if more than ``bad`` are, else 0;
    ``share`` 1 − share of low tokens. A completion is correct if its ternary reward is +1.
    """

    vocabulary: Annotated[int, Ge(2), Le(t.LARGEST_SIZE)]
    prompt_length: t.Size
    cap: t.Size
    low: t.Size
    good: t.FiniteNonNegative
    bad: t.FiniteNonNegative
    prompt_set: t.Size | None

    components = ("ternary", "share")
    draws = property(attrgetter("prompt_length"))

    def __post_init__(self):
        if self.low >= self.vocabulary:
            raise ValueError(f"low={self.low} must be below vocabulary={self.vocabulary}: some tokens must be good")
        if self.good > self.bad:
            raise ValueError(f"good={self.good} must not exceed bad={self.bad}")
        super().__post_init__()

    @property
    def reward_range(self) -> tuple[float, float]:
        return -self.weights["ternary"], self.weights["ternary"] + self.weights["share"]

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Draw prompts; held-out ones come from another stream."""
        return (uniforms * self.vocabulary).long()

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer with the prompt over and over, moved to high tokens."""
        repeated = prompts[..., torch.arange(self.cap, device=prompts.device) % self.prompt_length]
        answers = self.low + repeated % (self.vocabulary - self.low)
        return answers, torch.ones_like(answers, dtype=torch.bool)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        share = (completions < self.low).float().mean(-1)
        ternary = (share < self.good).float() - (share > self.bad).float()
        return Scores({"ternary": ternary, "share": 1 - share}, ternary > 0, quality=ternary)


class TokenPreferenceDense(TokenPreference):
    """The same, and each token is paid when it is written: ``share`` by the tokens, ``ternary`` at the last one.

    A token that is not low has weight / ``cap`` of ``share``; the tokens of a completion add up to its reward. Who
    looks at rewards of completions sees no difference to ``token_preference``.
    """

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        scores = super().score(prompts, completions, mask, finished)
        paid = (completions >= self.low).float() * (self.weights["share"] / self.cap)
        paid[..., -1] += self.weights["ternary"] * scores.components["ternary"]
        return scores._replace(token_rewards=paid)
