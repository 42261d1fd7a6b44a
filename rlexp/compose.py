"""Where the YAML files are, and how a list of overrides becomes a config without the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from rlexp import naming  # noqa: F401 (registers the resolver of config.yaml)

if TYPE_CHECKING:
    from rlexp.config import Config

HERE = Path(__file__).resolve().parent
CONF = next(folder for folder in (HERE / "conf", HERE.parent / "conf") if (folder / "config.yaml").is_file())
NUMBERED_GROUPS = {"group_size"}

plain_value = Override.value


def value_or_choice(override: Override) -> Any:
    """Let a choice be called by a number: Hydra reads `group_size=8` as an integer and then refuses it as a choice."""
    value = plain_value(override)
    return str(value) if override.key_or_group in NUMBERED_GROUPS and isinstance(value, int) else value


Override.value = value_or_choice


def compose(*overrides: str) -> Config:
    """Return the config that these overrides give on the command line."""
    from rlexp.config import read

    return read(plain(composed(*overrides)))


def composed(*overrides: str) -> DictConfig:
    """Return what Hydra makes of the overrides, nothing checked."""
    running = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return hydra_compose("config", list(overrides))
    finally:
        GlobalHydra.instance().hydra = running


def plain(settings: DictConfig) -> dict[str, Any]:
    """Return the settings as plain values, without the node of Hydra itself."""
    settings = OmegaConf.masked_copy(settings, [key for key in settings if key != "hydra"])
    return OmegaConf.to_container(settings, resolve=True, throw_on_missing=True)
