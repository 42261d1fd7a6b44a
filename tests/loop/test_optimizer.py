"""Stacked Adam against PyTorch's own, one replica at a time; learning rates, clipping and fates are each run's own."""

import math

import pytest
import torch
from torch import nn

from rlexp.loop.optimizer import Adam, Schedule, flat

# Both sides are float64 and round differently a few times an update.
CLOSE = dict(rtol=1e-10, atol=1e-13)
UPDATES = 25
SHAPES = ((3, 4), (1, 4), (5,))
PEAKS = (1e-2, 3e-3, 0.1, 1e-4, 2e-2)
WARMUPS = (0, 1, 5, 40, 10)
FINALS = (0.0, 1.0, 0.3, 0.5, 0.0)
LIMITS = (1.0, math.inf, 1e-3, 150.0, 1e-7)
REPLICAS = range(len(PEAKS))


class Stack(nn.Module):
    """Parameters ``[R, ...]`` of a few shapes, float64."""

    def __init__(self, replicas):
        super().__init__()
        random = torch.Generator().manual_seed(1)
        self.rows = nn.ParameterList(
            torch.randn(replicas, *shape, generator=random, dtype=torch.float64) for shape in SHAPES
        )


def column(values):
    return torch.tensor(values, dtype=torch.float64)


def schedule(total=UPDATES):
    return Schedule(column(PEAKS), column(WARMUPS), column(FINALS), total)


def gradients(updates=UPDATES):
    """Gradients of every update: of other sizes in each replica and update, so that some are clipped and some not."""
    random = torch.Generator().manual_seed(2)
    sizes = torch.tensor([1.0, 3.0, 0.01, 20.0, 1e-6], dtype=torch.float64)
    for update in range(updates):
        scales = sizes * (1 + update % 3)
        yield [
            torch.randn(len(PEAKS), *shape, generator=random, dtype=torch.float64) * scales.view(-1, *[1] * len(shape))
            for shape in SHAPES
        ]


def trained(adam, spoil=None):
    """Apply all gradients; ``spoil`` changes them first. Return the norms ``[updates, R]``."""
    norms = []
    for every in gradients():
        for parameter, gradient in zip(adam.parameters, every, strict=True):
            parameter.grad = gradient.clone()
        if spoil:
            spoil(adam.parameters)
        norms.append(adam.step())
    return torch.stack(norms)


def by_torch(replica):
    """Train one replica by PyTorch's Adam, clip_grad_norm_ and LambdaLR; return its parameters and its norms."""
    parameters = [nn.Parameter(row[replica].detach().clone()) for row in Stack(len(PEAKS)).rows]
    optimizer = torch.optim.Adam(parameters, lr=PEAKS[replica])
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: descent(done, replica) * climb(done, replica))
    norms = []
    for every in gradients():
        for parameter, gradient in zip(parameters, every, strict=True):
            parameter.grad = gradient[replica].clone()
        norms.append(nn.utils.clip_grad_norm_(parameters, LIMITS[replica]))
        optimizer.step()
        scheduler.step()
    return parameters, torch.stack(norms)


def descent(done, replica):
    """From 1 before the first update to the final share after the last."""
    return FINALS[replica] + (1 - FINALS[replica]) * (UPDATES - done) / UPDATES


def climb(done, replica):
    """1/w, 2/w, …, 1, 1, …"""
    return 1.0 if done >= WARMUPS[replica] else (done + 1) / WARMUPS[replica]


@pytest.fixture
def adam():
    return Adam(Stack(len(PEAKS)), schedule(), column(LIMITS))


def test_the_test_gradients_are_clipped_in_some_replicas_and_updates_only(adam):
    clipped = trained(adam) > column(LIMITS)
    assert clipped.any(0).tolist() == [True, False, True, True, True]
    assert not clipped.all(0)[3]


