"""The commands that a sweep was started with, from what Hydra keeps beside it."""

import shlex
from pathlib import Path
from typing import Any

from rlexp.analysis.data.read import read_object, read_yaml
from rlexp.runfolder.files import CONFIG_FILE, MULTIRUN_FILE, SUMMARY_FILE

OVERRIDES_FILE = ".hydra/overrides.yaml"
PROGRAM = "python -m rlexp.train"
WITHOUT_EFFECT = ("hydra.sweep.dir=", "hydra.run.dir=", "hydra.mode=")  # where results go changes none
WITHOUT_EFFECT += ("~hydra.callbacks.rlexp", "hydra/hydra_logging=none", "hydra/job_logging=none")  # of rlexp.api


def sweep_command(folder: Path) -> str | None:
    """Return the command of a sweep (or single run) without where it was to be written; None if it is not on record."""
    sweep = read_yaml(folder / MULTIRUN_FILE)
    for key in ("hydra", "overrides"):
        sweep = sweep.get(key) if isinstance(sweep, dict) else None
    if isinstance(sweep, dict):
        return _line(f"{PROGRAM} -m", [*sweep.get("task", []), *sweep.get("hydra", [])])
    single = read_yaml(folder / OVERRIDES_FILE)
    return _line(PROGRAM, single) if isinstance(single, list) else None


def run_command(folder: Path) -> str | None:
    """Return the command of one run of a sweep, by the overrides that Hydra kept or else by its saved configuration."""
    overrides = read_yaml(folder / OVERRIDES_FILE)
    if isinstance(overrides, list):
        return _line(PROGRAM, overrides)
    if (folder / CONFIG_FILE).exists():
        return f"{PROGRAM} --from {shlex.quote(str(folder.resolve()))}"
    return None


def versions(folders: list[str]) -> str:
    """Return `rlexp 0.1, torch 2.6`, from the first run that names its versions."""
    for folder in folders:
        packages = read_object(Path(folder) / SUMMARY_FILE)[0].get("versions")
        if isinstance(packages, dict) and packages:
            return ", ".join(f"{package} {version}" for package, version in packages.items())
    return ""


def _line(program: str, overrides: list[Any]) -> str:
    relevant = [str(override) for override in overrides if not str(override).startswith(WITHOUT_EFFECT)]
    return " ".join([program, *map(shlex.quote, relevant)])
