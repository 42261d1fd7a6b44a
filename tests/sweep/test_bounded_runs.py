"""A run that reaches the bound of log-ratios says so; folders from before there was a bound are gone on with."""

from __future__ import annotations

import pytest
import yaml
from small_runs import SHORT, SMALL, rows, values

from rlexp.config.schema import load, read
from rlexp.core.errors import ConfigError
from rlexp.loop.metrics import BOUNDED
from rlexp.record.provenance import MEANT, config_hash
from rlexp.record.resume import inspect
from rlexp.runfolder.files import CONFIG_FILE, SUMMARY_FILE
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

pytestmark = pytest.mark.slow  # whole runs


def job(tmp_path, *overrides):
    name = ",".join(overrides) or "default"
    folder = tmp_path / name
    folder.mkdir()
    return Job(read(values(*SHORT, *SMALL, *overrides)), folder, name, name)


def numbers(one):
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows(one.folder)]


def test_a_run_says_that_it_has_reached_the_bound_and_its_neighbours_do_not(tmp_path, caplog):
    bounds = ["log_ratio_bound=1e-6"], [], ["log_ratio_bound=null"]
    near, default, free = jobs = [job(tmp_path, *each) for each in bounds]
    train_jobs(jobs)
    first, *lines = numbers(near)
    # of the two updates of a step the first has no ratio but 1
    assert BOUNDED not in first and all(0.3 < line[BOUNDED] <= 0.5 for line in lines)
    (said,) = [record.getMessage() for record in caplog.records if BOUNDED in record.getMessage()]
    assert said.startswith(f"{near.name} had log-ratios beyond log_ratio_bound=1e-06, last of {lines[-1][BOUNDED]:.2%}")
    assert numbers(default) == numbers(free)
    assert [line.keys() - {BOUNDED} for line in lines] == [line.keys() for line in numbers(default)[1:]]
    assert lines[-1]["optim/grad_norm"] != numbers(default)[-1]["optim/grad_norm"]


def test_a_folder_without_the_key_goes_on(tmp_path):
    """As if it said the default; not as a run without a bound."""
    one = job(tmp_path, "checkpoint_every=1")
    train_jobs([one])
    before = numbers(one)
    saved = yaml.safe_load((one.folder / CONFIG_FILE).read_text())
    assert saved.pop("log_ratio_bound") == 20.0 and saved.pop("format")
    (one.folder / CONFIG_FILE).write_text(yaml.safe_dump(saved))
    (one.folder / SUMMARY_FILE).unlink()
    assert load(one.folder / CONFIG_FILE) == one.config
    plain = one.config.model_dump(mode="json")
    assert inspect(one.folder, plain).kind == "resumable"
    other = inspect(one.folder, plain | {"log_ratio_bound": None})
    assert other.kind == "foreign" and "log_ratio_bound" in str(other.result)
    (score,) = train_jobs([one])
    assert isinstance(score, float) and numbers(one) == before


def test_who_says_nothing_has_the_default_and_null_is_another_run():
    assert config_hash({"lr": 0.1}) == config_hash({"lr": 0.1} | MEANT)
    assert len({config_hash({"log_ratio_bound": bound}) for bound in (20.0, 10.0, None)}) == 3


@pytest.mark.parametrize("bound", ["0", "-1.5", "inf", "far"])
def test_another_bound_is_refused_in_a_line(bound):
    with pytest.raises(ConfigError) as error:
        read(values(f"log_ratio_bound={bound}"))
    assert [line.partition(":")[0] for line in error.value.problems] == [f"log_ratio_bound={bound}"]
