"""Prompts of several difficulties in chosen shares, told by their length."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from rlexp.core import types as t
from rlexp.tasks.task import Scores


class Buckets:
    """What tasks of several difficulties share, in front of a task with prompts of ``shortest`` to ``longest``.

    The setting that ``told_by`` names has the length of a prompt of each bucket, ``shares`` how often it comes; a task
    has ``length(prompts)``, ``[R, P, L] -> [R, P, 1]``, which counts as that setting does. No completion to a prompt of
    the impossible bucket is right, and the oracle shows none.
    """

    told_by: str
    length: Callable[[Tensor], Tensor]
    shares: Mapping[str, float]
    weights: Mapping[str, float]

    components = ("easy", "medium", "hard", "impossible")
    lengths = property(lambda self: getattr(self, self.told_by))
    shortest = property(lambda self: min(self.lengths.values()))
    longest = property(lambda self: max(self.lengths.values()))
    reward_range = property(lambda self: (0.0, max(self.weights.values())))  # a prompt has one component

    def __post_init__(self):
        for name in (self.told_by, "shares"):
            if set(getattr(self, name)) != set(self.components):
                raise ValueError(f"{name} must name {', '.join(self.components)}")
        if len(set(self.lengths.values())) < len(self.components):
            raise ValueError(f"{self.told_by} must differ between buckets: a prompt's bucket is told by its length")
        if not sum(self.shares.values()) > 0:
            raise ValueError("shares must not all be 0")
        super().__post_init__()

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Draw prompts; the first number of each chooses the bucket."""
        shares = torch.tensor([self.shares[name] for name in self.components], dtype=torch.float64)
        bounds = (shares.cumsum(0) / shares.sum())[:-1].to(uniforms)
        bucket = (uniforms[..., :1] >= bounds).sum(-1, keepdim=True)
        length = torch.tensor([self.lengths[name] for name in self.components], device=uniforms.device)[bucket]
        middle = (length - self.shortest + 0.5) / (self.longest - self.shortest + 1)
        return super().prompts(torch.cat([middle, uniforms[..., 1:]], -1), held_out)

    def is_of(self, prompts: t.Prompts, bucket: str) -> Tensor:
        """Whether prompts are of a bucket, ``[R, P, 1]``."""
        return self.length(prompts) == self.lengths[bucket]

    def solvable(self, prompts: t.Prompts, answers: t.Answers, mask: t.AnswerMask) -> tuple[t.Answers, t.AnswerMask]:
        """Leave out answers to prompts that have no right one."""
        right = ~self.is_of(prompts, "impossible")
        return answers.where(right, self.pad), mask & right

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer as the task does, and with an empty mask where no answer is right."""
        return self.solvable(prompts, *super().oracle(prompts))

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]``; a completion that was cut off is wrong."""
        correct = super().score(prompts, completions, mask, finished).correct & ~self.is_of(prompts, "impossible")
        parts = {name: correct.float().where(self.is_of(prompts, name), float("nan")) for name in self.components}
        return Scores(parts, correct)
