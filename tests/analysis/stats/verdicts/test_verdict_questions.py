"""Expectations with a number of their own: another metric, an equal budget, a cost, a fit, a rate; and interactions."""

import numpy as np
import pytest
from analysis_fixtures import METRIC
from study_sweeps import answered, arriving, change_summary, numbers_of, study_sweep, write_curve

from rlexp.analysis.data.metric_spec import Budget, MetricSpec, Target, parse_metric_spec, with_defaults
from rlexp.analysis.stats.hypotheses import StudySpec
from rlexp.analysis.stats.significance import holm, sign_flip_p

SEEDS = 8
EVEN = np.linspace(-1, 1, SEEDS)
SCORES = {"norm=a": 0.5 + 0.01 * EVEN, "norm=b": 0.8 - 0.01 * EVEN}


def test_a_claim_has_its_own_metric_and_is_corrected_with_the_others(tmp_path):
    expect = [
        {"variant": "norm=b", "direction": "higher"},
        {"variant": "norm=b", "direction": "higher", "metric": "eval/reward", "minimum_effect": 0.4},
        {"variant": "norm=b", "direction": "above", "metric": "eval/reward", "value": 1.0},
    ]
    found = answered(study_sweep(tmp_path, SCORES, expect))
    first, second, level = found.verdicts
    assert (first.metric, second.metric) == (METRIC, "eval/reward")
    assert second.estimate == pytest.approx(2 * first.estimate, rel=0.1) and level.verdict == "reproduced"
    assert second.claim.endswith("by at least 0.4, in eval/reward") and found.comparisons[0].family == 2
    assert second.p_holm == pytest.approx(holm(np.array([2 / 2**SEEDS] * 2))[0])


def test_a_claim_at_an_equal_budget_sees_the_rows_up_to_it(tmp_path):
    """b is ahead at equal steps, and level where a has spent as much."""
    asked = [("higher", "steps=10"), ("equal", "tokens=50")]
    expect = [{"variant": "norm=b", "direction": each, "at": at, "minimum_effect": 0.1} for each, at in asked]
    folder = study_sweep(tmp_path, SCORES, expect)
    for seed in range(SEEDS):
        for variant, cost in (("norm=a", 5), ("norm=b", 10)):
            values = (0.1 * cost / 5) * np.arange(11) + 0.001 * EVEN[seed] * (cost == 5)
            write_curve(folder / f"{variant},seed={seed}", np.arange(11), np.minimum(values, 9.0), tokens=cost)
    steps, tokens = answered(folder).verdicts
    assert (steps.verdict, tokens.verdict) == ("reproduced", "reproduced")
    assert (steps.metric, tokens.metric) == (f"{METRIC} at 10 steps", f"{METRIC} at 50 tokens")
    assert steps.estimate == pytest.approx(0.95, abs=0.01)  # of the last two of eleven rows
    assert tokens.estimate == pytest.approx(0.05, abs=0.01)  # of one of six rows, and two of eleven


def test_the_point_of_a_grid_is_chosen_once_by_the_studys_own_metric(tmp_path):
    """At lr=2 the score is best and the reward, which is twice as high at lr=1 after a change, is not."""
    scores = {f"norm={norm},lr={lr}": SCORES[f"norm={norm}"] + 0.1 * lr for norm in "ab" for lr in (1, 2)}
    expect = [{"variant": "norm=b", "direction": "higher", "metric": "eval/reward"}]
    folder = study_sweep(tmp_path, scores, expect, best_of=["lr"], choose_seeds=[0])
    for path in folder.glob("*lr=1*/metrics.jsonl"):
        path.write_text(path.read_text().replace('"eval/reward": ', '"eval/reward": 9'))
    (verdict,) = answered(folder).verdicts
    numbers = [numbers_of(folder, f"norm={norm},lr=2", metric="eval/reward") for norm in "ba"]
    assert verdict.n == SEEDS - 1 and verdict.estimate == pytest.approx(np.subtract(*numbers)[1:].mean())


