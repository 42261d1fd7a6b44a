"""Where the YAML files are: beside the package in a checkout, in it when it is installed."""

from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
CONF = next(folder for folder in (HERE / "conf", HERE.parent / "conf") if (folder / "config.yaml").is_file())
