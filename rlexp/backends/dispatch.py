"""Who trains a batch of jobs: the backend that their config chooses."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from rlexp.core.exits import RunFailed
from rlexp.sweep.job import Results

# The module whose ``train_jobs`` trains; imported when it is chosen, as each imports much.
TRAINERS = {"replicas": "rlexp.sweep.engine", "trl": "rlexp.backends.trl.run"}


def trainer(backend: str) -> Callable[..., Results]:
    """Return what trains jobs of one bucket and returns for each its score, or the error that ended it."""
    if backend not in TRAINERS:
        raise RunFailed(f"backend={backend}: nothing trains it; must be one of {', '.join(TRAINERS)}")
    return import_module(TRAINERS[backend]).train_jobs
