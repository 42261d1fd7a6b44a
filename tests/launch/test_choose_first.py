"""A study that chooses first shows what it would show anyway, and trains less for it."""

import pytest
from command import command, no_comparison  # noqa: F401 (fixtures)
from pandas.testing import assert_frame_equal
from small_runs import SHORT, compose
from sweep_files import rows

from rlexp import analysis
from rlexp.analysis.stats.answer import Question, answer
from rlexp.config.compose import CONF
from rlexp.config.schema import read
from rlexp.core.errors import ConfigError
from rlexp.launch import stages as staged
from rlexp.launch.stages import stages
from rlexp.sweep.job import Job

TUNED = ["study=norms", "norm=local,global", "lr=1e-3,1e-1", "seed=0,1,2", "+study.choose_seeds=[0]", *SHORT]
TUNED += ["score.metric=eval/reward", "score.floor=0", "steps=3"]


@pytest.mark.rare  # three sweeps
def test_the_table_is_that_of_all_runs_and_fewer_are_trained(command, no_comparison, tmp_path):  # noqa: F811
    assert command(*TUNED, "hydra.sweep.dir=all").code == 0
    one_start = "+study.within=[start.accuracy]"  # which does not vary here: there are no strata, and no harm
    assert command(*TUNED, "+study.choose_first=true", one_start, "hydra.sweep.dir=first").code == 0
    assert (len(rows(tmp_path / "all")), len(rows(tmp_path / "first"))) == (12, 8)
    asked = Question(best_of=("lr",), choose_seeds=(0,))
    both = [answer(analysis.load(tmp_path / name), asked) for name in ("all", "first")]
    assert_frame_equal(*(each.comparisons[0].scores for each in both), check_exact=True)
    assert not both[0].comparisons[0].scores.isna().any(axis=None)
    trained = {(row["variant"], row["seed"]) for row in rows(tmp_path / "first")}
    again = command(*TUNED, "+study.choose_first=true", one_start, "hydra.sweep.dir=first")
    assert again.code == 0 and "8 of 12 runs were finished already: skipped" in again.err
    assert {(row["variant"], row["seed"]) for row in rows(tmp_path / "first")} == trained


def sweep(study, arms=("a", "b"), rates=("1", "2"), seeds=(0, 1, 2), folder=CONF):
    """The jobs of a study over arms, learning rates and seeds."""
    settings = {"name": "x", "baseline": "norm=a", "best_of": ["lr"], "choose_seeds": [0], "expect": []} | study
    config = read(compose().model_dump() | {"study": settings})
    return [
        Job(config.model_copy(update={"seed": seed}), folder, f"{arm}{rate}{seed}", f"norm={arm},lr={rate}")
        for arm in arms
        for rate in rates
        for seed in seeds
    ]


def test_the_others_are_asked_for_when_those_that_choose_have_ended(monkeypatch, tmp_path):
    jobs = sweep({"choose_first": True}, folder=tmp_path)
    asked = []
    monkeypatch.setattr(staged, "best_names", lambda folder, seeds: asked.append(seeds) or {"a20", "b10"})
    parts = stages(jobs, tmp_path, [].append)
    assert [job.name for job in next(parts)] == ["a10", "a20", "b10", "b20"] and asked == []
    assert [job.name for job in next(parts)] == ["a21", "a22", "b11", "b12"] and asked == [[0]]


def test_an_arm_without_a_completed_run_ends_there(monkeypatch, tmp_path):
    monkeypatch.setattr(staged, "best_names", lambda folder, seeds: {"b10"})
    _, rest = stages(sweep({"choose_first": True}), tmp_path, [].append)
    assert [job.name for job in rest] == ["b11", "b12"]
    monkeypatch.setattr(staged, "best_names", lambda folder, seeds: set())
    assert len([*stages(sweep({"choose_first": True}), tmp_path, [].append)]) == 1


def test_without_the_key_all_train_together(tmp_path):
    jobs = sweep({})
    assert [*stages(jobs, tmp_path, [].append)] == [jobs] and [*stages([], tmp_path, [].append)] == [[]]


def test_there_must_be_something_to_choose():
    with pytest.raises(ConfigError, match="choose_first needs best_of"):
        sweep({"choose_first": True, "best_of": None})


def test_a_sweeper_that_asks_in_parts_is_refused(command):  # noqa: F811
    result = command(*TUNED, "+study.choose_first=true", "hydra.sweeper.max_batch_size=4")
    line = "hydra.sweeper.max_batch_size=4: study norms chooses first, from all runs"
    assert (result.code, result.err.strip().splitlines()[-1]) == (2, line)
