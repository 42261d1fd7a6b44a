"""Rotary positions (arXiv 2104.09864) of queries and keys."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from rlexp.models import shapes as s


class Rotation(NamedTuple):
    """By which angle each pair of numbers of a query or key is turned at its place: rotary positions.

    Source: RoFormer (arXiv 2104.09864); the pairs are those of Transformers' Llama (``rotate_half``): a number of the
    first half of a head with its neighbour in the second.
    """

    cosine: s.Angles
    sine: s.Angles

    def turn_(self, halves: Tensor, back: bool = False) -> None:
        """Turn queries or keys ``[..., D]`` in place, or ``back`` again."""
        first, second = halves.chunk(2, -1)
        sine = -self.sine if back else self.sine
        turned = first * self.cosine - second * sine
        second.mul_(self.cosine).add_(first * sine)
        first.copy_(turned)

    def at(self, place: int) -> Rotation:
        """Return the rotation at one completion token."""
        return Rotation(self.cosine[..., place, :], self.sine[..., place, :])
