"""Which number a KL estimator estimates and which KL its gradient follows, exactly, on a categorical policy."""

from __future__ import annotations

import pytest
import torch
from axis_choices import AXES, CLOSE, CONF, bind, choices, inputs

from benchmarks.parts.yaml_files import comment

SHAPE = 6, 3, 4, 5
WORLDS = range(3)
# What an estimator's mean over tokens from π is; those that are not named are biased.
UNBIASED = {"k1", "k3", "low_var_kl", "k1_plus", "k3_plus", "k1_corrected", "k3_corrected"}
# What the expected gradient of an estimator as a loss is the gradient of.
FOLLOWED = {
    "none": "nothing",
    "k1": "nothing",  # 1B-5: no regulariser
    "k2": "kl",
    "k3": "swapped_kl",  # 1B-6, arXiv 2510.01555
    "low_var_kl": "swapped_kl",  # while no token is beyond its bound
    "abs": "distance",
    "k1_plus": "kl",
    "k3_plus": "kl",
    "k1_corrected": "kl",
    "k2_corrected": "kl",
    "k3_corrected": "kl",
    "k2_sampler": "kl",
}
# How a YAML says so.
SAID = {
    "nothing": "its gradient is zero in expectation",
    "kl": "its gradient is that of KL(π‖π_ref)",
    "swapped_kl": "its gradient is that of KL(π_ref‖π)",
    "distance": "its gradient is that of Σ |π − π_ref|",
}
CORRECTED = {"k1_corrected", "k2_corrected", "k3_corrected"}


@pytest.mark.only("k2", "k3", "low_var_kl", "abs", "k3_plus", "k2_corrected", "k3_corrected")
def test_those_that_look_like_a_distance_are_not_negative(kl_choice):
    assert kl_choice(*inputs(kl_choice, *SHAPE)).ge(0).all()


def test_no_penalty_at_the_reference(kl_choice):
    log_probs, _, *sampled = inputs(kl_choice, *SHAPE)
    assert kl_choice(log_probs, log_probs, *sampled).eq(0).all()


class Categorical:
    """Softmax policy over six tokens, its reference, the policy that sampled; expectations are sums over all tokens.

    What a penalty measures the policy against is the reference, by whatever name it asks for it.

    The three are near enough for no token to be beyond the bound of ``low_var_kl``.
    """

    def __init__(self, seed: int, on_policy: bool = True):
        random = torch.Generator().manual_seed(seed)
        logits, ref, old = 0.5 * torch.randn(3, 6, generator=random, dtype=torch.float64)
        self.logits = logits.requires_grad_()
        self.log_probs = self.logits.log_softmax(-1)
        self.ref_log_probs = self.sampler_log_probs = ref.log_softmax(-1)
        self.old_log_probs = self.log_probs.detach() if on_policy else old.log_softmax(-1)
        self.log_ratio_bound = torch.tensor(20.0)

    def expectation(self, values: torch.Tensor) -> torch.Tensor:
        """E over tokens of the policy that sampled; the sampling itself has no gradient."""
        return (self.old_log_probs.exp() * values).sum()

    def estimates(self, estimator) -> torch.Tensor:
        found = (getattr(self, name) for name in estimator.needs)
        return estimator(*(each.view(1, 1, -1) if each.dim() else each for each in found)).view(-1)

    def slope(self, number: torch.Tensor) -> torch.Tensor:
        (gradient,) = torch.autograd.grad(number + 0 * self.logits.sum(), self.logits, retain_graph=True)
        return gradient

    def followed(self, estimator) -> torch.Tensor:
        """Expected gradient of the estimator as a loss."""
        return self.slope(self.expectation(self.estimates(estimator)))

    def nothing(self) -> torch.Tensor:
        return torch.zeros((), dtype=torch.float64)

    def kl(self) -> torch.Tensor:
        """KL(π‖π_ref)."""
        return (self.log_probs.exp() * (self.log_probs - self.ref_log_probs)).sum()

    def swapped_kl(self) -> torch.Tensor:
        """KL(π_ref‖π)."""
        return (self.ref_log_probs.exp() * (self.ref_log_probs - self.log_probs)).sum()

    def distance(self) -> torch.Tensor:
        """Σ |π − π_ref|."""
        return (self.log_probs.exp() - self.ref_log_probs.exp()).abs().sum()


def test_every_estimator_says_what_it_follows():
    assert set(FOLLOWED) == set(AXES["kl"])


