"""What a run never reaches costs it infinitely much: ranked, not left out."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import METRIC
from rich.console import Console
from scipy.stats import binomtest, wilcoxon
from study_sweeps import answered, arriving, study_sweep

from rlexp.analysis.compare import report
from rlexp.analysis.report.page import write_report
from rlexp.analysis.stats.estimates import iqm_interval, median_difference
from rlexp.analysis.stats.significance import PairedTest, sign_flip_p, signed_ranks, subtract
from rlexp.analysis.stats.verdicts import difference_verdict

NEVER = np.inf
RANKED = PairedTest(ranked=True)
COST = {"matched": f"{METRIC}=0.5", "minimum_effect": 2}
LATE = [20, 21, 22, 23, 24, 25, 26, 27]


def study(folder, arrivals, direction="lower", **further):
    """A claim of a study about how soon b reaches one half."""
    scores = {variant: np.linspace(0.5, 0.6, len(steps)) for variant, steps in arrivals.items()}
    folder = study_sweep(folder, scores, [{"variant": "norm=b", "direction": direction} | COST | further])
    arriving(folder, arrivals)
    return folder


@pytest.mark.parametrize(
    ("late", "soon", "direction", "verdict", "estimate"),
    [
        ([NEVER] * 5 + [30, 31, 32], [10, 11, 12, 13, 14, 15, 16, 17], "lower", "reproduced", -NEVER),
        ([NEVER] * 3 + LATE[3:], [10, 11, 12, 13, 14, 15, 16, 17], "lower", "reproduced", -10.0),
        ([NEVER] * 8, [NEVER, 11, 12, 13, 14, 15, 16, 17], "lower", "reproduced", -NEVER),
        ([10, 11, 12, 13, 14, 15, 16, 17], [NEVER] * 4 + LATE[4:], "lower", "reversed", 10.0),
        (LATE, [step + 1 for step in LATE], "lower", "practically equal", 1.0),
        (LATE, [step - 1 for step in LATE], "equal", "reproduced", -1.0),
        ([*LATE[:7], NEVER], [*LATE[:7], NEVER], "equal", "reproduced", 0.0),
        (LATE, [25, 14, NEVER, 18, NEVER, 20, 29, 24], "lower", "underpowered", 0.0),
        (LATE, [20, 21, 22, 23, 24, 25, 26, NEVER], "equal", "underpowered", 0.0),
        (LATE, np.add(LATE, [-1, 1, -1, 3, -1, 4, 5, NEVER]), "lower", "not reproduced", 2.0),
    ],
)
def test_the_rule_with_runs_that_never_arrive(tmp_path, late, soon, direction, verdict, estimate):
    (found,) = answered(study(tmp_path, {"norm=a": late, "norm=b": soon}, direction)).verdicts
    assert (found.verdict, found.n) == (verdict, 8), found.reason
    assert found.estimate == estimate


def test_a_verdict_says_plainly_who_never_arrives(tmp_path):
    folder = study(tmp_path, {"norm=a": [10, 11, 12, 13, 14, 15, 16, 17], "norm=b": [NEVER] * 7 + [30]})
    found = answered(folder)
    (verdict,) = found.verdicts
    assert verdict.reason.startswith("median never [+13, never], 1/8 and 8/8 arrive, p (Holm) = ")
    assert verdict.claim == f"norm=b lower than norm=a, by at least 2, in steps at {METRIC} ≥ 0.5"
    note = f"Of the claims on steps at {METRIC} ≥ 0.5: Never reached it, and count as worse than any that did: b 7."
    assert note in found.notes


def test_a_stratum_in_which_none_arrives_is_not_judged(tmp_path):
    (found,) = answered(study(tmp_path, {"norm=a": [NEVER] * 8, "norm=b": [NEVER] * 8})).verdicts
    assert found.verdict == "not judged" and found.reason.startswith(f"no completed run reaches {METRIC} ≥ 0.5")


def test_a_table_of_costs_survives_what_never_arrives(tmp_path):
    """Every output, figures too; the others of the sweep's own question have no infinite number."""
    arrivals = {
        f"norm={n},clip={c}": [NEVER] * k + LATE[k:]
        for (n, c), k in zip(product("ab", "cd"), (0, 1, 5, 8), strict=True)
    }
    folder = study_sweep(tmp_path / "x", {name: np.linspace(0.5, 0.6, 8) for name in arrivals}, [])
    arriving(folder, arrivals)
    from rlexp.analysis.data.metric_spec import Target

    with open(tmp_path / "out.txt", "w") as stream:
        found = report(folder, console=Console(file=stream, width=220), matched=Target(METRIC, 0.5))
    text = (tmp_path / "out.txt").read_text()
    table = found.comparison.table
    assert table["arrived"].tolist() == [8, 7, 3, 0] and "3/8" in text and "∞" in text
    assert table["iqm"].tolist() == [23.5, 24.5, NEVER, NEVER] and table["median"].tolist()[2:] == [NEVER, NEVER]
    assert not any("nan" in line for line in text.splitlines())
    stored = json.loads((folder / "analysis/matched=eval_greedy_accuracy=0.5/comparison.json").read_text())
    scores = stored["comparisons"][0]["scores"]["norm=b,clip=c"]
    assert scores == {str(seed): "inf" if seed < 5 else LATE[seed] for seed in range(8)}
    assert stored["comparisons"][0]["ranked"] and stored["comparisons"][0]["arms"][3]["difference"] == "inf"
    interactions = pd.read_csv(folder / "analysis/matched=eval_greedy_accuracy=0.5/interactions.csv")
    assert interactions["n_pairs"].tolist() == [8]


