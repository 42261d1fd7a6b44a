"""What the last update does shows in no row any more: a run that blows up in it has diverged all the same."""

import json

from small_runs import SHORT, SMALL, compose

from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

BLOWN = ["optimizer=sgd", "grad_clip=null", "minibatches=1", "steps=1"]


def job(folder, *overrides):
    folder.mkdir(parents=True)
    return Job(compose(*SHORT, *SMALL, *overrides), folder, folder.name, folder.name)


def test_a_run_that_blows_up_in_its_last_update_has_diverged_and_its_neighbours_complete(tmp_path):
    failed, score = train_jobs([job(tmp_path / "broken", *BLOWN, "lr=1e300"), job(tmp_path / "whole", *BLOWN)])
    assert str(failed) == "diverged in the last update: weights of the policy are not finite"
    assert isinstance(failed, FloatingPointError) and isinstance(score, float)
    broken, whole = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("broken", "whole"))
    assert (broken["status"], broken["collapsed"], broken["score"]) == ("diverged", True, None)
    assert whole["status"] == "completed"
