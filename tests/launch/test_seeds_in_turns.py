"""Seeds come in turns until enough is known; in a race, variants that are shown to be worse get no more of them."""

import json
from functools import partial

import numpy as np
import pytest
import yaml
from analysis_fixtures import write_sweep
from command import command, no_comparison  # noqa: F401 (fixtures)
from small_runs import SHORT, compose
from sweep_files import rows, untimed

from rlexp.analysis import load
from rlexp.analysis.report.summary import summarize
from rlexp.analysis.report.tables import comparison_table
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.significance import confidence_sequence, decide
from rlexp.launch.stages import first_turn, stages
from rlexp.runfolder.files import ELIMINATED
from rlexp.runfolder.variants import IN_TURNS
from rlexp.sweep.job import Job

RNG = np.random.default_rng(0)
SHAKEN = 0.02 * RNG.normal(size=(3, 20))
REWARD = [*SHORT, "score.metric=eval/reward", "score.floor=0"]


def trained(folder, rule, scores, failed=None):
    """Return the turns of a sweep whose runs are all there already, and the jobs that it does not train."""
    seeds = range(len(next(iter(scores.values()))))
    write_sweep(folder, {variant: list(values) for variant, values in scores.items()}, steps=4)
    for path in folder.glob("*/config.yaml"):
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | rule))
    for path in folder.glob(f"{failed},*/summary.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "failed", "score": None}))
    config = compose().model_copy(update=rule)
    named = [(variant, seed, f"{variant},seed={seed}") for variant in scores for seed in seeds]
    jobs = [
        Job(config.model_copy(update={"seed": seed}), folder / name, name, variant) for variant, seed, name in named
    ]
    out = []
    turns = stages(jobs, folder, lambda never, reason: out.append(([job.name for job in never], reason)))
    return [[(job.variant, job.config.seed) for job in turn] for turn in turns], out


def seeds_of(turns):
    return [sorted({seed for _, seed in turn}) for turn in turns]


def test_all_seeds_train_at_once_without_a_key(tmp_path):
    turns, out = trained(tmp_path, {}, {"norm=a": [0.5] * 9, "norm=b": [0.6] * 9})
    assert len(turns) == 1 and len(turns[0]) == 18 and out == []


@pytest.mark.slow
def test_seeds_come_until_all_is_decided(tmp_path):
    """All runs are on disk; a look sees those on the seeds before it alone."""
    scores = {"norm=a": 0.5 + SHAKEN[0], "norm=b": 0.53 + SHAKEN[1]}
    turns, out = trained(tmp_path, {"until_decided": 0.01}, scores)
    ends = np.cumsum([len(seeds) for seeds in seeds_of(turns)])
    differences = scores["norm=b"] - scores["norm=a"]
    assert [decide(confidence_sequence(differences[:n]), 0.01) for n in ends] == ["open"] * 3 + ["higher"]
    assert sum(seeds_of(turns), []) == [*range(13)] and out == []
    assert all(len(turn) == 2 * len(seeds) for turn, seeds in zip(turns, seeds_of(turns), strict=True))


@pytest.mark.slow
def test_the_seeds_of_the_sweep_are_the_most(tmp_path):
    scores = {"norm=a": 0.5 + SHAKEN[0, :7], "norm=b": 0.5 + SHAKEN[1, :7]}
    for place, rule in enumerate(({"until_decided": 1e-6}, {"until_best": 1e-6})):
        turns, _ = trained(tmp_path / str(place), rule, scores)
        assert sorted(sum(turns, [])) == [(variant, seed) for variant in scores for seed in range(7)]
        assert sum(seeds_of(turns), []) == [*range(7)]


@pytest.mark.slow
def test_seeds_come_until_intervals_are_narrow(tmp_path):
    """The SD of both differences is about 0.028: ten seeds reach to 0.02 either side, 13 are not asked for."""
    scores = {f"norm={arm}": 0.5 + SHAKEN[place] for place, arm in enumerate("abc")}
    wide = trained(tmp_path / "wide", {"until_width": 0.04}, scores)[0]
    narrow = trained(tmp_path / "narrow", {"until_width": 0.014}, scores)[0]
    assert seeds_of(wide) == [[*range(10)]] and len(narrow) > 2
    for folder, width in (("wide", 0.04), ("narrow", 0.014)):
        (comparison,) = answer(load(tmp_path / folder), Question()).comparisons
        assert comparison.until("until_width") == width and not comparison.sequential
    ends = np.cumsum([len(seeds) for seeds in seeds_of(narrow)])
    differences = [scores[arm] - scores["norm=a"] for arm in ("norm=b", "norm=c")]
    reached = [all(t_half_width(each[:n]) <= 0.014 for each in differences) for n in ends]
    assert reached == [False] * (len(ends) - 1) + [True]


def t_half_width(differences):
    """By the textbook: t of n − 1 degrees times SD over the root of n."""
    from scipy.stats import t

    return t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / np.sqrt(len(differences))


@pytest.mark.slow
def test_a_variant_that_is_worse_gets_no_more_seeds(tmp_path):
    scores = {"norm=a": 0.5 + SHAKEN[0], "norm=b": 0.3 + SHAKEN[1], "norm=c": 0.502 + SHAKEN[2]}
    turns, out = trained(tmp_path, {"until_best": 0.008}, scores)
    assert {variant for variant, _ in turns[0]} == {*scores} and seeds_of(turns)[0] == [*range(6)]
    assert all({variant for variant, _ in turn} == {"norm=a", "norm=c"} for turn in turns[1:]) and len(turns) > 2
    ((names, reason),) = out
    assert names == [f"norm=b,seed={seed}" for seed in range(6, 20)]
    assert reason in ("worse than norm=a after 6 seeds", "worse than norm=c after 6 seeds")


@pytest.mark.slow
def test_a_variant_of_which_no_run_completed_gets_no_more_seeds(tmp_path):
    scores = {"norm=a": 0.5 + SHAKEN[0], "norm=b": 0.5 + SHAKEN[2], "norm=c": 0.5 + SHAKEN[1]}
    turns, out = trained(tmp_path, {"until_best": 1e-6}, scores, failed="norm=b")
    assert out[0][1] == "no run completed after 6 seeds"
    assert {variant for variant, _ in turns[1]} == {"norm=a", "norm=c"}


def test_what_cannot_be_compared_ends_no_sweep(tmp_path):
    """As where no run left anything: its jobs say why."""
    for key in IN_TURNS:
        config = compose().model_copy(update={key: 0.1})
        jobs = [Job(config.model_copy(update={"seed": seed}), tmp_path, "x", "norm=a") for seed in range(30)]
        assert sum(map(len, stages(jobs, tmp_path, partial(pytest.fail)))) == 30


def test_the_first_turn_is_the_fewest_that_can_decide_anything():
    assert [first_turn("until_decided", arms) for arms in (1, 2, 9)] == [6, 6, 9]
    assert [first_turn("until_best", arms) for arms in (1, 2, 9)] == [5, 5, 8]
    assert first_turn("until_width", 2) == 10


@pytest.mark.slow
def test_a_sweep_ends_when_its_differences_are_decided(command, tmp_path, no_comparison):  # noqa: F811
    words = "-m", "norm=local,center", "seed=range(0,12)", "until_decided=1.0", *REWARD, "hydra.sweep.dir=x"
    assert command(*words).code == 0
    assert len(rows(tmp_path / "x")) == 12  # six seeds: rewards lie in [0, 1], so any difference is below 1
    assert command("-m", "norm=local", "seed=0", *REWARD, "hydra.sweep.dir=y").code == 0
    ours, theirs = (untimed(next((tmp_path / name).glob("norm=local,*seed=0")) / "metrics.jsonl") for name in "xy")
    assert ours == theirs
    again = command(*words)
    assert "12 of 24 runs were finished already: skipped" in again.err and len(rows(tmp_path / "x")) == 12


BANDIT = ["task=bandit", "model=tabular", "steps=20", "logger=none", "lr=0.01,0.3,1.0", "seed=range(0,20)"]
RACE = ["-m", *BANDIT, "until_best=0.001"]


def fates(folder):
    return {(row["variant"], row["seed"]): (row["status"], row["reason"], row["score"]) for row in rows(folder)}


@pytest.mark.rare  # four sweeps
def test_a_race_goes_on_as_it_would_have_and_says_who_was_left_out(command, no_comparison, tmp_path):  # noqa: F811
    """With other processes too, and from a folder in which a part of its runs, and later ones, are there already."""
    assert command(*RACE, "hydra.sweep.dir=x").code == 0
    whole = fates(tmp_path / "x")
    left_out = {key: reason for key, (status, reason, _) in whole.items() if status == ELIMINATED}
    assert left_out and all(reason.startswith("worse than ") for reason in left_out.values())
    folders = [tmp_path / "x" / row["name"] for row in rows(tmp_path / "x") if row["status"] == ELIMINATED]
    assert not any(folder.exists() for folder in folders)
    assert command(*RACE, "hydra/launcher=processes", "hydra.launcher.workers=2", "hydra.sweep.dir=y").code == 0
    assert fates(tmp_path / "y") == whole
    some = ["-m", *BANDIT[:-2], "lr=0.3,1.0", "seed=0,3,5,11", "hydra.sweep.dir=z"]
    assert command(*some).code == 0 and command(*RACE, "hydra.sweep.dir=z").code == 0
    assert fates(tmp_path / "z") == whole
    assert command(*RACE, "hydra.sweep.dir=x").code == 0 and fates(tmp_path / "x") == whole
    result = answer(load(tmp_path / "x"), Question())
    assert comparison_table(result.comparisons[0]).headers[-3] == "race"
    assert "lr=1.0 is the best of 3 but for 0.001" in summarize(result.data, result).findings[0]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["until_decided=0"], "until_decided=0: must be above 0"),
        (["until_decided=0.1", "hydra.sweeper.max_batch_size=2"], "until_decided adds seeds by itself"),
        (["until_width=0.1", "hydra.sweeper.max_batch_size=2"], "until_width adds seeds by itself"),
        (["until_width=0.1", "until_best=0.1"], "until_width=0.1 until_best=0.1: only one of them can say when"),
        (["until_best=0.1", "seed=0"], "1 seed can decide nothing; it takes 5"),
        (["until_width=0.1", "seed=range(0,9)"], '9 seeds can decide nothing; it takes 10, as seed="range(0,10)"'),
        (["until_best=0.1"], "until_best=0.1: there is one variant, and nothing to compare it with"),
        (["until_best=0.1", "task=sort,bandit"], "the best of one task is found, and there are task=sort; task=bandit"),
        (["until_best=0.1", "study=norms"], "study norms judges all of its variants, and a race stops some"),
        (["until_best=0.1", "hydra/launcher=basic"], "until_best=0.1: seeds come in turns only with this project's"),
    ],
)
@pytest.mark.slow
def test_a_rule_that_cannot_be_is_refused(command, tmp_path, arguments, line):  # noqa: F811
    variants = [] if "one variant" in line else ["norm=local,center"]
    result = command("-m", *variants, *arguments)
    assert result.code == 2 and line in result.err and result.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()
