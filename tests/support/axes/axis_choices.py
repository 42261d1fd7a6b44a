"""The axes as the tests of the whole project name them; what is done with them is ``rlexp.testing``."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter

from rlexp.axes import axis_of
from rlexp.config.choices import CONF
from rlexp.core.registry import schema
from rlexp.testing.batches import (
    advantages_of,
    advantages_of_rewards,
    moments,
    norm_inputs,
)
from rlexp.testing.batches import batch as numbers
from rlexp.testing.choices import (
    BATCH_AXES,
    Choice,
    bind,
    choice_of,
    file_of,
    memory_shapes,
)
from rlexp.testing.choices import shipped as choices
from rlexp.testing.contract import CLOSE, inputs, same_bits, slopes

__all__ = [
    "AXES",
    "CLOSE",
    "CONF",
    "Choice",
    "advantages_of",
    "advantages_of_rewards",
    "bind",
    "choice_of",
    "choices",
    "file_of",
    "inputs",
    "memory_shapes",
    "moments",
    "norm_inputs",
    "numbers",
    "same_bits",
    "schema_of",
    "slopes",
]
AXES = {name: axis_of(name).functions for name in BATCH_AXES}


@cache
def schema_of(axis: str) -> TypeAdapter:
    """Return what checks the hyperparameters of an axis; to make it takes longer than most tests."""
    return TypeAdapter(schema(AXES[axis]))
