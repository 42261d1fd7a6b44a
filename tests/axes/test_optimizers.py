"""Every optimiser against PyTorch's own, one replica at a time, all of them side by side in one stack."""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import CONF
from omegaconf import OmegaConf
from pydantic import TypeAdapter
from small_runs import values
from torch import nn

from rlexp.axes import optimizer
from rlexp.config.checks import remarks
from rlexp.config.schema import read
from rlexp.core.registry import bind_choice, schema
from rlexp.loop.optimizer import Adam, Optimizer, Schedule

# Both sides are float64 and round differently a few times an update.
CLOSE = dict(rtol=1e-10, atol=1e-12)
UPDATES, WIDTHS = 12, (7, 5)
CHOICES = {path.stem: OmegaConf.to_container(OmegaConf.load(path)) for path in sorted((CONF / "optimizer").glob("*"))}
CHOICES.pop("evolution_strategies")  # has no gradient: tests/loop/test_population.py
LR = {"adam": 0.02, "adamw": 0.02, "sgd": 0.3, "momentum": 0.1, "rmsprop": 0.01}
KEPT = {
    "adam": {"first", "second"},
    "adamw": {"first", "second"},
    "sgd": set(),
    "momentum": {"velocity"},
    "rmsprop": {"second"},
}
# Other numbers than those of the YAML, so that none of them is taken for granted; then a decay as large as a gradient.
OTHERS = {
    "adam": dict(beta1=0.7, beta2=0.95, eps=1e-3),
    "adamw": dict(beta1=0.7, beta2=0.95, eps=1e-3, weight_decay=0.8),
    "sgd": {},
    "momentum": dict(momentum=0.6),
    "rmsprop": dict(alpha=0.8, eps=1e-2),
}


def bound(name, **hyperparameters):
    node = TypeAdapter(schema(optimizer.FUNCTIONS)).validate_python(CHOICES[name] | hyperparameters)
    return bind_choice(optimizer.FUNCTIONS, node)


def torchs(name, parameters, lr, hyperparameters):
    """The class of PyTorch with the same numbers; weight decay is 0 unless it is named."""
    betas = (
        {"betas": (hyperparameters.get("beta1"), hyperparameters.get("beta2"))} if "beta1" in hyperparameters else {}
    )
    rest = {key: value for key, value in hyperparameters.items() if not key.startswith("beta") and key != "name"}
    classes = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}
    return classes.get(name, torch.optim.SGD)(parameters, lr=lr, **betas, **rest)


class Stack(nn.Module):
    """Two parameters ``[R, ...]``."""

    def __init__(self, seeds, dtype=torch.float64):
        super().__init__()
        draws = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.rows = nn.ParameterList(
            torch.stack([torch.randn(width, generator=g, dtype=torch.float64) for g in draws]).to(dtype)
            for width in WIDTHS
        )


def gradients(seed, update):
    """Gradients of one run at one update, of other sizes each time."""
    random = torch.Generator().manual_seed(100 * seed + update)
    return [3.0 ** (update % 4 - 2) * torch.randn(width, generator=random, dtype=torch.float64) for width in WIDTHS]


def trained(names, seeds, hyperparameters=None, dtype=torch.float64, make=None):
    """Apply all gradients to a stack in which each run has its own optimiser; return parameters and optimiser."""
    stack, hyperparameters = Stack(seeds, dtype), hyperparameters or {}
    rates = torch.tensor([LR[name] for name in names], dtype=dtype)
    schedule = Schedule(rates, torch.full_like(rates, 3.0), torch.full_like(rates, 0.5), UPDATES)
    blocks = [(bound(name, **hyperparameters.get(name, {})), 1) for name in names]
    limits = torch.full_like(rates, 2.0)
    made = make(stack, schedule, limits) if make else Optimizer(stack, schedule, limits, blocks)
    for update in range(UPDATES):
        for place, parameter in enumerate(stack.rows):
            parameter.grad = torch.stack([gradients(seed, update)[place] for seed in seeds]).to(dtype)
        made.step()
    return [parameter.detach() for parameter in stack.rows], made


