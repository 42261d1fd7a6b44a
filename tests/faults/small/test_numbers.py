"""Float32 is as good as float64 for every function of every axis; one that is not is found."""

import pytest
import torch

from rlexp.axes.clip import naive
from tests.faults import numbers


@pytest.mark.rare
def test_no_function_loses_a_number():
    checked, found, known = numbers.look()
    assert checked > 2000 and found == []
    assert {each["reason"] for each in known} <= {numbers.CONSTANT}


class Squared(numbers.Choice):
    """A policy loss whose weight is the square of the ratio: e^100 is no float32."""

    needs = ("log_probs", "old_log_probs", "advantages")

    def __call__(self, log_probs, old_log_probs, advantages):
        return -(2 * (log_probs - old_log_probs)).exp() * advantages


class Rounded(Squared):
    def __call__(self, log_probs, old_log_probs, advantages):
        return -(log_probs + 1e6 - old_log_probs - 1e6).exp() * advantages


def found(kind, scene):
    return [*numbers.findings(kind("clip", "wrong", "wrong", {}, naive), scene, numbers.SCENES[scene]())]


def test_a_loss_that_overflows_is_found():
    value, *_ = found(Squared, "log-ratios +50")
    assert value.startswith("value: ") and "not finite" in value
    assert not found(Squared, "ordinary")


def test_a_rounding_that_is_large_is_found():
    assert any("differs by" in text for text in found(Rounded, "ordinary"))


def test_the_scenes_are_what_they_are_called():
    far = numbers.SCENES["log-ratios +50"]()
    assert torch.allclose(far["log_probs"] - far["old_log_probs"], torch.tensor(50.0))
    assert not numbers.SCENES["nothing counts"]()["mask"].any()
