"""Operations whose result for one replica is the same bits alone and in a batch of any size, on every processor.

The rule, stated here and nowhere else:

- Products go through ``bmm``, ``baddbmm`` and ``matmul`` of this file. No library promises that the product of one
  replica has the same bits in stacks of all sizes: MKL does in its strict mode (``MKL_CBWR`` in ``rlexp/__init__.py``),
  for Intel processors, with exceptions, and not where several threads share one product. So each product is tried out
  when a batch meets its shapes, strides and number of threads for the first time (``trial``). Where torch
  gives every replica the bits that it has in a stack of two copies of itself, on one thread, torch's product of the
  stack is taken. Elsewhere these stacks of two are computed one after another (``in_pairs``): that depends on nothing
  but the replica. ``PATHS`` says what was taken.
- Sums and means go over one axis after another (``sum_keepdim``). A joint reduction over several large axes is split
  between threads when it is alone and not when it is part of a batch.
- ``tanh``, ``exp``, ``log``, ``log_softmax``, ``relu`` and ``layer_norm`` of torch may be used. ``sigmoid``, ``silu``,
  ``softplus``, ``softmax``, ``std``, ``var`` and powers that are no square or root may not: their vector and scalar
  paths round differently, and which one an element meets depends on its place in the batch. Those below stand in.
- A slice with gaps between its rows is made contiguous before it enters a reduction, which otherwise may choose
  another path for it than for the whole.

``tests/core/test_exact*.py`` holds every operation to it, under each instruction set that the processor has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import product as every
from typing import Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

__all__ = [
    "Kind", "Product", "Softmax", "as_before", "baddbmm", "bmm", "forget", "matmul", "paths_taken",
    "product", "products_by", "products_of", "sigmoid", "softmax_", "softmax_backward_", "sum_keepdim",
]  # fmt: skip

Kind = Literal["linear", "attention", "head"]
"""Of a product: a layer's, an attention's, or that of the layer whose results are logits."""
PATHS: dict[tuple, bool] = {}
"""Whether torch's product of the stack holds, by what it may depend on."""
HELD: WeakKeyDictionary[nn.Module, set[tuple]] = WeakKeyDictionary()
"""What a network has done, by the shapes that it depends on, in which all products held."""
trusted = False  # within what has held before
refused = 0  # how often a product did not hold

LINE = 64  # bytes: to multiples of it torch aligns what it allocates
DRAWS = 64  # at most, of small products
ENOUGH = 256  # numbers that must agree: of sums in another order one of three to ten differs


def bmm(x: Tensor, weight: Tensor) -> Tensor:
    """x W of each replica: ``[R, N, in], [R, in, out] -> [R, N, out]``."""
    return product_of(kind, None, x, weight)


