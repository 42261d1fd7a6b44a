"""The batch of the comparisons with ``references/`` as a fixture."""

from __future__ import annotations

import numpy as np
import pytest

from rlexp.testing.batches import hard_batch


@pytest.fixture
def batch() -> dict[str, np.ndarray]:
    """Random float64 numbers with the hard cases of every axis."""
    return {name: tensor.numpy() for name, tensor in hard_batch().items()}
