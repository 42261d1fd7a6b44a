"""Runs of several variants in one batch: each has the bits that it has alone, whatever its neighbours are."""

from __future__ import annotations

import math

import pytest
import torch
from step_fixtures import MODELS, RECIPES, trained
from toy_state import Toy, make_state, variant

from rlexp.sweep.training import HEALTH

pytestmark = pytest.mark.slow  # whole runs

BLOCKS = [
    (RECIPES["mixed"], 2),
    (RECIPES["kl_in_reward"], 1),
    (RECIPES["sequence"], 1),
    (RECIPES["to_go_penalised"], 2),
]
SEEDS = [0, 1, 0, 3, 4, 1]


def mixed_fleet(chosen=slice(None), **options):
    """Return the ``chosen`` replicas of a state of four variants, float32."""
    owners = [recipe for recipe, size in BLOCKS for _ in range(size)][chosen]
    blocks = [(variant(recipe), owners.count(recipe)) for recipe in dict.fromkeys(owners)]
    return make_state(blocks, SEEDS[chosen], dtype=torch.float32, inner_steps=2, minibatches=2, **options)


@pytest.mark.bits
@pytest.mark.parametrize("model", MODELS)
def test_a_run_is_bit_identical_alone_and_beside_other_variants(model):
    options = dict(temperatures=(1.7, 0.6), task=Toy(unjudged=2), **MODELS[model])
    together = mixed_fleet(**options)
    metrics = trained(together)
    for replica in range(len(SEEDS)):
        alone = mixed_fleet(slice(replica, replica + 1), **options)
        for name, values in trained(alone).items():
            torch.testing.assert_close(values[:, 0], metrics[name][:, replica], rtol=0, atol=0, equal_nan=True)
        for ours, theirs in zip(together.policy.parameters(), alone.policy.parameters(), strict=True):
            assert torch.equal(ours[replica], theirs[0])


@pytest.mark.parametrize("broken", [0, 3])
def test_a_replica_of_nan_leaves_the_others_unchanged(broken):
    healthy, infected = mixed_fleet(), mixed_fleet()
    with torch.no_grad():
        for parameter in infected.policy.parameters():
            parameter[broken] = math.nan
    expected, metrics = trained(healthy), trained(infected)
    others = [replica for replica in range(len(SEEDS)) if replica != broken]
    assert not all(metrics[name][:, broken].isfinite().any() for name in HEALTH)
    for name, values in expected.items():
        torch.testing.assert_close(metrics[name][:, others], values[:, others], rtol=0, atol=0, equal_nan=True)
    for ours, theirs in zip(infected.policy.parameters(), healthy.policy.parameters(), strict=True):
        assert torch.equal(ours[others], theirs[others])
