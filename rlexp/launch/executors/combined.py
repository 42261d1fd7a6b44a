"""The progress of several processes as that of one sweep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from rlexp.record.progress import Progress
from rlexp.sweep.job import Batch, Job, Results


class CombinedProgress:
    """Context manager that shows the progress of jobs: the mean step of the runs, all that are alive, all rewards."""

    def __init__(self, jobs: Sequence[Job]):
        self.places = {job.number: place for place, job in enumerate(jobs)}
        self.steps, self.alive, self.rewards = [0] * len(jobs), [True] * len(jobs), [math.nan] * len(jobs)
        self.display = Progress([job.variant for job in jobs], round(fmean(job.config.steps for job in jobs)))

    def __enter__(self) -> CombinedProgress:
        self.display.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.display.__exit__(*error)

    def update(self, numbers: Sequence[int], step: int, alive: Sequence[bool], rewards: Sequence[float]) -> None:
        """Show a step that some jobs have logged."""
        for number, lives, reward in zip(numbers, alive, rewards, strict=True):
            place = self.places[number]
            self.steps[place], self.alive[place], self.rewards[place] = step, lives, reward
        self.display.update(round(fmean(self.steps)), list(self.alive), list(self.rewards))

    def end(self, batch: Batch, results: Results) -> None:
        """Count all steps of a batch that has ended, those of runs that had ended before or have died too."""
        for job, result in zip(batch.jobs, results, strict=True):
            place = self.places[job.number]
            self.steps[place], self.alive[place] = job.config.steps, not isinstance(result, Exception)
        self.display.update(round(fmean(self.steps)), list(self.alive), list(self.rewards))
