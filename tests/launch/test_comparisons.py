"""What a comparison could not answer is said, or refused, before the first run."""

import dataclasses
from itertools import product
from pathlib import Path

import pytest
from small_runs import compose

from rlexp.config.settings import Study
from rlexp.launch.comparison import comparison_notes, comparison_problems, metric_problem
from rlexp.sweep.job import Job

EQUAL = {"variant": "norm=b", "direction": "equal", "minimum_effect": 0.1}
HIGHER = {"variant": "norm=b", "direction": "higher"}


def jobs(seeds, study=None, baseline=None, **axes):
    """The jobs of a sweep over these axes."""
    settings = {"baseline": baseline, "study": study and Study(**({"name": "x", "baseline": "norm=a"} | study))}
    config = compose().model_copy(update=settings)
    variants = [
        ",".join(f"{axis}={value}" for axis, value in zip(axes, row, strict=True)) for row in product(*axes.values())
    ]
    return [
        Job(config.model_copy(update={"seed": seed}), Path(variant, str(seed)), f"{variant},{seed}", variant)
        for variant in variants
        for seed in range(seeds)
    ]


NORMS, RATES, TASKS = ["a", "b", "c"], ["5e-4", "1e-3", "2e-3"], ["sort", "copy"]


@pytest.mark.parametrize(
    ("sweep", "notes"),
    [
        (jobs(10, norm=NORMS), []),
        (jobs(7, norm=NORMS), []),
        (jobs(10), []),
        (jobs(5, lr=RATES[:1], norm=NORMS[:1]), []),
        (
            jobs(5, norm=NORMS),
            [
                "5 seeds cannot show a difference: p (Holm) of 2 differences cannot fall below 0.12; it takes 7 seeds, "
                'as seed="range(0,7)"'
            ],
        ),
        (
            jobs(1, norm=NORMS[:2]),
            ['1 seed cannot show a difference: p (Holm) cannot fall below 1; it takes 6 seeds, as seed="range(0,6)"'],
        ),
        (
            jobs(10, norm=NORMS, lr=RATES),
            [
                "compared with --best-of lr, 5 of 10 seeds choose and 5 are left, too few to show a difference: "
                'p (Holm) of 2 differences cannot fall below 0.12; it takes 13 seeds, as seed="range(0,13)"'
            ],
        ),
        (jobs(13, norm=NORMS, lr=RATES), []),
        (jobs(10, lr=RATES), []),  # the rates are the question
    ],
    ids=lambda value: "" if isinstance(value, list) and value and isinstance(value[0], str) else None,
)
def test_too_few_seeds_are_said_with_how_many_it_takes(sweep, notes):
    assert list(comparison_notes(sweep, [])) == notes


def test_tasks_are_compared_apart_and_count_together():
    (note,) = comparison_notes(jobs(7, norm=NORMS, task=TASKS), [])
    assert "of 4 differences cannot fall below 0.062; it takes 8 seeds" in note


def problems(study, seeds=10, overrides=("study=x",), **axes):
    return list(comparison_problems(jobs(seeds, study, **(axes or {"norm": NORMS})), list(overrides)))


def test_a_study_that_tunes_needs_seeds_for_both():
    study = {"expect": [HIGHER], "best_of": ["lr"]}
    (line,) = problems(study, norm=NORMS, lr=RATES)
    assert line == (
        "study.best_of=[lr]: is judged on 5 of 10 seeds, which cannot show a difference: p (Holm) of 2 differences "
        'cannot fall below 0.12; it takes 13 seeds, as seed="range(0,13)"'
    )
    assert problems(study, 13, norm=NORMS, lr=RATES) == []
    assert problems(study | {"choose_seeds": [0, 1, 2]}, 10, norm=NORMS, lr=RATES) == []


def test_a_study_counts_what_only_its_claims_compare():
    claims = [HIGHER, {"variant": "norm=c", "versus": "norm=b", "direction": "lower"}]
    assert problems({"expect": [HIGHER]}, 7) == [] and problems({"expect": claims}, 8) == []
    (line,) = problems({"expect": claims}, 6)
    assert line.startswith("study=x: is judged on 6 seeds, which cannot show a difference: p (Holm) of 3 differences")
    assert problems({"expect": claims}, 6, ["study=x", "seed=0,1,2,3,4,5"]) == []  # changed: nothing is judged


def test_equal_needs_to_say_how_equal():
    assert problems({"expect": [EQUAL]}) == []
    (line,) = problems({"expect": [EQUAL | {"minimum_effect": 0}]})
    assert line.startswith("study.expect[0].minimum_effect: is missing; equal means")


def test_claims_name_variants_as_the_analysis_calls_them():
    both = {"norm": NORMS, "task": TASKS}
    assert problems({"expect": [HIGHER | {"variant": "norm=b,task=sort", "versus": "task=sort,norm=a"}]}, **both) == []
    assert problems({"expect": [HIGHER]}, **both) == []  # in every stratum
    (line,) = problems({"expect": [HIGHER | {"versus": "norm=a,task=other"}]}, **both)
    assert line.startswith("study.expect[0].versus=norm=a,task=other: is no variant of this sweep; there are norm=a")
    (line,) = problems({"expect": [HIGHER | {"variant": "task=sort"}]}, **both)  # several arms in one stratum
    assert line.startswith("study.expect[0].variant=task=sort: is no variant of this sweep; there are ")
    (line,) = problems({"expect": [], "baseline": "norm=typo"})
    assert line == "study.baseline=norm=typo: is no variant of this sweep; there are norm=a; norm=b; norm=c"
    (line,) = problems({"expect": [HIGHER], "baseline": None})
    assert line.startswith("study.expect[0].versus: is missing")


