"""Products: the same bits for a replica in stacks of all sizes, whatever the library does; what is taken where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from policies import threads  # noqa: F401
from torch.testing import assert_close

from rlexp.core import exact

pytestmark = pytest.mark.slow  # many shapes

# Rows, inputs, outputs: single ones take other kernels than matrices, 5 · 128 · 1 differs on processors without a
# strict mode, 1 · 8 · 64 in the strict mode; below 400 products PyTorch does not ask the library.
SHAPES = [(1, 8, 64), (1, 64, 1), (1, 192, 5), (5, 128, 1), (3, 64, 1), (30, 10, 5), (33, 17, 67), (3, 1, 192)]
# Rounding of sums of at most 192 float64 products of order one.
TIGHT = dict(rtol=1e-12, atol=1e-12)


@pytest.fixture(autouse=True)
def nothing_tried():
    exact.forget()
    yield
    exact.forget()


def operands(replicas, rows, inputs, outputs, dtype=torch.float32):
    random = torch.Generator().manual_seed(5)
    shapes = [(rows, inputs), (inputs, outputs), (1, outputs), (rows, outputs)]
    return [torch.randn(replicas, *shape, generator=random, dtype=dtype) for shape in shapes]


def results(x, weight, addend, upstream):
    """Values and gradients by every way to a product."""
    wanted = [each.clone().requires_grad_() for each in (x, weight, addend)]
    x, weight, addend = wanted
    with torch.no_grad():
        plain = [exact.bmm(x, weight), exact.baddbmm(addend, x, weight)]
    for value in (
        exact.bmm(x, weight),
        exact.baddbmm(addend, x, weight),
        exact.matmul(x.unsqueeze(1), weight.unsqueeze(1)).squeeze(1),
        exact.Product.apply(x, weight, addend, None),
    ):
        slopes = torch.autograd.grad(value, wanted, upstream, allow_unused=True)
        plain += [value.detach(), *(slope for slope in slopes if slope is not None)]
    return plain


def by_einsum(x, weight, addend, upstream):
    product = torch.einsum("rni,rio->rno", x, weight)
    slopes = [
        torch.einsum("rno,rio->rni", upstream, weight),
        torch.einsum("rni,rno->rio", x, upstream),
        upstream.sum(1, keepdim=True),
    ]
    biased = [product + addend, *slopes]
    return [product, product + addend, product, *slopes[:2], *biased, product, *slopes[:2], *biased]


@pytest.mark.bits
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_replica_has_the_same_bits_alone_and_in_stacks(shape, threads):  # noqa: F811
    """With several threads too: the library then splits the one product of a stack of one."""
    whole = operands(30, *shape)
    threads(1)
    expected = results(*whole)
    for count in (1, 2):
        threads(count)
        for replicas in (slice(7, 8), slice(0, 13)):
            parts = results(*(each[replicas].clone() for each in whole))
            assert all(torch.equal(a, b[replicas]) for a, b in zip(parts, expected, strict=True)), (count, replicas)


@pytest.mark.parametrize("in_pairs", [False, True])
def test_values_and_gradients_are_those_of_einsum(in_pairs, monkeypatch):
    if in_pairs:
        monkeypatch.setattr(exact, "holds", lambda *_: False)
    for shape in SHAPES:
        numbers = operands(3, *shape, dtype=torch.float64)
        for ours, theirs in zip(results(*numbers), by_einsum(*numbers), strict=True):
            assert_close(ours, theirs, **TIGHT)


def backwards(x, weight):
    return torch.einsum("rni,rio->rno", x.flip(-1), weight.flip(-2))


def by_position(x, weight):
    """A library whose sums go another way for every other replica."""
    straight = torch.einsum("rni,rio->rno", x, weight)
    straight[2::2] = backwards(x[2::2], weight[2::2]) + 2e-7
    return straight


@pytest.mark.parametrize(
    "library",
    [lambda x, weight: torch.einsum("rni,rio->rno", x, weight) + 1e-6 * (len(x) == 1), by_position],
    ids=["one alone", "by position"],
)
def test_a_library_that_depends_on_the_stack_does_not_hold(library, monkeypatch):
    """Then a stack of two copies on one thread decides, for one replica and for thirty."""
    for name in ("bmm", "matmul"):
        monkeypatch.setattr(torch, name, library)
    x, weight, *_ = operands(30, 5, 16, 3)
    together = exact.bmm(x, weight)
    for r in range(30):
        assert torch.equal(exact.bmm(x[r : r + 1], weight[r : r + 1])[0], together[r])
    assert not all(exact.PATHS.values())
    assert "run by run" in exact.paths_taken()


def test_a_product_is_tried_once_and_again_with_other_threads(threads, monkeypatch):  # noqa: F811
    tried, trial = [], exact.trial
    monkeypatch.setattr(exact, "trial", lambda *operands: tried.append(1) or trial(*operands))
    x, weight, *_ = operands(2, 33, 17, 67)
    threads(1)
    for _ in range(3):
        exact.bmm(x, weight)
    assert len(tried) == 1
    threads(2)
    exact.bmm(x, weight)
    assert len(tried) == len(exact.PATHS) == 2
    exact.bmm(x.requires_grad_(), weight)
    assert len(tried) == 5  # and both products of the backward pass


def test_a_trial_draws_nothing_from_torch():
    before = torch.random.get_rng_state()
    exact.bmm(*operands(2, 33, 17, 67)[:2])
    assert torch.equal(torch.random.get_rng_state(), before)


NOT_STRICT = """
import torch
from rlexp.core import exact
for shape in [(5, 128, 1), (33, 17, 67)]:
    exact.bmm(torch.ones(1, *shape[:2]), torch.ones(1, *shape[1:]))
