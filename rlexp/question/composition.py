"""What a list of overrides composes to, once for each list: composing is slow where many arms are checked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from rlexp.config.compose import composed, plain
from rlexp.config.schema import Config, read
from rlexp.config.trust import check_folders
from rlexp.runfolder.variants import flatten

WHO_ASKS = {"preset", "study", "baseline", "logger"}  # names and notes: no part of a recipe


def composition(overrides: Sequence[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the choice of each group, and what a run computes from these overrides, flat: `clip.high` → 0.28."""
    choices, values = _composed(tuple(overrides))
    return choices, dict(flatten({key: value for key, value in values.items() if key not in WHO_ASKS}))


def config_of(overrides: Sequence[str]) -> Config:
    """Return the checked config of a run, as ``compose``."""
    check_folders(overrides)
    return read(_composed(tuple(overrides))[1])


@cache
def _composed(overrides: tuple[str, ...]) -> tuple[dict[str, str], dict[str, Any]]:
    found = composed(*overrides, with_hydra=True)
    return dict(found.hydra.runtime.choices), plain(found)
