"""What an executor of the launcher needs, and what is wrong with its knobs, known before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

LIBRARIES = {"inline": None, "processes": "submitit", "slurm": "submitit", "ray": "ray"}
COUNTS = ("max_replicas", "workers", "cpus", "mem_gb", "minutes")


def elsewhere(launcher: Mapping[str, Any]) -> bool:
    """Whether batches may be trained on machines other than this one."""
    return launcher.get("executor") in ("ray", "slurm")


def executor_problem(launcher: Mapping[str, Any]) -> str | None:
    """Say why batches cannot be trained as the launcher's settings want it, if so."""
    executor = launcher["executor"]
    if executor not in LIBRARIES:
        return f"hydra.launcher.executor={executor}: must be one of {', '.join(LIBRARIES)}"
    for knob in COUNTS:
        if launcher.get(knob) is not None and launcher[knob] < 1:
            rest = ", or null for what fits memory" if knob == "max_replicas" else ""
            return f"hydra.launcher.{knob}={launcher[knob]}: must be at least 1{rest}"
    library = LIBRARIES[executor]
    if library and not find_spec(library):
        return f"hydra/launcher={executor} needs {library}, which is not installed: pip install {library}"
    if executor == "slurm" and not shutil.which("sbatch"):
        return "hydra/launcher=slurm needs sbatch, which is not on the PATH: start the sweep on a login node"
    return None
