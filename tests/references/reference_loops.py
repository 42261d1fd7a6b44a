"""What the references of all axes share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def per_completion(shape: tuple[int, ...], value: Callable) -> np.ndarray:
    """Fill an array by calling ``value`` with each index."""
    filled = np.empty(shape)
    for index in np.ndindex(*shape):
        filled[index] = value(*index)
    return filled
