"""Whole runs with penalties, moving references and adaptive coefficients: alone, together, interrupted."""

from __future__ import annotations

import json
from itertools import cycle

import pytest
from axis_choices import choices
from interrupted import jobs, stop_at  # noqa: F401 (a fixture)
from small_runs import SHORT, SMALL, compose, rows

from rlexp.record import checkpoint
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

FOLLOWING = ["reference=frozen", "reference=copy reference.every=1", "reference=polyak reference.rate=0.3"]
CONTROL = ["kl_control=fixed", "kl_control=adaptive kl_control.horizon=50", "kl_control=ziegler kl_control.target=0.2"]
EVENTFUL = [
    "kl=k2",
    "kl.coef=0.3",
    "reference=trl",
    "reference.every=3",
    "kl_control=adaptive",
    "kl_control.horizon=50",
]


def mixed():
    """A run for every estimator and place, each with one of the references and controllers; two seeds."""
    names = [choice.label for choice in choices("kl") if choice.name != "none"]
    penalties = [f"kl={name} kl.place={place} kl.coef=0.3" for place in ("loss", "reward") for name in names]
    beside = cycle([(a, b) for a in FOLLOWING for b in CONTROL])
    for number, (penalty, (follow, control)) in enumerate(zip(penalties, beside, strict=False)):
        yield [*penalty.split(), *follow.split(), *control.split(), f"seed={number % 2}", "steps=3", "inner_steps=2"]


def placed(folder, label):
    for number, overrides in enumerate(mixed()):
        place = folder / label / str(number)
        place.mkdir(parents=True)
        yield Job(compose(*SHORT, *SMALL, "model=gru", *overrides), place, place.name, str(number))


@pytest.mark.bits
@pytest.mark.slow
def test_penalties_give_the_same_bits_alone_and_in_a_mixed_batch(tmp_path):
    together, alone = list(placed(tmp_path, "together")), list(placed(tmp_path, "alone"))
    train_jobs(together)
    for one, other in zip(alone, together, strict=True):
        train_jobs([one])
        assert rows(one.folder) == rows(other.folder), one.config.kl


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    """Return runs and their scores."""
    whole = jobs(tmp_path_factory.mktemp("whole"), *EVENTFUL)
    return whole, train_jobs(whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 5])
def test_a_reference_and_a_coefficient_that_move_go_on_where_they_were(tmp_path, stop_at, never_stopped, number):  # noqa: F811
    (whole, scores), parts = never_stopped, jobs(tmp_path, *EVENTFUL)
    stop_at(number)
    with pytest.raises(KeyboardInterrupt):
        train_jobs(parts)
    assert json.loads((parts[0].folder / "summary.json").read_text())["status"] == "interrupted"
    assert train_jobs(parts) == scores
    for one, other in zip(whole, parts, strict=True):
        assert rows(one.folder) == rows(other.folder)
        states = [checkpoint.load(job.folder) for job in (one, other)]
        ours, theirs = (state["networks"]["reference"]["parameters"] for state in states)
        assert ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)
        assert states[0]["memory"]["kl_factor"] == states[1]["memory"]["kl_factor"] != 1
    coefs = [row["kl/coef"] for row in rows(whole[0].folder) if "kl/coef" in row]
    assert len(set(coefs)) == len(coefs)
