"""The commands that a sweep was started with, from what Hydra keeps beside it."""

import shlex
from pathlib import Path
from typing import Any

from analysis.data.read import read_object, read_yaml

PROGRAM = "python -m rlexp.train"
WITHOUT_EFFECT = ("hydra.sweep.dir=", "hydra.run.dir=", "hydra.mode=")  # where results go changes none
WITHOUT_EFFECT += ("~hydra.callbacks.rlexp", "hydra/hydra_logging=none", "hydra/job_logging=none")  # of rlexp.api


def sweep_command(folder: Path) -> str | None:
    """The command line of a sweep (or single run), without where it was to be written; None if it is not on record."""
    sweep = _overrides(folder / "multirun.yaml", ("hydra", "overrides"))
    if sweep is not None:
        return _line(f"{PROGRAM} -m", [*sweep.get("task", []), *sweep.get("hydra", [])])
    single = read_yaml(folder / ".hydra/overrides.yaml")
    return _line(PROGRAM, single) if isinstance(single, list) else None


def run_command(folder: Path) -> str | None:
    """The command line of one run of a sweep, by the overrides that Hydra kept or else by its saved configuration."""
    overrides = read_yaml(folder / ".hydra/overrides.yaml")
    if isinstance(overrides, list):
        return _line(PROGRAM, overrides)
    if (folder / "config.yaml").exists():
        return f"{PROGRAM} --from {shlex.quote(str(folder.resolve()))}"
    return None


def versions(folders: list[str]) -> str:
    """`rlexp 0.1, torch 2.6`, from the first run that says so."""
    for folder in folders:
        packages = read_object(Path(folder) / "summary.json")[0].get("versions")
        if isinstance(packages, dict) and packages:
            return ", ".join(f"{package} {version}" for package, version in packages.items())
    return ""


def _overrides(path: Path, keys: tuple[str, ...]) -> dict[str, Any] | None:
    value = read_yaml(path)
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def _line(program: str, overrides: list[Any]) -> str:
    relevant = [str(override) for override in overrides if not str(override).startswith(WITHOUT_EFFECT)]
    return " ".join([program, *map(shlex.quote, relevant)])