def by_torch(name, seed, hyperparameters):
    parameters = [nn.Parameter(row[0].detach().clone()) for row in Stack([seed]).rows]
    theirs = torchs(name, parameters, LR[name], CHOICES[name] | hyperparameters)
    climb = torch.optim.lr_scheduler.LambdaLR(
        theirs, lambda done: min(1.0, (done + 1) / 3) * (1 - 0.5 * done / UPDATES)
    )  # fmt: skip
    for update in range(UPDATES):
        for parameter, gradient in zip(parameters, gradients(seed, update), strict=True):
            parameter.grad = gradient.clone()
        nn.utils.clip_grad_norm_(parameters, 2.0)
        theirs.step()
        climb.step()
    return parameters


@pytest.mark.parametrize("hyperparameters", [{}, OTHERS], ids=["as shipped", "others"])
def test_each_is_that_of_torch_in_a_stack_of_all(hyperparameters):
    names = [*CHOICES, *CHOICES]
    ours, _ = trained(names, range(len(names)), hyperparameters)
    for seed, name in enumerate(names):
        for mine, theirs in zip(ours, by_torch(name, seed, hyperparameters.get(name, {})), strict=True):
            torch.testing.assert_close(mine[seed], theirs, **CLOSE, msg=lambda text, name=name: f"{name}: {text}")


def test_each_is_one_of_a_kind():
    """Otherwise the comparison above would prove little."""
    names = list(CHOICES)
    ours, _ = trained(names, [4] * len(names))
    assert len({tuple(row.tolist()) for row in ours[0]}) == len(names) == len(optimizer.FUNCTIONS) - 1


def test_nothing_is_kept_that_nobody_asks_for():
    _, made = trained(list(CHOICES), range(len(CHOICES)))
    for replica, name in enumerate(CHOICES):
        kept = made.kept_of(replica)
        assert set(kept) == KEPT[name] and all(each.shape == (sum(WIDTHS),) for each in kept.values()), name
        assert all(each.any() for each in kept.values())
    with pytest.raises(IndexError):
        made.kept_of(len(CHOICES))


@pytest.mark.bits
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_run_has_the_same_bits_alone_and_beside_others(dtype):
    names, seeds = ["adam", "sgd", "adamw", "adam", "momentum", "rmsprop", "adam"], [3, 1, 4, 1, 5, 9, 2]
    together, _ = trained(names, seeds, dtype=dtype)
    for place, (name, seed) in enumerate(zip(names, seeds, strict=True)):
        alone, _ = trained([name], [seed], dtype=dtype)
        assert all(torch.equal(one[0], many[place]) for one, many in zip(alone, together, strict=True)), name


def test_adam_of_the_warm_ups_is_adam_as_shipped():
    names = ["adam"] * 3
    ours, _ = trained(names, range(3), dtype=torch.float32)
    theirs, _ = trained(names, range(3), dtype=torch.float32, make=Adam)
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_a_factor_on_the_gradient_is_a_learning_rate_of_sgd_and_next_to_nothing_to_adam():
    """Whether normalising advantages is anything but a learning rate depends on this; ε is what is left of it."""
    gradient, rates = torch.randn(1, 9, generator=torch.Generator().manual_seed(1)).double(), torch.ones(1).double()

    def move(name, scale, rate=1.0):
        kept = {each: torch.zeros(1, 9).double() for each in KEPT[name]}
        given = {"gradient": scale * gradient, "rates": rate * rates, **kept}
        return bound(name)(**given, **({"updates": 1} if name.startswith("adam") else {}))

    torch.testing.assert_close(move("sgd", 7.0), move("sgd", 1.0, rate=7.0), **CLOSE)
    torch.testing.assert_close(move("adam", 7.0), move("adam", 1.0), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("overrides", "start"),
    [
        (["optimizer=sgd"], "optimizer=sgd lr=0.001: such a rate is Adam's"),
        (["optimizer=momentum"], "optimizer=momentum lr=0.001: such a rate is Adam's"),
        (["optimizer=sgd", "lr=0.5"], None),
        (["optimizer=rmsprop"], None),
        (["optimizer=adamw"], None),
    ],
)
def test_a_learning_rate_of_adam_gets_a_remark(overrides, start):
    found = list(remarks(read(values(*overrides))))
    assert [line.startswith(start) for line in found] == ([True] if start else [])
    assert math.isfinite(read(values(*overrides)).lr)
