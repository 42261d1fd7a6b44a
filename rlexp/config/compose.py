"""How a list of overrides becomes a config without the command line; Hydra sees each study of a claim as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, ListConfig, OmegaConf

from rlexp.config.choices import CONF, studies
from rlexp.config.fast import read_once
from rlexp.config.parse import quote_numbers
from rlexp.core.hydra_compat import VERSION_BASE, register_resolver
from rlexp.runfolder.variants import run_name

if TYPE_CHECKING:
    from rlexp.config.schema import Config

READ: dict[tuple, tuple[Any, ConfigResult]] = {}  # the files of conf/ and of Hydra, in this process


class StudySource(ConfigSource):
    """Each study of a claim as a file ``study/<name>.yaml``; all else comes from the folder after it in the path."""

    @staticmethod
    def scheme() -> str:
        return "studies"

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return config_path == "study"

    def is_config(self, config_path: str) -> bool:
        group, _, name = config_path.partition("/")
        return group == "study" and name in studies()

    def load_config(self, config_path: str) -> ConfigResult:
        name = config_path.partition("/")[2]
        node = OmegaConf.create(studies()[name])
        node.study = OmegaConf.merge({"name": name}, node.get("study", {}))
        return ConfigResult(self.provider, self.full_path(), node, {"package": "_global_"})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        listed = self.is_group(config_path) and results_filter != ObjectType.GROUP
        return sorted(studies()) if listed else []


class StudiesFirst(SearchPathPlugin):
    """Puts the studies of claims before conf/, where Hydra reads that."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if any(element.path == str(CONF) for element in search_path.get_path()):
            search_path.prepend("studies", f"{StudySource.scheme()}://", SearchPathQuery(provider="main"))


for plugin in (StudySource, StudiesFirst):
    Plugins.instance().register(plugin)


def named_as_typed(overrides: ListConfig) -> str:
    """Return a run's name from its overrides as they were typed: `${start.seed}` makes no other variant."""
    return run_name(OmegaConf.to_container(overrides, resolve=False))


register_resolver("run_name", named_as_typed, replace=True)  # of config.yaml


def compose(*overrides: str, trusted: bool = False) -> Config:
    """Return the config that these overrides give on the command line; code that a folder names if it is trusted."""
    from rlexp.config.schema import read
    from rlexp.config.trust import check_folders

    if not trusted:
        check_folders(overrides)
    return read(plain(composed(*overrides)))


def composed(*overrides: str, with_hydra: bool = False) -> DictConfig:
    """Return what Hydra makes of the overrides, nothing checked; its own node is in it if that is wanted."""
    running = GlobalHydra.instance().hydra  # there can be one only; the command line's own is put back
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), **VERSION_BASE):
            for source in GlobalHydra.instance().config_loader().get_sources():
                if source.scheme() == "file" or source.path == "hydra.conf":
                    read_once(source, READ)
            return hydra_compose("config", quote_numbers(overrides), return_hydra_config=with_hydra)
    finally:
        GlobalHydra.instance().hydra = running


def plain(settings: DictConfig) -> dict[str, Any]:
    """Return the settings as plain values, without the node of Hydra itself."""
    return {key: plain_value(settings[key]) for key in settings if key != "hydra"}


def plain_value(value: Any) -> Any:
    """Return a container as plain values, anything else as it is."""
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=True) if OmegaConf.is_config(value) else value
