"""A job's logs, callbacks and environment are its own, although it trains beside others."""

import logging
import os

import pytest
import yaml
from callback_spy import Spy
from command import command, no_comparison  # noqa: F401 (fixtures)
from engine_double import engine_of  # noqa: F401 (a fixture)
from sweep_files import rows

pytestmark = pytest.mark.slow  # whole commands

LOG = logging.getLogger(__name__)


def test_callbacks_are_called_for_each_job(command, tmp_path, engine_of):
    engine_of(lambda job: ValueError("bad luck") if job.config.seed else 0.5)
    Spy.calls.clear()
    command("-m", "seed=0,1", "hydra.sweep.dir=x", "+hydra.callbacks.spy._target_=callback_spy.Spy")
    expected = [("start", 0), ("start", 1), ("COMPLETED", 0), ("FAILED", 1)]
    assert Spy.calls == [(what, str(tmp_path / "x" / f"seed={seed}")) for what, seed in expected]


def test_a_log_record_goes_to_its_job_or_to_all(command, tmp_path, engine_of):
    def train(job):
        if job.config.seed == 0:
            LOG.info("for everyone")
        LOG.info("about %s", job.name, extra={"job": job.name})
        return 0.5

    engine_of(train)
    command("-m", "seed=0,1", "hydra.sweep.dir=x")
    for seed in (0, 1):
        log = (tmp_path / "x" / f"seed={seed}" / "train.log").read_text().splitlines()
        assert [line.partition(" INFO ")[2] for line in log] == ["for everyone", f"about seed={seed}"]


def test_no_log_files_if_logging_is_off(command, tmp_path, engine_of):
    engine_of(lambda job: ValueError("bad luck"))
    command("-m", "seed=0", "hydra.sweep.dir=x", "hydra/job_logging=disabled")
    assert not (tmp_path / "x" / "seed=0" / "train.log").exists()


def test_a_job_sees_its_environment(command, engine_of, monkeypatch):
    monkeypatch.delenv("RLEXP_TEST", raising=False)
    seen = []
    engine_of(lambda job: seen.append(os.environ.get("RLEXP_TEST")) or 0.5)
    command("-m", "seed=0", "+hydra.job.env_set.RLEXP_TEST=yes")
    assert seen == ["yes"] and "RLEXP_TEST" not in os.environ


@pytest.mark.slow
def test_a_run_says_in_its_log_what_became_of_it_and_a_skipped_one_says_so(command, tmp_path, no_comparison):
    sweep = ["-m", "preset=tiny", "seed=0,1", "hydra.sweep.dir=my runs/a=b"]
    result = command(*sweep)
    assert result.code == 0 and "note: " not in result.err, result.err
    assert result.out.splitlines()[0] == "page: my runs/a=b/analysis/report.html"
    assert all(line.startswith("[rlexp] ") for line in result.err.splitlines()), "one format"
    name = "preset=tiny,seed=1"
    log = (tmp_path / "my runs/a=b" / name / "train.log").read_text().splitlines()
    said = [line.partition(f" INFO {name} · ")[2] for line in log]
    assert said[0].startswith("starts · 2 steps in ")
    assert [line.partition(" · eval/")[0] for line in said[1:-1]] == ["step 0", "step 1", "step 2"]
    assert said[-1].startswith("completed · step 2 · eval/greedy_accuracy ")
    assert "note: 2 of 2 runs were finished already: skipped\n" in command(*sweep).err


@pytest.mark.slow
def test_a_swept_choice_may_have_keys_that_the_default_has_not(command, tmp_path, engine_of):
    engine_of(lambda job: job.config.start.accuracy)
    result = command("-m", "start=sft,flattened", "start.accuracy=0.25", "seed=0", "hydra.sweep.dir=x")
    assert result.code == 0, result.err
    names = [f"start={name},start.accuracy=0.25,seed=0" for name in ("sft", "flattened")]
    assert [(row["name"], row["score"]) for row in rows(tmp_path / "x")] == [(name, 0.25) for name in names]
    multirun = yaml.safe_load((tmp_path / "x" / "multirun.yaml").read_text())["hydra"]
    assert multirun["overrides"]["task"] == ["start=sft,flattened", "start.accuracy=0.25", "seed=0"]


def test_a_shown_config_holds_what_was_typed(command):
    shown = command("--cfg", "hydra", "group_size=4").out
    assert "    - group_size=4\n" in shown and "group_size='4'" not in shown
