"""OpenRLHF's losses and advantages, made from what is exported, against a training step on the same tensors.

Needs its source alone: `pip install --no-deps openrlhf` (docs/export.md).
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import pytest
import torch
from openrlhf_losses import openrlhf_advantages, openrlhf_loss, openrlhf_modules
from small_runs import compose
from verl_losses import batch, distances, our_advantages, rewarded

if not find_spec("openrlhf"):
    pytest.skip("OpenRLHF is not installed: docs/export.md", allow_module_level=True)

pytestmark = pytest.mark.slow

CLOSE = 1e-6  # its KL is float32
LOSSES = [
    ["clip=unclipped"],
    ["clip=symmetric"],
    ["clip=higher"],
    ["clip=dual", "clip.c=1.2"],
    ["clip=two_sided"],
    ["clip=gspo", "agg=sequence", "entropy_coef=0"],
    ["agg=bnpo"],
    ["kl=k1", "kl.place=loss", "kl.coef=0.3"],
    ["kl=k2", "kl.place=loss", "kl.coef=0.3"],
    ["kl=k3", "kl.coef=0.3"],
    ["mismatch=token_truncate", "mismatch.low=0.8", "mismatch.high=1.2"],
    ["mismatch=token_mask", "mismatch.low=0.8", "mismatch.high=1.2"],
]
DIFFERENT = [
    ["clip=gspo", "agg=sequence"],
    ["clip=gspo", "agg=sequence", "entropy_coef=0", "mismatch=token_truncate"],
    ["mismatch=sequence_mask"],
]


@pytest.fixture(scope="module")
def openrlhf():
    with openrlhf_modules() as modules:
        yield modules


def without_empty_completions():
    """Tensors of a minibatch; OpenRLHF takes completions without tokens out of their number."""
    tensors = batch()
    tensors["mask"][..., 0] = True
    return tensors | {"mean_tokens": tensors["mask"].sum((-1, -2, -3)).double()}


@pytest.mark.parametrize("overrides", LOSSES, ids=" ".join)
def test_the_loss_is_that_of_openrlhf(openrlhf, overrides):
    theirs = partial(openrlhf_loss, openrlhf)
    assert max(distances((*overrides, "minibatches=1"), without_empty_completions(), theirs)) < CLOSE


@pytest.mark.parametrize("overrides", DIFFERENT, ids=" ".join)
def test_where_the_export_says_so_the_loss_of_openrlhf_is_another(openrlhf, overrides):
    theirs = partial(openrlhf_loss, openrlhf)
    assert distances((*overrides, "minibatches=1"), without_empty_completions(), theirs)[1] > 0.01


NORMS = ["center", "local", "rloo", "reinforce_pp_openrlhf", "reinforce_pp_baseline"]


@pytest.mark.parametrize("name", NORMS)
def test_the_advantages_are_those_of_openrlhf(openrlhf, name):
    overrides = (f"norm={name}", *(["norm.ddof=0"] if name == "reinforce_pp_baseline" else []))
    tensors = rewarded()
    theirs = openrlhf_advantages(openrlhf, overrides, tensors)
    torch.testing.assert_close(our_advantages(compose(*overrides), tensors), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["reinforce_pp_openrlhf", "reinforce_pp_baseline"])
def test_penalties_of_later_tokens_are_in_both_advantages(openrlhf, name):
    overrides = (f"norm={name}", "norm.ddof=0", "kl=k1")
    tensors = rewarded(penalty=1.0)
    theirs = openrlhf_advantages(openrlhf, overrides, tensors)
    torch.testing.assert_close(our_advantages(compose(*overrides), tensors), theirs, rtol=1e-4, atol=1e-5)


def test_the_discount_of_reinforce_baseline_is_always_1(openrlhf):
    overrides, tensors = ("norm=reinforce_pp_baseline", "norm.ddof=0", "norm.gamma=0.5"), rewarded()
    theirs = openrlhf_advantages(openrlhf, overrides, tensors)
    assert (our_advantages(compose(*overrides), tensors) - theirs).abs().max() > 0.01
    undiscounted = our_advantages(compose(*overrides[:2]), tensors)
    torch.testing.assert_close(undiscounted, theirs, rtol=1e-4, atol=1e-5)


def test_a_small_variance_is_clamped_there(openrlhf):
    """Rewards that differ by 1e-5 are divided by 1e-4 there, by their deviation and 1e-8 here."""
    tensors = rewarded()
    tensors["outcomes"] = tensors["rewards"] = 1e-5 * tensors["outcomes"]
    theirs = openrlhf_advantages(openrlhf, ("norm=reinforce_pp_openrlhf",), tensors)
    ours = our_advantages(compose("norm=reinforce_pp_openrlhf"), tensors)
    assert 5 < ours.abs().max() / theirs.abs().max() < 20
