"""Random numbers addressed by (seed, purpose, step, round): no state to save, no dependence on neighbours.

A counter-based generator (Philox) is set to its place instead of being carried along. Runs that share a seed see
the same prompts, the same initial weights and the same sampling noise whatever their variant: that is what makes
their difference a paired one.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import partial

import numpy as np
import torch
from torch import Tensor

GAMMA = 0x9E3779B97F4A7C15  # by which SplitMix64 steps from number to number


class Purpose(IntEnum):
    """What the numbers are for; each purpose has streams of its own."""

    WEIGHTS = 1
    PROMPTS = 2
    SAMPLING = 3
    EVALUATION_PROMPTS = 4
    EVALUATION_SAMPLING = 5
    VERDICTS = 6
    PERSISTENT_VERDICTS = 7
    PROMPT_SET = 8
    START_PROMPTS = 20
    START_CHECKS = 21
    START_SAMPLING = 22
    START_MIXTURE = 23
    START_CORPUS = 24
    START_HINTS = 25
    LOSS = 30
    SAMPLER = 31
    REPLAY = 32
    REFERENCE_SAMPLING = 33
    POPULATION = 34
    CRITIC_WEIGHTS = 40
    REWARD_MODEL_WEIGHTS = 41
    PAIR_PROMPTS = 42
    PAIR_SAMPLING = 43
    PAIR_FLIPS = 44
    PAIR_BATCHES = 45
    VOTES = 50
    PERSISTENT_VOTES = 51
    GREEDY_VOTES = 52
    EVALUATION_VOTES = 53
    EVALUATION_REFERENCE = 54
    EVALUATION_CORPUS = 55
    REFERENCE_VOTES = 56


def generator(seed: int, purpose: Purpose, step: int = 0, round: int = 0) -> np.random.Generator:
    """Return the generator of one run, purpose, step and round within the step."""
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, step, round]))


def draws(
    method: str,
    seeds: Sequence[int],
    purpose: Purpose,
    step: int,
    shape: Sequence[int],
    device: torch.device | None = None,
    round: int = 0,
) -> Tensor:
    """Return float32 numbers that a ``method`` of numpy's generators draws, ``[R, *shape]``, one stream a replica."""
    rows = [getattr(generator(seed, purpose, step, round), method)(shape, dtype=np.float32) for seed in seeds]
    return torch.from_numpy(np.stack(rows)).to(device)


uniforms = partial(draws, "random")  # in [0, 1)
normals = partial(draws, "standard_normal")  # from N(0, 1)


def hashed_uniforms(seeds: Sequence[int], purpose: Purpose, tokens: Tensor, present: Tensor) -> Tensor:
    """Return float32 numbers in [0, 1) that belong to (seed, tokens): ``[R, ..., L], [R, ..., L] -> [R, ...]``.

    Tokens that are not ``present`` do not enter, whatever they are and however many. Integer arithmetic modulo 2⁶⁴,
    so that no order of summation matters: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014) of each token and
    its place, summed, added to the run's key, and finalized again.
    """
    return fractions(hashed(seeds, purpose, tokens, present))


def hashed_streams(seeds: Sequence[int], purpose: Purpose, tokens: Tensor, present: Tensor, numbers: int) -> Tensor:
    """Return so many of them: ``[R, ..., L], [R, ..., L] -> [R, ..., N]``, SplitMix64's stream from the hash."""
    places = torch.arange(numbers, device=tokens.device) * signed(GAMMA)
    return fractions(splitmix64(hashed(seeds, purpose, tokens, present).unsqueeze(-1) + places))


def hashed(seeds: Sequence[int], purpose: Purpose, tokens: Tensor, present: Tensor) -> Tensor:
    """Return the int64 that belongs to (seed, tokens)."""
    keys = torch.tensor([generator(seed, purpose).integers(2**63) for seed in seeds], device=tokens.device)
    places = torch.arange(tokens.shape[-1], device=tokens.device)
    total = splitmix64((tokens << 32) + places).where(present, 0).sum(-1)
    return splitmix64(total + keys.view(-1, *[1] * (total.dim() - 1)))


def fractions(numbers: Tensor) -> Tensor:
    """Return the first 24 bits of int64 as float32 in [0, 1)."""
    return (numbers >> 40 & 2**24 - 1) * 2.0**-24


def splitmix64(numbers: Tensor) -> Tensor:
    """SplitMix64: a bijection of int64 in which every bit of the input moves about half of the output's bits."""
    numbers = numbers + signed(GAMMA)
    for shift, factor in (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB):
        numbers = (numbers ^ unsigned_shift(numbers, shift)) * signed(factor)
    return numbers ^ unsigned_shift(numbers, 31)


def unsigned_shift(numbers: Tensor, bits: int) -> Tensor:
    """Shift int64 to the right and fill with zeros, where ``>>`` fills with the sign."""
    return numbers >> bits & (1 << 64 - bits) - 1


def signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
