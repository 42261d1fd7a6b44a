"""Sums, means and deviations over the entries that count: the only place that knows about padding.

Every function reduces the named negative dimensions one after another; the reason is in ``core.exact``.

Entries that do not count are replaced with ``where``, never multiplied by zero: 0 × NaN is NaN.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import one_hot

from rlexp.core.exact import sum_keepdim

Dims = tuple[int, ...]
GROUP: Dims = (-1,)  # of values of completions
BATCH: Dims = (-1, -2)
TIME: Dims = (-1,)  # of values of tokens
ALL: Dims = (-1, -2, -3)
WHITENING_EPS = 1e-8  # of a variance, as in verl and ROLL


def masked_sum(values: Tensor, mask: Tensor, dims: Dims) -> Tensor:
    """Σ values over the entries of ``dims`` where ``mask`` holds; reduced axes stay with size 1."""
    return sum_keepdim(values.where(mask, 0.0), dims)


def sums_by_prompt(values: Tensor, mask: Tensor, numbers: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return of completions ``[*R P G]`` how many count and their sum, for each of ``size`` prompts, ``[*R size]``.

    ``numbers`` ``[*R P]`` says which prompt a group is of.
    """
    known = one_hot(numbers, size).to(values.dtype)
    parts = (count(mask, GROUP, values.dtype), masked_sum(values, mask, GROUP))
    number, total = (sum_keepdim(part * known, (-2,)).squeeze(-2) for part in parts)
    return number, total


def count(mask: Tensor, dims: Dims, dtype=None) -> Tensor:
    """Return the number of entries that count, as a float of ``dtype``; reduced axes stay with size 1."""
    return sum_keepdim(mask.to(dtype), dims)


def masked_mean(values: Tensor, mask: Tensor, dims: Dims) -> Tensor:
    """Mean over the entries that count; 0 where none does."""
    return masked_sum(values, mask, dims) / count(mask, dims, values.dtype).clamp(min=1)


def masked_std(values: Tensor, mask: Tensor, dims: Dims, ddof: int) -> Tensor:
    """√(Σ (x − mean)² / (n − ddof)) over the entries that count; 0 where n ≤ ddof."""
    deviations = values - masked_mean(values, mask, dims)
    freedom = (count(mask, dims, values.dtype) - ddof).clamp(min=1)
    return (masked_sum(deviations.square(), mask, dims) / freedom).sqrt()


def masked_extreme(values: Tensor, mask: Tensor, dims: Dims, sign: int) -> Tensor:
    """Largest (``sign`` = 1) or smallest (``sign`` = −1) entry that counts; ∓inf where none does."""
    extreme = (sign * values).where(mask, float("-inf"))
    for dim in dims:
        extreme = extreme.amax(dim, keepdim=True)
    return sign * extreme


def last_token(mask: Tensor) -> Tensor:
    """Return where the last token that counts is; between those that count may stand others, ``[G T] -> [G T]``."""
    return mask & (mask.cumsum(-1) == mask.sum(-1, keepdim=True))


def at_last_token(values: Tensor, mask: Tensor) -> Tensor:
    """Give values of completions to their last token that counts, 0 to the others: ``[G], [G T] -> [G T]``."""
    return values.unsqueeze(-1).where(last_token(mask), 0.0)


def is_constant(values: Tensor, mask: Tensor, dims: Dims) -> Tensor:
    """Whether all entries that count are equal (or none counts); exact, unlike ``std == 0``."""
    return masked_extreme(values, mask, dims, 1) <= masked_extreme(values, mask, dims, -1)


def per_token(values: Tensor, tokens: Tensor) -> Tensor:
    """Return values of completions ``[... P G]`` in a shape that goes with ``tokens`` ``[... P G T]``.

    Values of tokens stay as they are. Any size may be 1.

    Raises:
        ValueError: Where the values are of neither shape.
    """
    wide = values if values.dim() == tokens.dim() else values.unsqueeze(-1)
    sizes = zip(wide.shape, tokens.shape, strict=False)
    if wide.dim() != tokens.dim() or any(own not in (1, size) for own, size in sizes):
        of_tokens, found = [*tokens.shape], [*values.shape]
        raise ValueError(f"a result has the shape {found}: must be {of_tokens[:-1]}, as rewards have, or {of_tokens}")
    return wide


def whitened(values: Tensor, mask: Tensor, dims: Dims) -> Tensor:
    """(x − mean) / √(var + 1e-8) over what counts, var with n − 1; 0 elsewhere, and where all are equal.

    Source: verl ``masked_whiten`` and ROLL ``whiten_advantages``. SkyRL ``advantage_batch_normalize`` takes the mean
    over padding, too, and the variance with n.
    """
    deviation = (masked_std(values, mask, dims, 1).square() + WHITENING_EPS).sqrt()
    return (centered(values, mask, dims) / deviation).where(mask, 0.0)


def entropy_weights(entropies: Tensor, mask: Tensor, beta: float) -> Tensor:
    """max(0, 1 + beta · (H / mean H − 1)) of each token, mean H that of its completion; 1 where that is 0.

    Without the bound at 0 the weights of a completion are 1 on average. Source: entropy-weighted advantages as
    textpolicy has them (2afe657, ``tinker/advantages.py``, with the negative log-probability for H; 05276e9,
    ``algorithms/grpo.py``, with the entropy and its mean over the batch), beta 0.1. It calls that GTPO, whose paper
    (arXiv 2508.04349) adds to the reward of each token of a correct completion its entropy, over that of the others at
    its place, and to that of a wrong one the inverse.
    """
    mean = masked_mean(entropies, mask, TIME)
    return (1 + beta * (entropies / mean - 1)).clamp(min=0).masked_fill(mean <= 0, 1.0)


def centered(values: Tensor, mask: Tensor, dims: Dims) -> Tensor:
    """Values minus their mean over ``dims``, exactly zero where they are all equal.

    The mean of eight float32 rewards of 0.7 is off by one unit in the last place; without the guard
    a division by their deviation turns that residue into advantages of 0.8.
    """
    deviations = values - masked_mean(values, mask, dims)
    return deviations.masked_fill(is_constant(values, mask, dims), 0.0)
