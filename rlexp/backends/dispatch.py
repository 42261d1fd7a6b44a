"""Training a batch of jobs, by the backend that their config chooses."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rlexp.core.exits import RunFailed
from rlexp.sweep.job import Job, Results

# The module whose ``train_jobs`` trains; imported when it is chosen, as each imports much.
TRAINERS = {"replicas": "rlexp.sweep.engine", "trl": "rlexp.backends.trl.run"}


def train_jobs(jobs: Sequence[Job], *shown: Any) -> Results:
    """Train jobs of one bucket; return for each its score, or the error that ended it. ``shown``: as the engine's."""
    name = jobs[0].config.backend.name
    if name not in TRAINERS:
        raise RunFailed(f"backend={name}: nothing trains it; must be one of {', '.join(TRAINERS)}")
    return import_module(TRAINERS[name]).train_jobs(jobs, *shown)
