"""Networks that judge completions: the models with a head of one number, as critics and reward models have.

Such a network is a model made with ``outputs=1``: ``Transformer(init, task, 1, width=…)``. It reads what a policy reads
and gives a number where that gives logits, so that the number at a place is a function of the prompt and the tokens
before the place, never of those behind it.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from rlexp.core.types import Completions, PerCompletion, PerPlaceOfCompletion, Prompts, TokenMask
from rlexp.models import MODELS


def values(network: nn.Module, prompts: Prompts, completions: Completions) -> PerPlaceOfCompletion:
    """Return the number before each token and, last, after all T: ``[R P L], [R P G T] -> [R P G T+1]``.

    What stands behind a completion's end is for the caller to leave out.
    """
    return network(prompts, F.pad(completions, (0, 1))).squeeze(-1)


def last_value(network: nn.Module, prompts: Prompts, completions: Completions, mask: TokenMask) -> PerCompletion:
    """Return the number after the last token of ``mask``, ``[R P G]``; that before the first one where there is none.

    It has seen the whole completion, the end token included, as the reward models of InstructGPT (arXiv 2203.02155)
    and of TRL, which read it at the last token.
    """
    return at_end(values(network, prompts, completions), mask)


def at_end(numbers: PerPlaceOfCompletion, mask: TokenMask) -> PerCompletion:
    """Return of numbers at places that after the last token of ``mask``: ``[R P G T+1], [R P G T] -> [R P G]``."""
    return numbers.gather(-1, mask.sum(-1, keepdim=True)).squeeze(-1)


def cannot_judge(model: str, judge: str) -> list[str]:
    """Say why a model cannot be that ``judge`` ("a critic"), in at most one line."""
    if MODELS[model].reads_completions:
        return []
    able = ", ".join(sorted(name for name, each in MODELS.items() if each.reads_completions))
    return [f"model={model} reads no completions and cannot be {judge}; choose one that does: {able}"]
