"""The parity of some bits, answered at once or after a chain of thought, which few demonstrations have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from rlexp.core import types as t
from rlexp.core.streams import splitmix64
from rlexp.tasks.scoring import check_weights
from rlexp.tasks.task import BaseTask, Scores

COMPONENTS = ("right", "chain")
PAD, END, SEPARATOR = 2, 3, 4
WORDS = ("0", "1", "pad", "end", "→")
CELLS = 2**24  # hashes are compared with shares in so many steps
EVERY = 8  # one prompt of so many is held out
LOOKED_AT = 256  # numbers from a drawn one on, of which the first of the wanted part is taken


@dataclass(frozen=True, kw_only=True)
class Parity(BaseTask):
    """Prompt: ``bits`` bits and a separator. Completion: any bits and an end token; the last bit is the answer.

    A short answer is the parity alone. A long one is the parity of the first bit, of the first two, … of all: a chain
    of thought, each bit of which needs two others only. The oracle, from which ``start=sft`` learns, writes the chain
    for a share ``chains`` of the prompts and the short answer for the others; which ones is a hash of the prompt, so
    that nothing tells in advance. One prompt of eight is held out, by another part of the hash.

    Components: ``right`` 1 for the right last bit and an end token, else 0; ``chain`` 1 for the whole chain and nothing
    else. Source: the setting of "How Reinforcement Learning After Next-Token Prediction Facilitates Learning" (arXiv
    2510.11495): long demonstrations are rare, imitation does not learn parity by short ones, and reinforcement makes
    answers longer and right. Of that paper the abstract and summaries were read: sizes and shares here are not its own.
    """

    bits: Annotated[int, Ge(6), Le(40)]
    chains: Annotated[float, Ge(0), Le(1)]
    cap: t.Size
    weights: dict[str, t.FiniteNonNegative]
    metric: str
    floor: float

    pad, end, vocabulary = PAD, END, 5
    draws = property(attrgetter("bits"))

    def __post_init__(self):
        check_weights(self.weights, COMPONENTS)
        if self.cap <= self.bits:
            raise ValueError(
                f"cap={self.cap} leaves no room for a chain of {self.bits} bits and an end: at least {self.bits + 1}"
            )

    @property
    def prompt_length(self) -> int:
        """Width of a prompt with its separator."""
        return self.bits + 1

    def prompts(self, uniforms: t.PromptDraws, held_out: bool) -> t.Prompts:
        """Numbers in [0, 1) to prompts: ``[R, P, bits] -> [R, P, bits + 1]``.

        The bits drawn are a number; the prompt is the first number from there on that is (or is not) held out.
        """
        places = 2 ** torch.arange(self.bits, device=uniforms.device)
        drawn = ((uniforms >= 0.5) * places).sum(-1, keepdim=True)
        near = (drawn + torch.arange(LOOKED_AT, device=uniforms.device)) % 2**self.bits
        wanted = (splitmix64(near) % EVERY == 0) == held_out
        number = near.gather(-1, wanted.to(torch.int8).argmax(-1, keepdim=True))
        bits = number // places % 2
        return torch.cat([bits, torch.full_like(number, SEPARATOR)], -1)

    def has_chain(self, prompts: t.Prompts) -> Tensor:
        """Whether the oracle answers with a chain, ``[R, P, L] -> [R, P, 1]``."""
        places = 2 ** torch.arange(self.bits, device=prompts.device)
        number = (prompts[..., : self.bits] * places).sum(-1, keepdim=True)
        return (splitmix64(number) >> 40 & CELLS - 1) < self.chains * CELLS

    def oracle(self, prompts: t.Prompts) -> tuple[t.Answers, t.AnswerMask]:
        """Answer right, by a chain or at once: ``[R, P, L]`` to tokens and mask ``[R, P, T]``, the end included."""
        chain = prompts[..., : self.bits].cumsum(-1) % 2
        long = self.has_chain(prompts)
        bits = torch.where(long, chain, chain[..., -1:])
        length = torch.where(long, self.bits, 1)
        place = torch.arange(self.cap, device=prompts.device)
        answers = torch.nn.functional.pad(bits, (0, self.cap - self.bits), value=PAD)
        return answers.where(place < length, PAD).masked_fill(place == length, END), place <= length

    def render(self, tokens: Sequence[int]) -> str:
        """`[1, 0, 4]` → `"1 0 →"`."""
        return " ".join(WORDS[token] for token in tokens)

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        """Judge completions ``[R, P, G, T]``; a completion that was cut off is wrong."""
        chain = prompts[:, :, None, : self.bits].cumsum(-1) % 2
        length = mask.sum(-1, keepdim=True)
        last = completions.gather(-1, (length - 2).clamp(min=0)).squeeze(-1)
        right = finished & (last == chain[..., -1]) & (length.squeeze(-1) > 1)
        whole = (completions[..., : self.bits] == chain).all(-1) & (length.squeeze(-1) == self.bits + 1) & finished
        return Scores({"right": right.float(), "chain": whole.float()}, right)
