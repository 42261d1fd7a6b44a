"""The settings of the launcher, and what is wrong with them, known before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rlexp.core.errors import ConfigError

LIBRARIES = {"local": None, "slurm": "submitit", "ray": "ray"}
COUNTS = ("workers", "cpus", "mem_gb", "minutes")


@dataclass(frozen=True)
class LauncherSettings:
    """Where batches are trained, how many runs a batch and a sweep have at most, and what only this executor has."""

    executor: str = "local"
    max_replicas: int | None = None  # None for what fits memory
    max_runs: int | None = None  # None for any number
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, executor: str, max_replicas: int | None, max_runs: int | None, **options: Any) -> LauncherSettings:
        """Make them of what Hydra hands to the launcher."""
        return cls(executor, max_replicas, max_runs, options)

    @classmethod
    def read(cls, config: DictConfig) -> LauncherSettings | None:
        """Return those of a composed config; None if another launcher is chosen."""
        if config.hydra.launcher is None:
            raise ConfigError(["hydra.launcher=null: a sweep needs one; hydra/launcher=basic is Hydra's own"])
        node = OmegaConf.to_container(config.hydra.launcher, resolve=True)
        target = node.pop("_target_")
        return cls.of(**node) if target.endswith(".FusedLauncher") else None

    @property
    def uses_other_machines(self) -> bool:
        """Whether batches may be trained on machines other than this one."""
        return self.executor in ("ray", "slurm")

    def problem(self) -> str | None:
        """Say why batches cannot be trained like this, if so."""
        if self.executor not in LIBRARIES:
            return f"hydra.launcher.executor={self.executor}: must be one of {', '.join(LIBRARIES)}"
        if self.max_replicas is not None and self.max_replicas < 1:
            return f"hydra.launcher.max_replicas={self.max_replicas}: must be at least 1, or null for what fits memory"
        if self.max_runs is not None and self.max_runs < 1:
            return f"hydra.launcher.max_runs={self.max_runs}: must be at least 1, or null for any number"
        for option in COUNTS:
            value = self.options.get(option)
            words = ("auto",) if self.executor == "local" else ()
            if value is not None and value not in words and not (isinstance(value, int) and value >= 1):
                return f"hydra.launcher.{option}={value}: must be {' or '.join([*words, 'at least 1'])}"
        return self.missing_program()

    def missing_program(self) -> str | None:
        """Name what has to be installed for the executor, if so."""
        library = LIBRARIES[self.executor]
        if library and not find_spec(library):
            return f"hydra/launcher={self.executor} needs {library}, which is not installed: pip install {library}"
        if self.executor == "slurm" and not shutil.which("sbatch"):
            return "hydra/launcher=slurm needs sbatch, which is not on the PATH: start the sweep on a login node"
        return None