@pytest.mark.holds("E6")
def test_every_yaml_says_whose_gradient_it_has(kl_choice):
    if kl_choice.name != "none":
        told = comment(CONF / "kl" / f"{kl_choice.label}.yaml").replace("π_sampler", "π_ref")
        assert SAID[FOLLOWED[kl_choice.name]] in told


@pytest.mark.holds("S2.12")
def test_what_the_value_of_an_estimator_is(kl_choice):
    for world in map(Categorical, WORLDS):
        error = world.expectation(world.estimates(kl_choice)) - world.kl()
        assert (error.abs() < CLOSE["atol"]) == (kl_choice.name in UNBIASED)


@pytest.mark.holds("E5")
def test_whose_gradient_an_estimator_has_as_a_loss(kl_choice):
    for world in map(Categorical, WORLDS):
        expected = world.slope(getattr(world, FOLLOWED[kl_choice.name])())
        torch.testing.assert_close(world.followed(kl_choice), expected, **CLOSE)


def test_off_policy_only_the_corrected_keep_their_gradient(kl_choice):
    for seed in WORLDS:
        world = Categorical(seed, on_policy=False)
        error = world.followed(kl_choice) - world.slope(getattr(world, FOLLOWED[kl_choice.name])())
        assert (error.norm() < 1e-10) == (kl_choice.name in CORRECTED | {"none"})
        if kl_choice.name in CORRECTED & UNBIASED:
            torch.testing.assert_close(world.expectation(world.estimates(kl_choice)), world.kl(), **CLOSE)


@pytest.mark.parametrize(("name", "swapped"), [("k1", 0), ("k3", -1)])
def test_whose_gradient_an_unbiased_estimator_has_in_the_reward(name, swapped):
    """Score-function gradient of what is a number there: that of the KL for k1; k3 pushes away from the swapped one."""
    world = Categorical(0)
    gradient = world.slope(world.expectation(world.estimates(bind("kl", name)).detach() * world.log_probs))
    expected = world.slope(world.kl()) + swapped * world.slope(world.swapped_kl())
    torch.testing.assert_close(gradient, expected, **CLOSE)


@pytest.mark.only("none", "k1", "k2", "k3", "low_var_kl", "abs", "k2_sampler")
def test_in_the_reward_the_gradient_is_that_of_the_mean_less_that_as_a_loss(kl_choice):
    world = Categorical(0)
    estimates = world.estimates(kl_choice)
    gradient = world.slope(world.expectation(estimates.detach() * world.log_probs))
    mean = (world.log_probs.exp() * estimates).sum()
    torch.testing.assert_close(gradient, world.slope(mean) - world.followed(kl_choice), **CLOSE)


@pytest.mark.only("k1_plus", "k3_plus", "k1_corrected", "k2_corrected", "k3_corrected")
def test_in_the_reward_the_variants_of_an_estimator_are_the_estimator(kl_choice):
    world = Categorical(0)
    plain = bind("kl", kl_choice.name.partition("_")[0])
    torch.testing.assert_close(world.estimates(kl_choice), world.estimates(plain), rtol=0, atol=0)


def test_a_token_beyond_the_bound_has_no_gradient_and_the_others_keep_theirs():
    """k3 is unbounded where π has given a token up: there the clamp, which acts on nothing else, ends the pull back."""
    world = Categorical(0)
    clamped, plain = (
        world.expectation(world.estimates(bind("kl", name, **hyperparameters)))
        for name, hyperparameters in {"low_var_kl": {"bound": 0.3}, "k3": {}}.items()
    )
    beyond = world.estimates(bind("kl", "k3")) > 0.3
    assert beyond.any() and not beyond.all()
    pulls = (world.log_probs.exp() - world.ref_log_probs.exp()).detach()
    expected = world.slope((pulls * world.log_probs)[~beyond].sum())
    torch.testing.assert_close(world.slope(clamped), expected, **CLOSE)
    assert clamped < plain


@pytest.mark.parametrize("distance", [-200.0, 200.0])
def test_the_clamps_keep_value_and_gradient_finite(distance):
    log_probs = torch.tensor([[[distance]]], requires_grad=True)
    (choice,) = (choice for choice in choices("kl") if choice.name == "low_var_kl")
    penalty = choice(log_probs, torch.zeros(1, 1, 1))
    penalty.sum().backward()
    assert penalty.item() == choice.hyperparameters["bound"] and log_probs.grad.item() == 0