def baddbmm(addend: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """x W + ``addend`` of each replica, the addend ``[R, N, out]`` or ``[R, 1, out]``."""
    return product_of(kind, addend, x, weight)


def matmul(x: Tensor, weight: Tensor) -> Tensor:
    """``bmm`` of stacks with more leading axes, ``[R, ..., N, in], [R, ..., in, out] -> [R, ..., N, out]``.

    Such products are those of an attention.
    """
    return product_of("attention", None, x, weight)


def product(addend: Tensor | None, x: Tensor, weight: Tensor) -> Tensor:
    """Return what ``bmm``, ``baddbmm`` and ``matmul`` do, by torch's function of the stack where that holds."""
    if holds(x, weight, addend):
        return in_stack(addend, x, weight)
    if x.dim() == 3:
        return in_pairs(addend, x, weight)
    return in_pairs(None, x.flatten(0, -3), weight.flatten(0, -3)).unflatten(0, x.shape[:-2])


def product_exactly(kind: Kind, addend: Tensor | None, x: Tensor, weight: Tensor) -> Tensor:
    return product(addend, x, weight)


product_of: Callable = product_exactly
kind: Kind = "linear"


@contextmanager
def products_by(function: Callable[[Kind, Tensor | None, Tensor, Tensor], Tensor]) -> Iterator[None]:
    """Within, let a function make what ``bmm``, ``baddbmm`` and ``matmul`` return; without gradients."""
    global product_of
    before, product_of = product_of, function
    try:
        yield
    finally:
        product_of = before


class products_of:  # noqa: N801
    """Within, the products of ``bmm`` and ``baddbmm`` are of a kind: linear where nothing says so."""

    def __init__(self, kind: Kind):
        self.kind = kind

    def __enter__(self) -> None:
        global kind
        self.before, kind = kind, self.kind

    def __exit__(self, *_: object) -> None:
        global kind
        kind = self.before


def in_stack(addend: Tensor | None, x: Tensor, weight: Tensor) -> Tensor:
    """Return torch's product of the stack, by the function that stands for it: they differ where a size is 1."""
    if addend is not None:
        return torch.baddbmm(addend, x, weight)
    return torch.bmm(x, weight) if x.dim() == 3 else torch.matmul(x, weight)


def in_pairs(addend: Tensor | None, x: Tensor, weight: Tensor) -> Tensor:
    """Return each replica's product as it is in a stack of two copies of it, on one thread."""
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        return Product.apply(x, weight, addend, None)
    with one_thread():
        return torch.cat([in_pair(addend, x, weight, replica) for replica in range(len(x))])


def in_pair(addend: Tensor | None, x: Tensor, weight: Tensor, replica: int) -> Tensor:
    """Return the product of one replica ``[1, N, out]`` as it is in a stack of two copies of it."""
    addend, x, weight = (None if each is None else twice(each[replica]) for each in (addend, x, weight))
    return in_stack(addend, x, weight)[:1]


def twice(matrix: Tensor) -> Tensor:
    """Return two copies of a matrix that lie as it does, each from an address to which kernels align."""
    if 0 in matrix.stride():
        matrix = matrix.contiguous()
    size = 1 + sum((n - 1) * stride for n, stride in zip(matrix.shape, matrix.stride(), strict=True))
    apart = -(-size // LINE) * LINE
    return matrix.new_empty(2 * apart).as_strided((2, *matrix.shape), (apart, *matrix.stride())).copy_(matrix)


@contextmanager
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def holds(x: Tensor, weight: Tensor, addend: Tensor | None = None) -> bool:
    """Whether torch's product of the stack, and where there is a gradient those of its backward pass, may be taken."""
    global refused
    if trusted or torch.compiler.is_compiling():
        return True
    backward = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    key = (
        x.shape, x.stride(), weight.shape, weight.stride(), addend is not None and addend.shape,
        x.dtype, x.is_cpu, torch.get_num_threads(), backward,
    )  # fmt: skip
    known = PATHS.get(key)
    if known is None:
        tried = not x.is_cpu or trial(x, weight, addend) and (not backward or trial_of_gradients(x, weight))
        known = PATHS[key] = tried
    refused += not known
    return known


def as_before(network: nn.Module, *shapes: object, packed: object = None) -> AbstractContextManager:
    """Within, take torch's products as they are if all held when ``network`` last did the same with these ``shapes``.

    Looking each up costs a single run a twentieth of its time. ``shapes`` must be all that those of the products within
    depend on. Those of a network that ``packs`` depend on what it reads, too: if nothing says how that is ``packed``,
    each of its products is looked up.
    """
    if torch.compiler.is_compiling() or (packed is None and getattr(network, "packs", False)):
        return nullcontext()
    return _as_before(HELD.setdefault(network, set()), (*shapes, packed, torch.get_num_threads()))


@contextmanager
def _as_before(held: set[tuple], key: tuple) -> Iterator[None]:
    global trusted
    before, refused_before = trusted, refused
    trusted = trusted or key in held
    try:
        yield
    finally:
        trusted = before
    if refused == refused_before:
        held.add(key)


def forget() -> None:
    """Try every product anew from now on."""
    PATHS.clear()
    HELD.clear()


def paths_taken() -> str:
    """Say how many kinds of product went in pairs; "" if none did."""
    pairs = len(PATHS) - sum(PATHS.values())
    if not pairs:
        return ""
    return f"{pairs} of {len(PATHS)} kinds of product are computed run by run: as one they round otherwise here"


@torch.no_grad()
def trial(x: Tensor, weight: Tensor, addend: Tensor | None = None) -> bool:
    """Whether replicas have the same bits in the stack and in pairs, for random numbers that lie as these do."""
    numbers = math.prod(x.shape[:-1]) * weight.shape[-1]
    draws = min(-(-ENOUGH // numbers), DRAWS) if numbers else 0
    for draw, start in every(range(draws), (0, 1)):  # from an address to which kernels align, and from another
        likes = [None if each is None else numbers_like(each, draw, start) for each in (addend, x, weight)]
        stack = in_stack(*likes).flatten(0, -3)
        likes = [None if each is None else each.flatten(0, -3) for each in likes]
        with one_thread():
            if any(not torch.equal(stack[r : r + 1], in_pair(*likes, r)) for r in to_try(*likes[1:])):
                return False
    return True


def to_try(x: Tensor, weight: Tensor) -> set[int]:
    """Return places in a stack: the first, among them one of each alignment, one in the middle, the last."""
    alignments = (LINE // math.gcd(LINE, each.stride(0) * each.element_size()) for each in (x, weight))
    return {*range(min(len(x), max(3, *alignments))), len(x) // 2, len(x) - 1}


def trial_of_gradients(x: Tensor, weight: Tensor) -> bool:
    """``trial`` of the two products of a backward pass, for a gradient without gaps."""
    x, weight = x.flatten(0, -3), weight.flatten(0, -3)
    upstream = x.new_empty(*x.shape[:-1], weight.shape[-1])
    return trial(upstream, weight.mT) and trial(x.mT, upstream)


def numbers_like(tensor: Tensor, draw: int, start: int) -> Tensor:
    """Return random numbers with the shape and strides of a tensor, others for each ``draw``, from place ``start``."""
    size = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    noise = random_numbers(tensor.dtype).roll(draw)
    return noise.repeat(-(-(start + size) // len(noise))).as_strided(tensor.shape, tensor.stride(), start)


@cache
def random_numbers(dtype: torch.dtype) -> Tensor:
    """Return a prime number of random numbers, so that rows of no matrix repeat."""
    return torch.randn(4099, dtype=dtype, device="cpu", generator=torch.Generator("cpu").manual_seed(0))


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(−x)), through ``tanh``."""
    return 0.5 * (0.5 * x).tanh() + 0.5


def softmax_(scores: Tensor) -> Tensor:
    """exp(x) / Σ exp(x) over the last axis, in place."""
    powers = scores.sub_(scores.amax(-1, keepdim=True)).exp_()
    return powers.div_(powers.sum(-1, keepdim=True))


def softmax_backward_(upstream: Tensor, weights: Tensor) -> Tensor:
    """Gradient in the scores whose softmax is ``weights``, in place of the gradient ``upstream`` in the weights."""
    return upstream.sub_((upstream * weights).sum(-1, keepdim=True)).mul_(weights)


class Softmax(torch.autograd.Function):
    """Softmax over the last axis of ``scores + bias``; the bias has no gradient."""

    @staticmethod
    def forward(ctx, scores: Tensor, bias: Tensor) -> Tensor:
        weights = softmax_(scores + bias)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return softmax_backward_(upstream.clone(), *ctx.saved_tensors), None


class Product(torch.autograd.Function):
    """x W + ``addend``, or x W where that is None.

    With ``result``, what an earlier pass with the same numbers has computed, only the backward pass is left.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, addend: Tensor | None, result: Tensor | None) -> Tensor:
        """``[R, N, in], [R, in, out] -> [R, N, out]``."""
        ctx.save_for_backward(x, weight)
        ctx.addend = None if addend is None else addend.shape
        if result is not None:
            return result
        return bmm(x, weight) if addend is None else baddbmm(addend, x, weight)

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        for_x = bmm(upstream, weight.mT) if needed[0] else None
        for_weight = bmm(x.mT, upstream) if needed[1] else None
        return for_x, for_weight, upstream.sum_to_size(ctx.addend) if needed[2] else None, None


def sum_keepdim(values: Tensor, dims: Sequence[int]) -> Tensor:
    """Σ values over ``dims``, one axis after another; reduced axes stay with size 1."""
    for dim in dims:
        values = values.sum(dim, keepdim=True)
    return values
