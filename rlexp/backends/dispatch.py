"""Training a batch of jobs, by the backend that their config chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlexp.sweep.job import Job, Results


def train_jobs(jobs: Sequence[Job], *shown: Any) -> Results:
    """Train jobs of one bucket; return for each its score, or the error that ended it. ``shown``: as the engine's."""
    if jobs[0].config.backend.name == "trl":
        from rlexp.backends.trl.run import train_job

        return [train_job(job, *shown) for job in jobs]
    from rlexp.sweep import engine

    return engine.train_jobs(jobs, *shown)
