"""A function that asks for what there is not, or for something else than it is, is refused when the schema is built."""

from __future__ import annotations

import pytest
from jaxtyping import Float
from torch import Tensor

from rlexp.axes import norm
from rlexp.axes.offered import REMEMBERED
from rlexp.core import memory
from rlexp.core.memory import Memory
from rlexp.core.registry import Offer, schema, short
from rlexp.core.types import CompletionMask, PerCompletion, PerReplica, TokenMask


def unknown(rewards: PerCompletion, foo: PerCompletion) -> PerCompletion:
    return rewards


def untyped(rewards) -> PerCompletion:
    return rewards


def other(rewards: PerCompletion, keep: TokenMask) -> PerCompletion:
    return rewards


WRITTEN_OUT = Float[Tensor, "*replica prompts group"]  # noqa: F722


def same(rewards: WRITTEN_OUT, *, hyperparameter: float) -> PerCompletion:
    return rewards


def remembering(rewards: PerCompletion, level: PerReplica) -> PerCompletion:
    return rewards


def start() -> float:
    return 0.0


def update(level: PerReplica, rewards: PerCompletion) -> PerReplica:
    return level


def greedy_update(level: PerReplica, greedy_rewards: PerCompletion) -> PerReplica:
    return level


MEMORIES = {"remembering": Memory("level", start, update, "the level")}


def built(function, memories=None):
    return schema({function.__name__: function}, norm.INPUTS, "norm", memories)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (unknown, r"^norm=unknown asks for `foo`, which norm is not offered; there are adjustments, .*weights$"),
        (other, r"^norm=other asks for `keep` as bool \[\*R P G T\], and it is bool \[\*R P G\]$"),
        (remembering, r"^norm=remembering asks for `level`, which norm is not offered"),
    ],
)  # fmt: skip
def test_what_is_not_offered_is_refused(function, text):
    with pytest.raises(TypeError, match=text):
        built(function)


def test_a_type_may_be_written_out_or_left_out_and_hyperparameters_are_none_of_it():
    built(same)
    built(untyped)


def test_a_memory_is_offered_to_the_choice_that_has_it_and_to_its_update():
    offers = memory.offers("norm", MEMORIES, REMEMBERED)
    built(remembering, offers)
    assert offers == {"remembering": {"level": Offer(PerReplica, "the level")}}
    with pytest.raises(TypeError, match="norm=remembering asks for `greedy_rewards`, which norm is not offered"):
        memory.offers("norm", {"remembering": Memory("level", start, greedy_update, "")}, REMEMBERED)


def test_a_type_in_short():
    kinds = [CompletionMask, PerReplica, Tensor, int]
    assert [short(kind) for kind in kinds] == ["bool [*R P G]", "float [*R]", "Tensor", "int"]
