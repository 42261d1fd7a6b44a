"""Which number a KL estimator estimates and which KL its gradient follows, exactly, on a categorical policy."""

from __future__ import annotations

import pytest
import torch
from axis_choices import CLOSE, bind, inputs

SHAPE = 6, 3, 4, 5


@pytest.mark.only("k2", "k3")
def test_k2_and_k3_are_not_negative(kl_choice):
    assert kl_choice(*inputs(kl_choice, *SHAPE)).ge(0).all()


def test_no_penalty_at_the_reference(kl_choice):
    log_probs, _ = inputs(kl_choice, *SHAPE)
    assert kl_choice(log_probs, log_probs).eq(0).all()


class Categorical:
    """Softmax policy over six actions with its reference; expectations are sums over all actions."""

    def __init__(self):
        random = torch.Generator().manual_seed(11)
        self.logits = torch.randn(6, generator=random, dtype=torch.float64).requires_grad_()
        self.log_probs = self.logits.log_softmax(-1)
        self.ref_log_probs = torch.randn(6, generator=random, dtype=torch.float64).log_softmax(-1)
        self.sampled = self.log_probs.detach().exp()

    def expectation(self, values: torch.Tensor) -> torch.Tensor:
        """E over actions sampled from π; the sampling itself has no gradient."""
        return (self.sampled * values).sum()

    def estimates(self, estimator) -> torch.Tensor:
        return estimator(*(x.view(1, 1, -1) for x in (self.log_probs, self.ref_log_probs))).view(-1)

    def slope(self, number: torch.Tensor) -> torch.Tensor:
        (gradient,) = torch.autograd.grad(number, self.logits, retain_graph=True)
        return gradient

    def kl(self) -> torch.Tensor:
        """KL(π‖π_ref)."""
        return (self.log_probs.exp() * (self.log_probs - self.ref_log_probs)).sum()

    def swapped_kl(self) -> torch.Tensor:
        """KL(π_ref‖π)."""
        return (self.ref_log_probs.exp() * (self.ref_log_probs - self.log_probs)).sum()


@pytest.mark.parametrize("name", ["k1", "k3"])
def test_k1_and_k3_are_unbiased_for_the_kl(name):
    world = Categorical()
    torch.testing.assert_close(world.expectation(world.estimates(bind("kl", name))), world.kl(), **CLOSE)


def test_k2_is_biased():
    world = Categorical()
    assert abs(world.expectation(world.estimates(bind("kl", "k2"))) - world.kl()) > 1e-3


@pytest.mark.parametrize(("name", "followed"), [("k2", "kl"), ("k3", "swapped_kl")])
def test_which_kl_an_estimator_follows_as_a_loss(name, followed):
    """1B-6, arXiv 2510.01555: k2 descends KL(π‖π_ref), k3 descends KL(π_ref‖π)."""
    world = Categorical()
    gradient = world.slope(world.expectation(world.estimates(bind("kl", name))))
    torch.testing.assert_close(gradient, world.slope(getattr(world, followed)()), **CLOSE)


def test_k1_as_a_loss_does_nothing():
    """1B-5: its expected on-policy gradient is zero, so it is no regulariser."""
    world = Categorical()
    gradient = world.slope(world.expectation(world.estimates(bind("kl", "k1"))))
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), **CLOSE)


def test_k1_in_the_reward_follows_the_kl():
    world = Categorical()
    penalties = world.estimates(bind("kl", "k1")).detach()
    gradient = world.slope(world.expectation(penalties * world.log_probs))
    torch.testing.assert_close(gradient, world.slope(world.kl()), **CLOSE)
