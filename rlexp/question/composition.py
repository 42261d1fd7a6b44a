"""What a list of overrides composes to, once for each list but for numbers: composing is slow, and arms are many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from rlexp.config.compose import composed, plain
from rlexp.config.schema import Config, read
from rlexp.config.trust import check_folders
from rlexp.launch.hydra_private import numbers_apart, set_numbers
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


def composed_once(overrides: Sequence[str]) -> DictConfig:
    """Return what Hydra makes of the overrides, with its own node; lists that differ in numbers are composed once."""
    others, numbers = numbers_apart(overrides)
    try:
        return set_numbers(_read(others), numbers)
    except OmegaConfBaseException:  # which Hydra tells in a line
        return composed(*overrides, with_hydra=True)


@cache
def _composed(overrides: tuple[str, ...]) -> tuple[dict[str, str], dict[str, Any]]:
    settings = composed_once(overrides)
    return dict(settings.hydra.runtime.choices), plain(settings)


@cache
def _read(overrides: tuple[str, ...]) -> DictConfig:
    return composed(*overrides, with_hydra=True)
