"""How far verl's advantages are from ours: computed on a batch, told in the notes of an export."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from exports import FRAMEWORKS, configured, exported
from small_runs import compose

from rlexp.export.verl_advantages import THERE, distance, example

ROUNDED = dict(rtol=1e-9, atol=1e-10)  # a few hundred additions in float64
KL = ["kl=k1", "kl.place=reward"]


def told(*overrides):
    """The sizes that an export to verl tells: of the difference, and of the largest advantage."""
    lines = [line for line in exported("verl", *overrides).differs if "advantages differ by up to" in line]
    return [tuple(map(float, re.search(r"up to (\S+), the largest being (\S+):", line).groups())) for line in lines]


# ---- verl's formulas, by loops


def loops_of(tensors):
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def returns_of(t, p, g):
    """Reward to go at each token of a completion."""
    length = int(t["mask"][p, g].sum())
    paid = [-t["token_penalties"][p, g, k] for k in range(length)]
    paid[-1] += t["outcomes"][p, g]
    return [sum(paid[k:]) for k in range(length)]


def by_token(t, values):
    """``values(p, g)`` side by side, one for each token."""
    prompts, group, _ = t["mask"].shape
    return np.array([value for p in range(prompts) for g in range(group) for value in values(p, g)])


def whitened(values):
    return (values - values.mean()) / np.sqrt(values.var(ddof=1) + 1e-8)


def constant(t, p, g, value):
    return [value] * int(t["mask"][p, g].sum())


def z_scores(values):
    return (values - values.mean(1, keepdims=True)) / (values.std(1, ddof=1, keepdims=True) + 1e-6)


BY_LOOPS = {
    "reinforce_pp": lambda t: whitened(by_token(t, lambda p, g: returns_of(t, p, g))),
    "remax": lambda t: by_token(t, lambda p, g: np.array(returns_of(t, p, g)) - t["greedy_rewards"][p, 0]),
    "reinforce_pp_baseline": lambda t: whitened(
        by_token(t, lambda p, g: constant(t, p, g, t["rewards"][p, g] - t["rewards"][p].mean()))
    ),
    "gdpo": lambda t: whitened(
        by_token(
            t,
            lambda p, g: constant(
                t, p, g, sum(w * z_scores(t["components"][..., k])[p, g] for k, w in enumerate(t["weights"]))
            ),
        )
    ),
    "gpg": lambda t: by_token(
        t,
        lambda p, g: constant(
            t, p, g, (t["rewards"][p, g] - t["rewards"][p].mean()) * t["rewards"].size / (t["rewards"] != 0).sum()
        ),
    ),
}


@pytest.mark.parametrize("name", BY_LOOPS)
def test_the_formulas_are_those_of_verl_by_loops(name):
    config = configured(f"norm={name}", *KL)
    tensors = example(config)
    found = THERE[name](tensors, config.norm)
    found = found if found.dim() == 3 else found.unsqueeze(-1).expand(tensors["mask"].shape)
    np.testing.assert_allclose(found[tensors["mask"]].numpy(), BY_LOOPS[name](loops_of(tensors)), **ROUNDED)


# ---- what is told


@pytest.mark.parametrize(
    "overrides",
    [
        ["preset=openrlhf"],
        ["preset=remax"],
        ["norm=reinforce_pp_baseline", *KL],
        ["norm=gdpo"],
        ["norm=gpg"],
        ["norm=optimal_token"],
        ["norm=gae_whitened", "critic=value", "norm.bootstrap=1.0"],
    ],
    ids=" ".join,
)
def test_an_export_tells_how_far_advantages_are_apart(overrides):
    config = compose(*overrides)
    ((apart, largest),) = told(*overrides)
    expected = distance(config.norm, config)
    assert (apart, largest) == (float(f"{expected[0]:.1g}"), float(f"{expected[1]:.1f}"))
    assert 1e-4 < apart < 3 * largest


def test_the_size_is_that_of_the_configuration():
    """KL in the reward tells of itself as its coefficient does."""
    sizes = [distance(config.norm, config)[0] for coef in (0.01, 0.1) for config in [remax(coef)]]
    assert sizes[1] == pytest.approx(10 * sizes[0])
    assert told("norm=remax", *KL, "kl.coef=0.1")[0][0] == float(f"{sizes[1]:.1g}")


def remax(coef):
    return compose("norm=remax", *KL, f"kl.coef={coef}")


@pytest.mark.parametrize(
    "overrides",
    [["norm=reinforce_pp", *KL], ["norm=local"], ["norm=center", *KL], ["norm=remax"], ["norm=reinforce_pp_baseline"]],
    ids=" ".join,
)
def test_nothing_is_told_where_they_are_the_same(overrides):
    assert told(*overrides) == []


IN_THE_REWARD = [kind.split()[0] for kind in FRAMEWORKS["verl"].table["kl"] if kind.endswith("in the reward")]


@pytest.mark.parametrize("name", IN_THE_REWARD)
def test_every_penalty_has_a_size(name):
    config = compose("norm=remax", f"kl={name}", "kl.place=reward", "kl.coef=0.1")
    assert 1e-3 < distance(config.norm, config)[0] < 1


def test_the_batch_has_what_makes_advantages_differ():
    tensors = example(compose(*KL))
    equal = (tensors["rewards"] == tensors["rewards"][:, :1]).all(-1)
    assert tensors["finished"].any() and not tensors["finished"].all() and not equal.all()
    alone = tensors["mask"].sum(1) == 1
    assert alone.any() and (tensors["token_penalties"] != 0).any()
    assert all(tensor.dtype in (torch.float64, torch.bool) for tensor in tensors.values())


def test_components_without_a_weight_are_not_asked_of_the_reward_function():
    settings = exported("verl", "norm=gdpo").settings
    assert settings["+algorithm.gdpo_reward_keys"] == ["exact", "graded"]
    assert settings["+algorithm.gdpo_reward_weights"] == [0.5, 0.5]