def test_stacked_adam_is_pytorchs_for_each_replica(adam):
    norms = trained(adam)
    for replica in REPLICAS:
        parameters, expected = by_torch(replica)
        torch.testing.assert_close(norms[:, replica], expected, **CLOSE)
        for ours, theirs in zip(adam.parameters, parameters, strict=True):
            torch.testing.assert_close(ours[replica], theirs, **CLOSE)


def test_the_small_number_of_clip_grad_norm_is_added_to_the_norm():
    """A limit of 1e-7 and a norm near 1e-6: without PyTorch's + 1e-6 the scale would be about twice as large."""
    module = Stack(1)
    adam = Adam(module, Schedule(column([1.0]), column([0]), column([1.0]), 1), column([1e-7]))
    for row in module.rows:
        row.grad = torch.full_like(row, 1e-6 / math.sqrt(sum(row.numel() for row in module.rows)))
    size = module.rows[0].grad[0, 0, 0].clone()
    adam.step()
    torch.testing.assert_close(adam.kept[0]["first"][0, 0], 0.1 * size * 1e-7 / 2e-6, **CLOSE)


def test_an_infinite_limit_leaves_gradients_alone():
    adam = Adam(Stack(len(PEAKS)), schedule(), torch.full((len(PEAKS),), math.inf))
    every = next(iter(gradients()))
    for parameter, gradient in zip(adam.parameters, every, strict=True):
        parameter.grad = gradient.clone()
    adam.step()
    assert torch.equal(adam.kept[0]["first"], flat(every) * (1 - 0.9))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("broken", [0, 2])
def test_a_replica_without_a_finite_gradient_leaves_the_others_bitwise_equal(adam, broken, value):
    def spoil(parameters):
        parameters[1].grad[broken].fill_(value)

    healthy = Adam(Stack(len(PEAKS)), schedule(), column(LIMITS))
    expected, norms = trained(healthy), trained(adam, spoil)
    others = [replica for replica in REPLICAS if replica != broken]
    assert not norms[:, broken].isfinite().any()
    assert torch.equal(norms[:, others], expected[:, others])
    for ours, theirs in zip(adam.parameters, healthy.parameters, strict=True):
        assert torch.equal(ours[others], theirs[others])
        assert not torch.equal(ours[broken], theirs[broken])


def test_gradients_are_used_once(adam):
    trained(adam)
    assert all(parameter.grad is None for parameter in adam.parameters)
    assert adam.updates == UPDATES


def test_first_and_last_learning_rates():
    """No warm-up: the peak at once. The last update is one step of the descent above the final share."""
    first, last = schedule().rates(0), schedule().rates(UPDATES - 1)
    assert first.tolist() == pytest.approx([1e-2, 3e-3, 0.1 / 5, 1e-4 / 40, 2e-2 / 10])
    shares = [1 / 25, 1.0, 0.3 + 0.7 / 25, (0.5 + 0.5 / 25) * 25 / 40, 1 / 25]
    assert last.tolist() == pytest.approx([peak * share for peak, share in zip(PEAKS, shares, strict=True)])


def test_after_the_last_update_the_final_share_is_left():
    left = Schedule(column(PEAKS), torch.zeros(len(PEAKS)), column(FINALS), UPDATES).rates(UPDATES)
    assert left.tolist() == pytest.approx([peak * final for peak, final in zip(PEAKS, FINALS, strict=True)])


@pytest.mark.parametrize("warmup", [0, 1, 2, 5])
def test_warm_up_reaches_the_peak_at_its_last_update(warmup):
    rates = [Schedule(column([2.0]), column([warmup]), column([1.0]), 10).rates(done).item() for done in range(8)]
    assert rates == pytest.approx([2.0 * min(1.0, (done + 1) / max(1, warmup)) for done in range(8)])


def test_a_constant_schedule_is_exactly_constant():
    constant = Schedule(torch.tensor([1e-3]), torch.tensor([0.0]), torch.tensor([1.0]), 7)
    assert len({constant.rates(done).item() for done in range(7)}) == 1