def test_a_study_may_ask_for_a_cost_in_its_table(tmp_path):
    expect = [{"variant": "norm=b", "direction": "lower", "minimum_effect": 20}]
    study = {"matched": f"{METRIC}=0.5", "at": "tokens"}
    folder = study_sweep(tmp_path, SCORES, expect, **study)
    arriving(folder, {"norm=a": np.arange(10, 18), "norm=b": np.arange(6, 14)})
    found = answered(folder)
    (verdict,) = found.verdicts
    assert (verdict.verdict, verdict.estimate) == ("reproduced", -40.0)
    assert found.comparisons[0].metric == verdict.metric == f"tokens at {METRIC} ≥ 0.5"
    assert verdict.claim == "norm=b lower than norm=a, by at least 20"


@pytest.mark.parametrize(
    ("written", "own", "asked"),
    [
        ({}, {"metric": "m", "at": "tokens"}, MetricSpec("m", Budget("tokens"))),
        ({"metric": "n"}, {"metric": "m", "at": "tokens=5"}, MetricSpec("n", Budget("tokens", 5.0))),
        ({"matched": "m=0.5"}, {"metric": "m"}, MetricSpec(None, None, Target("m", 0.5))),
        ({"matched": "m=0.5"}, {"metric": "m", "at": "time"}, MetricSpec(None, Budget("time"), Target("m", 0.5))),
        ({"matched": "m=0.5", "metric": "n"}, {"at": "time"}, MetricSpec("n", None, Target("m", 0.5))),
        ({"metric": "diverged"}, {"at": "time", "matched": "m=1"}, MetricSpec("diverged")),
        ({"metric": "curve/speed"}, {"at": "time"}, MetricSpec("curve/speed")),
    ],
)
def test_what_a_claim_does_not_say_is_as_its_study_has_it(written, own, asked):
    assert with_defaults(parse_metric_spec(written), parse_metric_spec(own)) == asked


@pytest.mark.parametrize(
    ("written", "own", "asked"),
    [
        ({"matched": "m=0.5"}, {"metric": "m"}, MetricSpec(None, None, Target("m", 0.5))),
        ({"matched": "kl=4"}, {"metric": "m"}, MetricSpec("m", None, Target("kl", 4.0))),
        ({"matched": "kl=4"}, {}, MetricSpec("s/core", None, Target("kl", 4.0))),
        ({"matched": "core=4"}, {}, MetricSpec(None, None, Target("core", 4.0))),
        ({"matched": "kl=4", "at": "tokens"}, {"metric": "m"}, MetricSpec(None, Budget("tokens"), Target("kl", 4.0))),
        ({"matched": "kl=4"}, {"matched": "m=1", "at": "time"}, MetricSpec(None, Budget("time"), Target("kl", 4.0))),
        ({"matched": "kl=4"}, {"metric": "m", "at": "time"}, MetricSpec("m", None, Target("kl", 4.0))),
        ({"metric": "s/core"}, {"metric": "m"}, MetricSpec(None)),
    ],
)
def test_a_target_is_matched_for_the_studys_metric_or_for_its_cost(written, own, asked):
    assert StudySpec(own | {"minimum_effect": 3}, {}, [""], "s/core").spec(written) == asked


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ({"at": "tokns"}, "at=tokns: 'tokns' is no budget; choose one of: steps"),
        ({"at": "tokens=x"}, "at=tokens=x: 'x' is no number"),
        ({"matched": "0.5"}, "matched=0.5: expected a metric and a value"),
        ({"metric": "eval/nothing"}, "no run logged 'eval/nothing'"),
        ({"metric": "diverged", "at": "tokens"}, "diverged is of a whole run"),
        ({"matched": f"{METRIC}=7"}, f"no completed run reaches {METRIC} ≥ 7; the highest is"),
    ],
)
def test_what_has_no_number_is_not_judged_and_spoils_nothing(tmp_path, key, reason):
    expect = [{"variant": "norm=b", "direction": "higher"} | key, {"variant": "norm=b", "direction": "higher"}]
    first, second = answered(study_sweep(tmp_path, SCORES, expect)).verdicts
    assert first.verdict == "not judged" and first.reason.startswith(reason)
    assert second.verdict == "reproduced" and second.p_holm == 2 / 2**SEEDS


