"""What the last update does shows in no row any more: a run that blows up in it has diverged all the same."""

import json

import pytest
from small_runs import SHORT, SMALL, compose

from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

BLOWN = ["optimizer=sgd", "grad_clip=null", "minibatches=1", "steps=1"]
BLOWING = {"policy": "1e300", "critic": "1e38"}


def job(folder, *overrides):
    folder.mkdir(parents=True)
    return Job(compose(*SHORT, *SMALL, *overrides), folder, folder.name, folder.name)


@pytest.mark.parametrize("network", ["policy", "critic"])
def test_a_run_that_blows_up_in_its_last_update_has_diverged(tmp_path, network):
    key, beside = {"policy": ("lr", []), "critic": ("critic.lr", ["critic=value", "norm=gae"])}[network]
    broken = job(tmp_path / "broken", *BLOWN, *beside, f"{key}={BLOWING[network]}")
    whole = job(tmp_path / "whole", *BLOWN, *beside, f"{key}=1e-3")
    failed, score = (train_jobs([each])[0] for each in (broken, whole))
    assert str(failed) == f"diverged in the last update: weights of the {network} are not finite"
    assert isinstance(score, float)
    summary = json.loads((broken.folder / "summary.json").read_text())
    assert (summary["status"], summary["collapsed"], summary["score"]) == ("diverged", True, None)


def test_its_neighbours_complete(tmp_path):
    jobs = [job(tmp_path / "broken", *BLOWN, "lr=1e300"), job(tmp_path / "whole", *BLOWN, "lr=1e-3")]
    failed, score = train_jobs(jobs)
    assert isinstance(failed, FloatingPointError) and isinstance(score, float)
    assert json.loads((tmp_path / "whole" / "summary.json").read_text())["status"] == "completed"
