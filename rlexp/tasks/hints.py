"""Prompts that have room for a hint: what a teacher may be shown of an answer, and the policy is not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from itertools import dropwhile

import torch
from torch import Tensor
from torch.nn.functional import pad as padded

from rlexp.core import types as t
from rlexp.tasks.task import task

JUDGING = ("score", "oracle", "wrong_answers", "corpus")  # methods that look at the prompt without its hint


class WithHints:
    """A task whose prompts are ``hint`` tokens longer, on their left: padding, or the end of an answer (``hinted``)."""

    hint: t.Size | None

    @property
    def prompt_length(self) -> int:
        return super().prompt_length + (self.hint or 0)

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Make prompts without a hint."""
        return padded(super().prompts(uniforms, held_out), (self.hint or 0, 0), value=self.pad)

    def without_hint(self, prompts: Tensor) -> Tensor:
        """Return prompts ``[... L]`` as the task without hints has them."""
        return prompts[..., prompts.shape[-1] - super().prompt_length :]

    def hinted(self, prompts: t.Prompts, answers: t.Answers, mask: t.AnswerMask) -> Tensor:
        """Write the last ``hint`` tokens of an answer, its end token among them, in front of each prompt.

        Padding stays on the left. A prompt whose answer has an empty mask has no hint. A policy can read what this
        returns, and the task cannot judge it.

        Args:
            prompts: ``[R, P, L]``.
            answers: ``[R, P, T]``, whatever stands outside the mask.
            mask: tokens up to the end of the answer.
        """
        place = mask.sum(-1, keepdim=True) - self.hint + torch.arange(self.hint, device=prompts.device)
        shown = answers.gather(-1, place.clamp(min=0)).masked_fill(place < 0, self.pad)
        line = torch.cat([shown, self.without_hint(prompts)], -1)
        return line.gather(-1, (line != self.pad).to(torch.int8).argsort(dim=-1, stable=True))

    def render(self, tokens: Sequence[int]) -> str:
        """As the task without hints does; padding before a prompt is left out."""
        prompt = self.hint and len(tokens) == self.prompt_length
        return super().render(list(dropwhile(self.pad.__eq__, tokens)) if prompt else tokens)


def with_hints(cls: type) -> type:
    """Give a task the setting ``hint``; it needs padding, an end token and an oracle."""

    def blind(name: str):
        method = getattr(cls, name)

        @wraps(method)
        def judge(self, prompts: t.Prompts, *others: object) -> object:
            return method(self, self.without_hint(prompts), *others)

        return judge

    known = {name: getattr(cls, name) for name in ("__doc__", "__module__", "__qualname__")}
    known |= {name: blind(name) for name in JUDGING if hasattr(cls, name)}
    return task(type(cls.__name__, (WithHints, cls), known | {"__annotations__": {"hint": t.Size | None}}))
