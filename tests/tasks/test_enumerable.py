"""The enumerable world: its rewards by plain loops, and over-optimisation along the best path and in training."""

from __future__ import annotations

import itertools

import pytest
import torch
from small_runs import compose
from task_choices import enumerable
from torch.testing import assert_close

from rlexp.loop.evaluation import exact
from rlexp.loop.step import train_step
from rlexp.sweep.build import build

CPU = torch.device("cpu")
# Rewards are rounded to five decimals, and float32.
ROUNDED = dict(rtol=1e-5, atol=2e-5)
WORLD, SPREAD = 22, 0.5  # those of the YAML


def start_of(world) -> torch.Tensor:
    """Probability of every string at the start, float64."""
    strings = world.every_completion(CPU)
    return world.rewards.start.double()[strings].sum(-1).exp()


def occurrences(string: tuple[int, ...], pattern: tuple[int, ...]) -> int:
    return sum(string[i : i + len(pattern)] == pattern for i in range(len(string) - len(pattern) + 1))


@pytest.mark.parametrize("features", [1, 2, 3])
def test_gold_is_linear_in_trigrams_and_no_fit_of_the_features_is_closer_than_the_proxy(features):
    world = enumerable(features=features, symbols=3)
    strings = list(itertools.product(range(3), repeat=world.cap))
    assert [list(each) for each in strings] == world.every_completion(CPU).tolist()
    chances = start_of(world)

    def table(length):
        patterns = list(itertools.product(range(3), repeat=length))
        return torch.tensor([[occurrences(s, p) for p in patterns] for s in strings], dtype=torch.float64)

    def residual(values, length):
        """What weighted least squares leaves of values, by the normal equations' orthogonality."""
        root = chances.sqrt().unsqueeze(-1)
        fit = torch.linalg.lstsq(table(length) * root, values.unsqueeze(-1) * root, driver="gelsd").solution
        return values - (table(length) @ fit).squeeze(-1)

    gold, proxy = world.rewards.gold.double(), world.rewards.proxy.double()
    assert_close(residual(gold, 3), torch.zeros_like(gold), **ROUNDED)
    for values in (gold, proxy):
        assert_close(chances @ values, torch.zeros((), dtype=torch.float64), **ROUNDED)
        assert_close(chances @ values**2, torch.ones((), dtype=torch.float64), **ROUNDED)
    best = gold - residual(gold, features)
    assert_close(proxy, best / (chances @ best**2).sqrt(), rtol=1e-4, atol=1e-4)
    assert torch.equal(gold, proxy) == (features == 3)


def test_a_world_is_its_number():
    one, same, other = (enumerable(world=number).rewards.gold for number in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert not enumerable(spread=0.0).rewards.start.diff().any()


def along(features: int, world: int = WORLD) -> list[tuple[float, float]]:
    """Gold and proxy along the policies that are best for each KL: π₀ · exp(β · proxy), normalised."""
    task = enumerable(features=features, world=world, symbols=4, cap=5, spread=SPREAD)
    gold, proxy, chances = task.rewards.gold.double(), task.rewards.proxy.double(), start_of(task).log()
    policies = [(chances + beta * proxy).softmax(0) for beta in torch.linspace(0, 20, 101)]
    return [((each @ gold).item(), (each @ proxy).item()) for each in policies]


def test_gold_rises_then_falls_with_a_misspecified_proxy_and_never_with_gold_itself():
    gold, proxy = zip(*along(features=1), strict=True)
    assert list(proxy) == sorted(proxy)
    assert max(gold) > 0.4 and gold[-1] < -0.5 and 0 < gold.index(max(gold)) < len(gold) - 1
    gold, _ = zip(*along(features=3), strict=True)
    assert list(gold) == sorted(gold)


def test_gold_falls_in_many_worlds():
    """By more than half a standard deviation on the best path: the YAML names one of them."""
    golds = ([gold for gold, _ in along(1, world)] for world in range(40))
    falls = [world for world, gold in enumerate(golds) if max(gold) - gold[-1] > 0.5]
    assert len(falls) == 16 and WORLD in falls


@pytest.mark.slow  # it trains
@pytest.mark.parametrize(("features", "falls"), [(1, True), (3, False)])
def test_training_over_optimises_the_proxy_and_not_gold(features, falls):
    """Three seeds as one batch, by the loop itself."""
    sizes = ["minibatches=1", "lr=0.05", "entropy_coef=0.0", "steps=160", "logger=none", f"task.features={features}"]
    config = compose("task=enumerable", "model=tabular", "model.std=0.0", "norm=center", *sizes)
    state = build([config.model_copy(update={"seed": seed}) for seed in range(3)])
    gold, proxy = [], []
    for step in range(1, config.steps + 1):
        train_step(state, step, False)
        if step % 8 == 0:
            row = exact(state, [1])
            gold.append(row["eval/exact/gold"])
            proxy.append(row["eval/exact/proxy"])
    gold, proxy = torch.stack(gold), torch.stack(proxy)
    assert (proxy[-1] > 2).all()
    assert torch.equal(gold.amax(0) - gold[-1] > 0.8, torch.full((3,), falls))
    assert (gold.amax(0) > (0.3 if falls else 2)).all()
