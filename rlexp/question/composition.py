"""What a list of overrides composes to, flat: what two arms differ in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from rlexp.config.compose import composed, plain
from rlexp.runfolder.variants import flatten

WHO_ASKS = {"preset", "study", "baseline", "logger"}  # names and notes: no part of a recipe


def composition(overrides: Sequence[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the choice of each group, and what a run computes from these overrides, flat: `clip.high` → 0.28."""
    return _composition(tuple(overrides))


@cache
def _composition(overrides: tuple[str, ...]) -> tuple[dict[str, str], dict[str, Any]]:
    composed_ = composed(*overrides, with_hydra=True)
    values = {key: value for key, value in plain(composed_).items() if key not in WHO_ASKS}
    return dict(composed_.hydra.runtime.choices), dict(flatten(values))
