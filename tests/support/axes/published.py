"""Numbers as they are printed, and advantages of groups as lists."""

from __future__ import annotations

import torch
from axis_choices import bind

TINY = 1e-12


def digits(count: int) -> dict[str, float]:
    """Tolerance for a number printed with ``count`` decimals: half a unit in the last place."""
    return dict(rtol=0.0, atol=0.5001 * 10.0**-count)


def tensor(numbers) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def advantages(rewards, name: str, **hyperparameters) -> torch.Tensor:
    """Advantages of groups ``[P G]`` or of one group ``[G]``, all completions kept."""
    rows = tensor(rewards)
    groups = rows.view(-1, rows.shape[-1])
    return bind("norm", name, **hyperparameters)(groups, torch.ones_like(groups, dtype=torch.bool)).view_as(rows)


def close(actual, expected, decimals: int):
    torch.testing.assert_close(torch.as_tensor(actual, dtype=torch.float64), tensor(expected), **digits(decimals))
