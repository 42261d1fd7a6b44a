"""The tables ``INPUTS`` are true: a function that asks for all of an axis' names gets all of them, of those shapes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from plain_step import Recipe
from toy_state import GROUP, PROMPTS, Toy, make_state, variant

from rlexp.axes import agg, anchor, clip, filter, kl, mismatch, norm, shaping, teacher
from rlexp.loop.state import Network
from rlexp.loop.step import train_step
from rlexp.models import GRU
from rlexp.models.layers import Init

# What stands for each axis in a variant, and what its function returns for tensors of a step.
FUNCTIONS = {
    "shaping": (shaping, lambda given: given["rewards"]),
    "filter_loss": (filter, lambda given: given["finished"]),
    "filter_statistics": (filter, lambda given: given["finished"]),
    "norm": (norm, lambda given: given["rewards"]),
    "teacher": (teacher, lambda given: given["advantages"]),
    "anchor": (anchor, lambda given: given["old_log_probs"]),
    "clip": (clip, lambda given: -given["advantages"] * given["log_probs"]),
    "mismatch": (mismatch, lambda given: given["losses"]),
    "agg": (agg, lambda given: given["losses"].sum((-1, -2, -3))),
    "kl": (kl, lambda given: given["log_probs"] - given["ref_log_probs"]),
}
SIZES = {"prompts": PROMPTS, "group": GROUP, "time": Toy.cap, "components": 2, "length": Toy.prompt_length}
SIZES["places"] = Toy.cap + 1


def asking_for(names, answer):
    """Return a function with these parameters, and the dict that it writes them to."""
    given = {}
    arguments = ", ".join(names)
    scope = {"given": given, "answer": answer}
    exec(f"def ask({arguments}):\n    given.update(locals())\n    return answer(given)", scope)
    return scope["ask"], given


@pytest.mark.parametrize("place", FUNCTIONS)
def test_what_is_offered_is_there(place):
    module, answer = FUNCTIONS[place]
    names = [name for name in module.INPUTS if name != "kl_factor"]
    function, given = asking_for(names, answer)
    recipe = Recipe(kl_in_loss=0.3)
    listening = replace(variant(recipe), **{place: function})
    state = make_state([(variant(recipe), 1), (listening, 1)], [0, 1], dtype=torch.float32)
    state.networks["teacher"] = Network(state.reference)
    state.networks["critic"] = Network(GRU(Init([0, 1]), Toy(), 1, hidden=2, layers=1))
    train_step(state, 1, False)
    assert set(given) == set(names)
    for name in names:
        axes = module.INPUTS[name].kind.dim_str.removeprefix("*replica").split()
        sizes = [SIZES.get(axis, 1 if axis == "1" else None) for axis in axes]
        assert len(given[name].shape) == 1 + len(axes), name
        assert all(size in (None, there) for size, there in zip(sizes, given[name].shape[1:], strict=True)), name


def test_a_reference_without_a_penalty_is_read_for_a_loss_that_asks(monkeypatch):
    """Not silently zero where nothing is measured."""
    function, given = asking_for(["log_probs", "ref_log_probs", "advantages"], FUNCTIONS["clip"][1])
    asking = replace(variant(Recipe()), clip=function)
    train_step(make_state([(asking, 2)], [0, 1]), 1, False)
    measured, expected = asking_for(["log_probs", "ref_log_probs", "advantages"], FUNCTIONS["clip"][1])
    train_step(make_state([(replace(asking, clip=measured), 2)], [0, 1]), 1, True)
    assert given["ref_log_probs"].any() and given["ref_log_probs"].equal(expected["ref_log_probs"])
