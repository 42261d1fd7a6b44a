"""Runs of a few steps with checkpoints, and what stops them in the middle."""

from functools import partial

import pytest
from small_runs import SHORT, SMALL, compose, rows

from rlexp.sweep import training
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

LONG = [*SHORT, *SMALL, "steps=12", "eval.every=4", "log_every=2", "checkpoint_every=3"]


def jobs(folder, *overrides, variants=("local", "running"), seeds=(0, 1)):
    found = []
    for name in variants:
        for seed in seeds:
            place = folder / f"{name}{seed}"
            place.mkdir(parents=True, exist_ok=True)
            found.append(Job(compose(*LONG, f"norm={name}", f"seed={seed}", *overrides), place, place.name, name))
    return found


@pytest.fixture
def stop_at(monkeypatch):
    """Return a function that makes the engine raise at the start of a step, once."""
    return partial(stop_engine, monkeypatch)


def stop_engine(patch, number):
    step = training.train_step

    def stopping(state, now, measure):
        if now == number:
            patch.setattr(training, "train_step", step)
            raise KeyboardInterrupt
        return step(state, now, measure)

    patch.setattr(training, "train_step", stopping)


def one_of_each(folder, *overrides, variants):
    return [
        job for seed, name in enumerate(variants) for job in jobs(folder, *overrides, variants=[name], seeds=[seed])
    ]


def same_alone_together_and_resumed(folder, stop_at, *overrides, variants=("local", "running")):
    """Train each variant with a seed of its own: all must write the same rows as one batch, alone, and gone on with."""
    places = (one_of_each(folder / place, *overrides, variants=variants) for place in ("all", "one", "parts"))
    same_in_three_ways(*places, stop_at, 8)


def same_in_three_ways(together, alone, parts, stop_at, step):
    """Train the same jobs as one batch, one by one, and stopped at a step and gone on with; return the first."""
    scores = train_jobs(together)
    for job in alone:
        train_jobs([job])
    stop_at(step)
    with pytest.raises(KeyboardInterrupt):
        train_jobs(parts)
    assert train_jobs(parts) == scores
    for one, other, third in zip(together, alone, parts, strict=True):
        assert rows(one.folder) == rows(other.folder) == rows(third.folder), one.name
    return together