def test_an_interaction_is_a_difference_of_differences(tmp_path):
    """What b brings with d, less what it brings with c."""
    effects = {("a", "c"): 0.0, ("b", "c"): 0.1, ("a", "d"): 0.05, ("b", "d"): 0.45}
    rng = np.random.default_rng(0)
    scores = {f"norm={n},clip={c}": 0.3 + effect + 0.01 * rng.normal(size=9) for (n, c), effect in effects.items()}
    expect = [
        {
            "variant": "norm=b,clip=d",
            "versus": "norm=a,clip=d",
            "less": {"variant": "norm=b,clip=c", "versus": "norm=a,clip=c"},
            "direction": "higher",
            "minimum_effect": 0.2,
        }
    ]
    found = answered(study_sweep(tmp_path, scores, expect, baseline="norm=a,clip=c"))
    (verdict,) = found.verdicts
    arrays = {key: np.array(scores[f"norm={key[0]},clip={key[1]}"]) for key in effects}
    by_hand = (arrays["b", "d"] - arrays["a", "d"]) - (arrays["b", "c"] - arrays["a", "c"])
    assert verdict.verdict == "reproduced" and verdict.estimate == pytest.approx(by_hand.mean())
    assert verdict.p_holm == pytest.approx(4 * sign_flip_p(by_hand)) and found.comparisons[0].family == 4
    text = "norm=b,clip=d − norm=a,clip=d higher than norm=b,clip=c − norm=a,clip=c, by at least 0.2"
    assert verdict.claim == text


def test_runs_that_diverged_count_in_rates_and_nowhere_else(tmp_path):
    expect = [
        {"variant": "norm=b", "direction": "higher", "metric": "diverged", "minimum_effect": 0.5},
        {"variant": "norm=b", "direction": "higher", "metric": "collapsed"},
        {"variant": "norm=b", "direction": "higher"},
    ]
    folder = study_sweep(tmp_path, SCORES, expect)
    for seed in range(7):
        change_summary(folder / f"norm=b,seed={seed}", status="diverged", reason="diverged by step 3", score=None)
    change_summary(folder / "norm=b,seed=7", status="failed", reason="disk full", score=None, collapsed=None)
    found = answered(folder)
    rate, collapsed, score = found.verdicts
    assert (rate.verdict, rate.n, rate.estimate) == ("reproduced", 7, 1.0)
    assert (collapsed.verdict, collapsed.n, score.n) == ("reproduced", 7, 0)
    assert rate.p_holm == pytest.approx(2 * 2 / 2**7)  # of the two differences that have seeds
    assert any("Left out of diverged, as they failed otherwise or do not say: 1 of 16" in note for note in found.notes)
    assert answered(folder, metric="diverged").comparisons[0].table.loc["norm=b", "mean"] == 1.0


@pytest.mark.parametrize("key", [{"metric": METRIC, "matched": "eval/reward=0.1"}, {"metric": "eval/reward"}, {}])
def test_the_smallest_effect_is_the_studys_unless_an_expectation_has_its_own(tmp_path, key):
    expect = [{"variant": "norm=b", "direction": "higher"} | key | own for own in ({}, {"minimum_effect": 0.0})]
    shared, own = answered(study_sweep(tmp_path, SCORES, expect, minimum_effect=0.2)).verdicts
    assert (shared.minimum_effect, own.minimum_effect) == (0.2, 0.0)