def test_signed_ranks_are_wilcoxons():
    rng = np.random.default_rng(0)
    for n in (3, 8, 12):
        differences = rng.normal(0.3, 1, n)
        assert sign_flip_p(signed_ranks(differences)) == pytest.approx(wilcoxon(differences, method="exact").pvalue)
    assert signed_ranks(np.array([-3.0, 1.0, 1.0, 0.0, NEVER, -NEVER])).tolist() == [-3, 1.5, 1.5, 0, 4.5, -4.5]
    assert RANKED.p(np.array([NEVER] * 6)) == 2 / 2**6 and RANKED.p(np.zeros(6)) == 1


def test_rates_of_many_seeds_have_mcnemars_exact_p():
    differences = np.array([1.0] * 9 + [-1.0] * 2 + [0.0] * 9)
    assert sign_flip_p(differences) == pytest.approx(binomtest(2, 11).pvalue, rel=1e-12)
    assert sign_flip_p(np.array([1.0] * 8 + [-1.0] * 8)) == 1


def test_ranks_say_which_way_and_the_median_how_far():
    half = np.array([0.0] * 7 + [NEVER, 1, 2, 3, 4, 5, 6])
    p = RANKED.p(half)
    assert (p, median_difference(half).mean) == (2 / 2**7, 0.5)
    verdicts = {least: difference_verdict("higher", half, least, p, 1, RANKED) for least in (0.0, 0.5, 0.6)}
    assert verdicts == {0.0: "reproduced", 0.5: "reproduced", 0.6: "underpowered"}
    less = np.array([0.0] * 8 + [NEVER, 1, 2, 3, 4, 5])  # of which the median is 0
    assert difference_verdict("higher", less, 0.0, RANKED.p(less), 1, RANKED) == "reproduced"
    assert difference_verdict("lower", less, 0.0, RANKED.p(less), 1, RANKED) == "reversed"


def test_of_two_that_never_arrive_the_difference_is_zero():
    assert subtract([NEVER, NEVER, 1, 2], [NEVER, 1, NEVER, 1]).tolist() == [0, NEVER, -NEVER, 1]


def test_the_median_has_an_interval_that_holds_it():
    """At least 95 % of samples, of any distribution; no interval below six seeds."""
    rng = np.random.default_rng(0)
    for n in (6, 10, 15):
        samples = rng.exponential(size=(2000, n))
        found = [median_difference(sample) for sample in samples]
        held = np.mean([each.low <= np.log(2) <= each.high for each in found])
        assert held >= 0.945
    assert np.isnan(median_difference(np.arange(5.0)).low)
    ends = {(-NEVER, NEVER): 0, (1, NEVER): 1, (-NEVER, 2): 2, (1, 2): 1.5, (NEVER, NEVER): NEVER}
    assert [median_difference(np.array(pair)).mean for pair in ends] == list(ends.values())


def test_the_interval_of_an_iqm_is_infinite_only_where_it_must_be():
    finite = np.arange(1.0, 13)
    low, high = iqm_interval(np.where(finite > 10, NEVER, finite))
    assert np.isfinite(low) and high == NEVER
    assert iqm_interval(np.full(6, NEVER)) == (NEVER, NEVER)


def test_the_page_of_a_study_of_costs_says_what_it_cannot_draw(tmp_path):
    """Within strata: their costs have no SD to be pooled by."""
    arrivals = {
        f"norm={n},start={s}": LATE[: 8 - k] + [NEVER] * k
        for (n, s), k in zip(product("ab", "xy"), (0, 1, 3, 2), strict=True)
    }
    expect = [{"variant": "norm=b", "direction": "equal", "minimum_effect": 30}]
    scores = {name: np.linspace(0.5, 0.6, 8) for name in arrivals}
    folder = study_sweep(tmp_path, scores, expect, within=["start"], matched=f"{METRIC}=0.5")
    arriving(folder, arrivals)
    found = answered(folder)
    assert found.pooled is None and len(found.verdicts) == 2
    page = write_report(folder).path.read_text(encoding="utf-8")
    assert "is infinite for some runs" in page and "practically equal" not in page
    assert "within ±30" in page
