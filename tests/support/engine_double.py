"""An engine that trains nothing: launching is tested apart from training."""

import pytest

import rlexp.analysis.compare
from rlexp.backends import dispatch
from rlexp.sweep import build, engine


@pytest.fixture
def engine_of(monkeypatch):
    """Replace the engine by a function of the job, and the analysis by a word; return the batches that it was given."""
    batches = []

    def use(result):
        def train_jobs(jobs, title="rlexp", *shown):
            batches.append([job.name for job in jobs])
            return [result(job) for job in jobs]

        monkeypatch.setattr(engine, "train_jobs", train_jobs)
        monkeypatch.setattr(dispatch, "trainer", lambda backend: train_jobs)
        monkeypatch.setattr(build, "num_workers", lambda jobs, cores: 1)  # another process has no double
        monkeypatch.setattr(rlexp.analysis.compare, "report", lambda folder, **_: print("the table"))
        return batches

    return use
