"""The operations that are the same alone and in a batch: against torch's, and for a part against the whole."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest
import torch
from policies import threads  # noqa: F401
from torch.testing import assert_close

from rlexp.core.exact import Product, Softmax, sigmoid, sum_keepdim

ROOT = Path(__file__).parents[2]
# Rounding of one float32 operation.
ROUNDED = dict(rtol=1e-6, atol=1e-7)
# Rounding of sums of some twenty float64 products of order one.
TIGHT = dict(rtol=1e-12, atol=1e-12)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return Softmax.apply(x, torch.zeros(()))


@pytest.mark.parametrize(("ours", "theirs"), [(sigmoid, torch.sigmoid), (softmax, lambda x: torch.softmax(x, -1))])
def test_values_and_gradients_equal_those_of_torch(ours, theirs):
    x = torch.cat([torch.linspace(-30, 30, 601), torch.tensor([-1e9, 1e4])])
    assert_close(ours(x), theirs(x), **ROUNDED)
    x, upstream = torch.randn(2, 4, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    slopes = [torch.autograd.grad(f(x), x, upstream)[0] for f in (ours, theirs) if x.requires_grad_() is x]
    assert slopes[1].any()
    assert_close(*slopes, **TIGHT)


@pytest.mark.bits
@pytest.mark.parametrize("helper", [sigmoid, softmax])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_part_has_the_same_bits_as_in_the_whole(helper, count, threads):  # noqa: F811
    """Values and gradients: ``torch.sigmoid`` fails by both, ``torch.softmax`` by the gradient of a single row."""
    threads(count)
    random = torch.Generator().manual_seed(0)
    for rows, width in itertools.product([1, 3, 64], range(1, 100, 6)):
        x, slopes = 3 * torch.randn(2, 5, rows, width, generator=random)
        whole = helper(x.requires_grad_())
        whole.backward(slopes)
        for r in range(5):
            part = x[r : r + 1].detach().clone().requires_grad_()
            own = helper(part)
            own.backward(slopes[r : r + 1].clone())
            assert torch.equal(own[0], whole[r]) and torch.equal(part.grad[0], x.grad[r]), (rows, width)


@pytest.mark.parametrize("has_addend", [True, False])
def test_a_product_and_its_gradients_are_those_of_einsum(has_addend):
    random = torch.Generator().manual_seed(3)
    x, weight, addend, upstream = (
        torch.randn(2, *shape, dtype=torch.float64, generator=random).requires_grad_()
        for shape in [(5, 3), (3, 4), (5, 4), (5, 4)]
    )
    inputs = [x, weight, *[addend] * has_addend]
    expected = torch.einsum("rni,rio->rno", x, weight) + (addend if has_addend else 0)
    slopes = torch.autograd.grad(expected, inputs, upstream)
    actual = Product.apply(x, weight, addend if has_addend else None, None)
    again = Product.apply(x, weight, addend if has_addend else None, actual.detach().clone())
    assert_close(actual, expected, **TIGHT)
    for result in (actual, again):
        assert_close(torch.autograd.grad(result, inputs, upstream), slopes, **TIGHT)


def test_a_product_takes_a_result_that_is_there():
    x, weight, result = torch.ones(2, 5, 3), torch.ones(2, 3, 4), torch.full((2, 5, 4), 7.0)
    assert Product.apply(x, weight, None, result).eq(7).all()


@pytest.mark.bits
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_sum_over_several_axes_is_the_same_for_a_part(count, threads):  # noqa: F811
    """``sum((-1, -2, -3))`` of the part is not: alone it is split between threads."""
    x = torch.randn(4, 64, 32, 31, generator=torch.Generator().manual_seed(4))
    threads(count)
    whole = sum_keepdim(x, (-1, -2, -3))
    assert whole.shape == (4, 1, 1, 1)
    assert_close(whole.squeeze(), x.double().sum((1, 2, 3)).float(), rtol=1e-4, atol=1e-3)
    assert all(torch.equal(sum_keepdim(x[r : r + 1], (-1, -2, -3))[0], whole[r]) for r in range(4))


# What rounds by the place in a batch (``rlexp/core/exact.py``), as methods and as functions of torch.
INEXACT = {"sigmoid", "silu", "softplus", "softmax", "logsigmoid", "std", "var", "std_mean", "var_mean"}
INEXACT |= {"bmm", "baddbmm", "matmul", "mm", "addmm", "einsum", "linear", "tensordot", "pow"}


@pytest.mark.parametrize("room", ["axes", "loop", "models"])
def test_no_operation_that_depends_on_the_batch_is_used(room):
    """Those of this name in ``core/exact.py`` are imported from there, and are no attributes."""
    found = []
    for path in sorted((ROOT / "rlexp" / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            inexact = isinstance(node, ast.Attribute) and node.attr in INEXACT
            product = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult)
            if inexact or product:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}")
    assert not found
