"""Matrix products in lower precision, simulated: factors and results are rounded, sums inside a product are not.

Each replica is rounded by itself: its scales are of its own numbers, so that it has the same bits alone and in a batch.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, float8_e4m3fn

from rlexp.core.exact import Kind, product
from rlexp.core.numbers import Precision

LARGEST = 448.0  # of float8_e4m3fn


def to_bfloat16(numbers: Tensor) -> Tensor:
    """Round to the nearest of 8 bits of precision, ties to even."""
    return numbers.bfloat16().to(numbers.dtype)


def to_float8(numbers: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return numbers over a scale, rounded to float8 e4m3 (4 bits of precision), and the scale: largest / 448.

    There is one scale for all numbers that differ along ``axes`` alone; 1 where all are 0.
    """
    scale = numbers.abs().amax(axes, keepdim=True) / LARGEST
    scale = scale.masked_fill(scale == 0, 1.0)
    return (numbers / scale).clamp(-LARGEST, LARGEST).to(float8_e4m3fn).to(numbers.dtype), scale


class RoundedProducts:
    """What ``exact.products_by`` takes: products of linear layers in ``products``, of the output layer in ``head``.

    - ``bfloat16``: factors and results are of that type; what is added to a product (a residual stream, a bias) is
      added before its result is rounded.
    - ``float8_channel``: factors of linear layers are float8 e4m3, with a scale for each row of activations and each
      column of weights; ``float8_tensor``: with one for all of each. Results, attention and the output layer are
      bfloat16.
    - an output layer with a ``head`` of ``float32`` is not rounded at all.

    Source: float8 of vLLM (docs/features/quantization: dynamic scales, e4m3 up to 448, the output layer left out) and
    of verl (verl/utils/kernel/fp8_kernel.py, b178a3c), whose blocks of 128 numbers are rows of activations here. The
    output layer in float32 is what MiniMax-M1 (arXiv 2506.13585) and ScaleRL (arXiv 2510.13786) found to bring sampler
    and trainer together; prime-rl ``enable_fp32_lm_head``, which adds up products of bfloat16 there.
    """

    def __init__(self, products: Precision, head: Literal["float32"] | None):
        self.products, self.head = products, head
        self.weights: dict[int, tuple[Tensor, object]] = {}

    def __call__(self, kind: Kind, addend: Tensor | None, x: Tensor, weight: Tensor) -> Tensor:
        if kind == "head" and self.head == "float32":
            return product(addend, x, weight)
        if kind == "linear" and self.products != "bfloat16":
            by_row = self.products == "float8_channel"
            (x, of_x), (weight, of_weight) = to_float8(x, (-1,) if by_row else (-2, -1)), self.once(weight, by_row)
            result = product(None, x, weight) * of_x * of_weight
            return to_bfloat16(result if addend is None else result + addend)
        weight = to_bfloat16(weight) if kind == "attention" else self.once(weight, None)
        return to_bfloat16(product(addend, to_bfloat16(x), weight))

    def once(self, weight: Tensor, by_column: bool | None) -> object:
        """Return weights as they are multiplied with, which are rounded when they are first met."""
        found = self.weights.get(id(weight))
        if found is None or found[0] is not weight:
            axes = (-2,) if by_column else (-2, -1)
            rounded = to_bfloat16(weight) if by_column is None else to_float8(weight, axes)
            self.weights[id(weight)] = found = weight, rounded
        return found[1]
