"""Where the YAML files are: beside the package in a checkout, in it when it is installed, and where plugins say."""

import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
CONF = next(folder for folder in (HERE / "conf", HERE.parent / "conf") if (folder / "config.yaml").is_file())
FOLDERS: list[Path] = []  # those of ``rlexp.add_config_dir``
ENTRY_POINTS = "rlexp.plugins"


@cache
def load_plugins() -> None:
    """Import the modules that installed packages name as plugins; one that fails is named on stderr and left out."""
    for plugin in entry_points(group=ENTRY_POINTS):
        try:
            plugin.load()
        except Exception as error:
            print(f"note: the plugin {plugin.name} ({plugin.value}) is left out: {error}", file=sys.stderr)
