"""Folders with YAML files of one's own, for ``rlexp`` alone; every Hydra program of the environment imports this."""

import sys

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class OwnFolders(SearchPathPlugin):
    """Lets Hydra look into the folders of ``rlexp.add_config_dir``, after those of rlexp itself."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the folders, if it is rlexp's configuration that is searched."""
        choices = sys.modules.get("rlexp.config.choices")
        main = next((each.path for each in search_path.get_path() if each.provider == "main"), "")
        if choices is not None and main.removeprefix("file://") == str(choices.CONF):
            choices.load_plugins()
            for folder in choices.FOLDERS:
                search_path.append(provider="rlexp", path=f"file://{folder}")
