"""Random numbers addressed by (seed, purpose, step): no state to save, no dependence on neighbours.

A counter-based generator (Philox) is set to its place instead of being carried along. Runs that share a seed see
the same prompts, the same initial weights and the same sampling noise whatever their variant: that is what makes
their difference a paired one.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor


class Purpose(IntEnum):
    """What the numbers are for; each purpose has streams of its own."""

    WEIGHTS = 1
    PROMPTS = 2
    SAMPLING = 3
    EVALUATION_PROMPTS = 4
    EVALUATION_SAMPLING = 5
    LOSS = 21
    SAMPLER = 22


def generator(seed: int, purpose: Purpose, step: int = 0) -> np.random.Generator:
    """Return the generator of one run, purpose and step."""
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, step, 0]))


def uniforms(seeds: Sequence[int], purpose: Purpose, step: int, shape: Sequence[int], device=None) -> Tensor:
    """Return float32 numbers in [0, 1), ``[R, *shape]``, one stream a replica."""
    rows = np.stack([generator(seed, purpose, step).random(shape, dtype=np.float32) for seed in seeds])
    return torch.from_numpy(rows).to(device)


def normals(seeds: Sequence[int], purpose: Purpose, step: int, shape: Sequence[int], device=None) -> Tensor:
    """Return float32 numbers from N(0, 1), ``[R, *shape]``, one stream a replica."""
    rows = np.stack([generator(seed, purpose, step).standard_normal(shape, dtype=np.float32) for seed in seeds])
    return torch.from_numpy(rows).to(device)
