"""What the tests of metrics share: float64, random rewards with gaps, comparison with functions of a replica."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from axis_choices import numbers
from torch import Tensor

R, P, G, T, V = 3, 6, 4, 5, 7
# Both sides are float64 and differ in the order of some hundred additions.
CLOSE = dict(rtol=1e-10, atol=1e-12)


@pytest.fixture
def float64():
    """Let metrics be computed in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def random_numbers(*shape, seed=5):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def check(row, expected):
    """Compare a row ``[R]`` with functions of the replica; the names must be the same."""
    assert set(row) == set(expected)
    for name, value in expected.items():
        wanted = torch.tensor([float(value(replica)) for replica in range(R)])
        torch.testing.assert_close(
            row[name], wanted, **CLOSE, equal_nan=True, msg=lambda text, at=name: f"{at}: {text}"
        )


def average(values):
    return statistics.fmean(values) if values else math.nan


def present(values: Tensor) -> list[float]:
    """Flatten, without the numbers that are missing."""
    return [value for value in values.flatten().tolist() if not math.isnan(value)]


def counted(values: Tensor, mask: Tensor) -> list[float]:
    """Flatten, without what is masked."""
    pairs = zip(values.flatten().tolist(), mask.flatten().tolist(), strict=True)
    return [value for value, counts in pairs if counts]


@pytest.fixture
def mask():
    return numbers(R, P, G, T)["mask"]