def test_the_baseline_of_a_sweep_is_one_of_its_variants():
    def found(baseline, **axes):
        return list(comparison_problems(jobs(10, baseline=baseline, **axes), []))

    assert found("norm=b", norm=NORMS) == found("norm=b", norm=NORMS, task=TASKS) == []
    assert found("4", group_size=["8", "4"]) == found("group_size=4", group_size=["8", "4"]) == []
    line = "baseline=16: is no variant of this sweep; there are group_size=4; group_size=8"
    assert found("16", group_size=["4", "8"]) == [line]


def test_a_metric_must_be_evaluated_by_every_run():
    sweep = jobs(10, {"expect": [], "metric": "eval/pass@8"}, norm=NORMS)
    assert list(comparison_problems(sweep, [])) == []
    config = sweep[-1].config
    other = config.model_copy(update={"eval": config.eval.model_copy(update={"ks": [1]})})
    sweep[-1] = dataclasses.replace(sweep[-1], config=other)
    (line,) = comparison_problems(sweep, [])
    assert line.startswith("study.metric=eval/pass@8: is not evaluated; there are eval/greedy_accuracy, ")
    assert metric_problem([sweep[-1].config]) == line and metric_problem([config]) is None


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"at": "tokns"}, "study.expect[0].at=tokns: 'tokns' is no budget; choose one of: steps  updates  rollouts"),
        ({"at": "tokens=many"}, "study.expect[0].at=tokens=many: 'many' is no number"),
        ({"matched": "0.5"}, "study.expect[0].matched=0.5: expected a metric and a value, as accuracy=0.9"),
        ({"metric": "eval/pass@3"}, "study.expect[0].metric=eval/pass@3: is not evaluated; there are eval/greedy_acc"),
        ({"metric": "curve/slope"}, "study.expect[0].metric=curve/slope: is not evaluated; there are eval/greedy_acc"),
        ({"metric": "diverges"}, "study.expect[0].metric=diverges: is not evaluated; there are eval/greedy_accuracy"),
        ({"matched": "eval/pass@3=1"}, "study.expect[0].matched=eval/pass@3: is not evaluated; there are eval/greedy"),
        ({"metric": "diverged", "at": "steps"}, "study.expect[0]: diverged is of a whole run: it has no budget"),
        ({"matched": "diverged=1"}, "study.expect[0]: diverged is of a whole run: nothing is first so high"),
        ({"less": {"variant": "norm=x", "versus": "norm=c"}}, "study.expect[0].less.variant=norm=x: is no variant of"),
    ],
)
def test_a_number_that_no_run_will_have_is_refused(keys, line):
    (found,) = problems({"expect": [HIGHER | keys]})
    assert found.startswith(line)
    if "less" not in keys:
        assert problems({"expect": []} | keys)[0].startswith(line.replace(".expect[0]", ""))


@pytest.mark.parametrize(
    "keys",
    [
        {"at": "rollouts"},
        {"at": "tokens=5000", "metric": "eval/pass@8"},
        {"matched": "eval/sampled_accuracy=0.5", "at": "tokens"},
        {"matched": "accuracy=0.5"},
        {"metric": "policy/entropy", "matched": "kl/ref_exact=1"},
        {"metric": "curve/speed"},
        {"metric": "collapsed"},
        {"less": {"variant": "norm=c", "versus": "norm=a"}},
    ],
)
def test_a_number_that_runs_will_have_is_asked_for(keys):
    assert problems({"expect": [HIGHER | keys]}) == []


def test_what_is_expected_in_every_stratum_needs_no_stratum():
    both = {"norm": NORMS, "start.accuracy": ["0", "0.2"], "lr": RATES}
    within = {"within": ["start.accuracy"], "best_of": ["lr"]}
    names = ["norm=b", "norm=b,start.accuracy=0.2", "start.accuracy=0,norm=b"]
    assert [problems(within | {"expect": [HIGHER | {"variant": name}]}, 16, **both) for name in names] == [[]] * 3
    for typo in ("norm=b,start.accuracy=0.3", "norm=b,start.acuracy=0.2", "norm=b,lr=1e-3"):
        (line,) = problems(within | {"expect": [HIGHER | {"variant": typo}]}, 16, **both)
        assert line.startswith(
            f"study.expect[0].variant={typo}: is no variant of this sweep; there are norm=a,start.acc"
        )
    one = both | {"start.accuracy": ["0.2"]}  # no strata
    assert problems(within | {"expect": [HIGHER]}, 16, **one) == []
    (line,) = problems(within | {"expect": [HIGHER | {"variant": names[1]}]}, 16, **one)  # the analysis has none either
    assert line.startswith(f"study.expect[0].variant={names[1]}: is no variant of this sweep; there are norm=a; ")


def test_seeds_are_counted_over_the_claims_in_all_strata():
    """Four differences of the tables; a claim that is none of them is two more."""
    both, further = {"norm": NORMS, "task": TASKS}, {"variant": "norm=c", "versus": "norm=b", "direction": "lower"}
    assert "p (Holm) of 4 differences" in problems({"expect": [HIGHER]}, 7, **both)[0]
    assert "p (Holm) of 6 differences" in problems({"expect": [HIGHER, further]}, 7, **both)[0]
    assert (
        "p (Holm) of 8 differences" in problems({"expect": [HIGHER, further, HIGHER | {"at": "tokens"}]}, 7, **both)[0]
    )