print(torch.backends.mkl.is_available(), *exact.PATHS.values())
"""


@pytest.mark.slow
def test_without_a_strict_mode_only_the_odd_products_go_in_pairs(monkeypatch):
    """``COMPATIBLE`` has none, as MKL has none on processors of others than Intel."""
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    done = subprocess.run([sys.executable, "-c", NOT_STRICT], capture_output=True, text=True, check=True)
    if not done.stdout.startswith("True"):
        pytest.skip("this PyTorch has no MKL")
    assert done.stdout.split() == ["True", "False", "True"]


def done(network, x, weight, *shapes):
    with exact.as_before(network, *shapes):
        return exact.bmm(x, weight)


def test_what_a_network_has_done_before_is_not_looked_up_again(monkeypatch):
    network, (x, weight, *_) = torch.nn.Identity(), operands(2, 33, 17, 67)
    expected = done(network, x, weight, 1)
    monkeypatch.setattr(exact, "holds", lambda *_: pytest.fail("looked up") if not exact.trusted else True)
    assert torch.equal(done(network, x, weight, 1), expected)
    for other in (dict(network=torch.nn.Identity(), shape=1), dict(network=network, shape=2)):
        with pytest.raises(pytest.fail.Exception):
            done(other["network"], x, weight, other["shape"])
    exact.forget()
    with pytest.raises(pytest.fail.Exception):
        done(network, x, weight, 1)
    assert not exact.trusted


def test_what_held_with_one_thread_is_looked_up_again_with_two(threads, monkeypatch):  # noqa: F811
    network, (x, weight, *_) = torch.nn.Identity(), operands(2, 33, 17, 67)
    threads(1)
    done(network, x, weight, 1)
    threads(2)
    monkeypatch.setattr(exact, "holds", lambda *_: pytest.fail("looked up") if not exact.trusted else True)
    with pytest.raises(pytest.fail.Exception):
        done(network, x, weight, 1)


def test_what_did_not_hold_is_looked_up_each_time(monkeypatch):
    monkeypatch.setattr(torch, "bmm", by_position)
    network, (x, weight, *_) = torch.nn.Identity(), operands(30, 5, 16, 3)
    expected = done(network, x, weight)
    assert not any(exact.HELD[network]) and torch.equal(done(network, x, weight), expected)
    assert not torch.equal(by_position(x, weight), expected)


@pytest.mark.rare  # tests once more, in a process of their own
def test_critics_and_judges_have_the_same_bits_where_mkl_has_no_strict_mode():
    """Nine of these tests failed on an AMD EPYC, whose instruction set and kernels this asks for."""
    root, settings = Path(__file__).parents[2], {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "avx2"}
    tests = ["tests/models/test_scalar.py", "tests/loop/test_reward_model.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "bits", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    run = subprocess.run(command, cwd=root, env=os.environ | settings, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:]
