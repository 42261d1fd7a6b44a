"""How many completions each prompt of a step has: ``allocation(…) -> numbers``, ``[*R P]``.

Tensors have room for ``group_size.completions`` of each prompt, which is the most. The first ones of a group are there;
the others have no token in any mask and no reward, so that they are in no statistics, no loss and no count. They are
drawn all the same: what is saved is counted in completions, not in time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from rlexp.axes import prompts
from rlexp.axes.offered import KNOWN
from rlexp.core.facts import Facts, ordered
from rlexp.core.memory import Memory
from rlexp.core.numbers import LARGEST_SIZE
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import CompletionCounts, PerCompletion, PerKnownPrompt, Probability, PromptNumbers, Size

FEWEST_AVERAGE = ordered("fewest", "average")


@Facts(is_noop=True)
def uniform(group: CompletionCounts) -> CompletionCounts:
    """``group_size.completions`` for each prompt."""
    return group


@Facts(problems=(FEWEST_AVERAGE,))
def vip(
    attempts: PerKnownPrompt,
    prompt_numbers: PromptNumbers,
    *,
    size: Size | None,
    most: Size,
    average: Size,
    fewest: Annotated[int, Ge(3), Le(LARGEST_SIZE)],
    decay: Probability,
) -> CompletionCounts:
    """The n_i from ``fewest`` to ``most``, P · ``average`` in all, with the least Σ p_i (1 − p_i) (n_i − 1) / n_i².

    That is, up to a factor, the variance of the mean gradient of prompts whose completions are right with chance p_i,
    each with the mean of its group as a baseline (Dr. GRPO, ``norm=center``), if ∇ log π has mean 0 and the same spread
    for right and wrong ones. p is the mean of a Beta posterior, of each prompt by itself. Source: VIP (arXiv
    2602.01601, theorem 5.1, which needs n ≥ 3), where a Gaussian process over embeddings predicts p and real numbers
    are rounded; here whole numbers are best exactly. Its code (HieuNT91/VIP ``bernoulli_allocation.py``, 0c17c79) adds
    0.0004 n log p to each term.
    """
    return least_variance(attempts, prompt_numbers, lambda n: (n - 1) / n**2, most, average, fewest)


@Facts(problems=(FEWEST_AVERAGE,))
def vip_rloo(
    attempts: PerKnownPrompt,
    prompt_numbers: PromptNumbers,
    *,
    size: Size | None,
    most: Size,
    average: Size,
    fewest: Annotated[int, Ge(2), Le(LARGEST_SIZE)],
    decay: Probability,
) -> CompletionCounts:
    """As ``vip`` with the least Σ p_i (1 − p_i) / (n_i − 1), the variance with a baseline of the others: ``norm=rloo``.

    Between the bounds n_i − 1 is proportional to √(p_i (1 − p_i)), up to whole numbers. Source: VIP (arXiv 2602.01601,
    theorem 5.2); its code adds 0.0007 n log p to each term.
    """
    return least_variance(attempts, prompt_numbers, lambda n: 1 / (n - 1), most, average, fewest)


def least_variance(
    attempts: PerKnownPrompt,
    numbers: PromptNumbers,
    variance: Callable[[Tensor], Tensor],
    most: int,
    average: int,
    fewest: int,
) -> CompletionCounts:
    """Give each prompt ``fewest`` completions, then one after another to who gains most by one more.

    What is gained, p (1 − p) (f(n) − f(n + 1)), falls with n, so that this is the best there is (Fox, 1966), and the
    first so many of all gains in their order. Of equal gains those with fewer completions come first.
    """
    alpha, beta = attempts.gather(-2, numbers.unsqueeze(-1).expand(*numbers.shape, 2)).unbind(-1)
    rate = alpha / (alpha + beta)
    levels = torch.arange(fewest, most, device=rate.device).to(rate.dtype).unsqueeze(-1)
    gains = (rate * (1 - rate)).clamp(min=0).unsqueeze(-2) * (variance(levels) - variance(levels + 1))
    order = gains.flatten(-2).argsort(dim=-1, descending=True, stable=True)
    given = torch.zeros_like(order, dtype=torch.bool)
    given = given.scatter(-1, order[..., : numbers.shape[-1] * (average - fewest)], True)
    return fewest + given.unflatten(-1, gains.shape[-2:]).sum(-2)


# ---- what is remembered of each prompt


def add_attempts(
    attempts: PerKnownPrompt, all_rewards: PerCompletion, prompt_numbers: PromptNumbers, *, decay: Probability
) -> PerKnownPrompt:
    """Return α and β as ``prompts=pass_rate_target`` has them."""
    return prompts.add_successes(attempts, all_rewards, prompt_numbers, decay=decay)


FUNCTIONS = by_name(uniform, vip, vip_rloo)
MEMORY = Memory("attempts", prompts.flat_prior, add_attempts, "α and β of the pass rate of each prompt")
MEMORIES = {"vip": MEMORY, "vip_rloo": MEMORY}
INPUTS = KNOWN | {"group": Offer(CompletionCounts, "group_size.completions for each prompt")}
