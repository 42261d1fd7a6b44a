"""What is offered where tests/loop/test_offered.py does not look arrives, and is of the type that the table says."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
import torch
from plain_step import Recipe
from toy_state import make_state, variant

from rlexp.axes import filter, kl, kl_control, reference, sampler
from rlexp.core.memory import Memory
from rlexp.loop.step import train_step


def asking(offered, result):
    """Return a function that asks for all of a table, and the list of what it was given."""
    calls = []

    def function(**given):
        calls.append(given)
        return result(given)

    names = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in offered]
    function.__signature__ = inspect.Signature(names)
    return function, calls


def factor(function):
    return {"memories": {"kl_factor": Memory("kl_factor", lambda: 1.0, function, "")}}


# The table, what a function that asks for all of it returns, and the variant that has it.
PLACES = {
    "sampler": (sampler.INPUTS, lambda given: given["log_probs"], lambda f: {"sampler": f}),
    "refill": (
        filter.OFFERED_TO_REFILL,
        lambda given: given["finished"],
        lambda f: {"filter_refill": f, "refill_rounds": 2},
    ),
    "kl in the reward": (
        kl.INPUTS,
        lambda given: given["log_probs"] - given["ref_log_probs"],
        lambda f: {"kl": f, "kl_in_reward": 0.1},
    ),
    "kl_control": (kl_control.INPUTS, lambda given: given["advantages"].sum((-1, -2, -3)), factor),
    "reference": (reference.INPUTS, lambda given: given["reference"], lambda f: {"reference": f}),
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_offered_is_given(place):
    offered, result, fields = PLACES[place]
    function, calls = asking(offered, result)
    plain = variant(Recipe())
    state = make_state([(replace(plain, **fields(function)), 1), (plain, 1)], [0, 1], dtype=torch.float32)
    train_step(state, 1, False)
    assert calls
    for given in calls:
        wrong = [name for name, offer in offered.items() if not isinstance(given[name], offer.kind)]
        assert not wrong, f"{place} is given something else as {wrong}"
