"""Judged runs have the same bits alone and in a batch, whoever judges and whoever else is there."""

from __future__ import annotations

import pytest
from small_runs import BESIDE, SHORT, SMALL, compose, rows

from rlexp.config.compose import CONF
from rlexp.sweep.build import bucket_key, into_batches
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

AGAIN = ["refresh=2", "refresh_pairs=8", "refresh_updates=2", "worst_of=2"]
REFRESHED = ["steps=4", "minibatches=2", *(f"reward.model.{hyperparameter}" for hyperparameter in AGAIN)]
OTHERS = ["norm=local", "norm=remax", "filter=dynamic", "kl=k3", "temperature=0.7"]


def jobs(folder, overrides):
    """Return a job for each list of overrides."""
    for number, each in enumerate(overrides):
        path = folder / str(number)
        path.mkdir(parents=True)
        yield Job(compose(*SHORT, *SMALL, *each), path, str(number), " ".join(each))


def check_bits(tmp_path, overrides):
    """Train in as few batches as there are buckets, and each job alone."""
    together, alone = (list(jobs(tmp_path / name, overrides)) for name in ("together", "alone"))
    for batch in into_batches(together, None):
        assert all(isinstance(result, float) for result in train_jobs(batch))
    for one, other in zip(alone, together, strict=True):
        train_jobs([one])
        assert rows(one.folder) == rows(other.folder), one.variant


@pytest.mark.bits
@pytest.mark.slow
def test_every_judge_gives_the_same_bits_alone_and_together(tmp_path):
    names = sorted(path.stem for path in (CONF / "reward").glob("*.yaml"))
    check_bits(tmp_path, [[f"reward={name}", *BESIDE.get(f"reward={name}", [])] for name in names])


@pytest.mark.bits
@pytest.mark.rare  # further models
@pytest.mark.parametrize("model", ["transformer", "gru"])
def test_models_that_are_trained_again_give_the_same_bits_beside_others(tmp_path, model):
    judges = ["ensemble_mean", "ensemble_minimum", "ensemble_bound"]
    overrides = [
        [f"model={model}", f"reward={judges[n % 3]}", "reward.model.members=2", *REFRESHED, f"seed={n % 4}", other]
        + ["reward.model.pairs=40", "reward.model.updates=6"]
        for n, other in enumerate(OTHERS)
    ]
    check_bits(tmp_path, overrides)


def test_how_a_model_is_trained_decides_with_whom_but_who_judges_does_not():
    same = ["reward=ensemble_mean", "reward=ensemble_minimum", "reward=ensemble_bound"]
    assert len({bucket_key(compose(one)) for one in same}) == 1
    other = [[], ["reward=learned"], ["reward=learned", "reward.model.flips=0.1"], ["reward=ensemble_mean"]]
    assert len({bucket_key(compose(*one)) for one in other}) == 4
    assert bucket_key(compose("reward=prm")) == bucket_key(compose("reward=prm_length")) == bucket_key(compose())
