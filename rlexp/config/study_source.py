"""Shows Hydra each study of a claim as a file ``study/<name>.yaml``."""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from rlexp.config.choices import claimed_studies, study_text
from rlexp.config.conf_folder import CONF


class StudySource(ConfigSource):
    """The studies of claims; whatever else there is comes from the folder after it in Hydra's search path."""

    @staticmethod
    def scheme() -> str:
        """Return what stands before `://` in a search path."""
        return "studies"

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return config_path == "study"

    def is_config(self, config_path: str) -> bool:
        """Whether a path, as `study/c05_dynamic`, is a study of a claim."""
        group, _, name = config_path.partition("/")
        return group == "study" and study_text(name) is not None

    def load_config(self, config_path: str) -> ConfigResult:
        """Return a study of a claim with its name."""
        name = config_path.partition("/")[2]
        node = OmegaConf.create(study_text(name))
        node.study = OmegaConf.merge({"name": name}, node.get("study", {}))
        return ConfigResult(self.provider, self.full_path(), node, {"package": "_global_"})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        listed = self.is_group(config_path) and results_filter != ObjectType.GROUP
        return sorted(claimed_studies()) if listed else []


class StudiesFirst(SearchPathPlugin):
    """Puts the studies of claims before conf/, where Hydra reads that."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if any(element.path == str(CONF) for element in search_path.get_path()):
            search_path.prepend("studies", f"{StudySource.scheme()}://", SearchPathQuery(provider="main"))


for plugin in (StudySource, StudiesFirst):
    Plugins.instance().register(plugin)
