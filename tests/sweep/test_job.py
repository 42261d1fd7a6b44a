"""A job goes to another process by itself, and only what the worker needs goes with it."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from small_runs import compose

from rlexp.core.errors import ConfigError
from rlexp.sweep.job import Batch, Job, LogSettings


def job(*overrides):
    logs = LogSettings({"version": 1, "handlers": {}}, verbose=["rlexp"])
    return Job(compose(*overrides), Path("x/y"), "y", "norm=local", 3, ("norm=local", "seed=3"), Path("x/starts"), logs)


@pytest.mark.parametrize("overrides", [(), ("study=lecture17",), ("preset=gspo", "model=gru")], ids=" ".join)
def test_a_batch_is_the_same_in_another_process(overrides):
    batch = Batch((job(*overrides),), "batch 1 of 2", {"A": "1"})
    again = pickle.loads(pickle.dumps(batch))
    assert again == batch
    assert again.jobs[0].config.model_dump() == batch.jobs[0].config.model_dump()


def test_what_is_sent_is_small_and_holds_nothing_of_hydra():
    sent = pickle.dumps(Batch((job(),)))
    assert len(sent) < 20_000
    assert b"omegaconf" not in sent and b"hydra" not in sent and b"pydantic" not in sent


def test_a_config_that_is_not_valid_there_is_refused_there():
    bad = replace(job(), config=compose().model_copy(update={"seed": -1}))
    with pytest.raises(ConfigError, match="seed=-1: must be at least 0"):
        pickle.loads(pickle.dumps(bad))


@pytest.mark.slow
def test_a_process_that_has_imported_nothing_reads_a_job(tmp_path):
    (tmp_path / "job").write_bytes(pickle.dumps(job("norm=rloo")))
    script = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).config.norm.name)"
    command = [sys.executable, "-c", script, str(tmp_path / "job")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "rloo\n"
