"""What two runs must differ by: printed numbers of Shrout & Fleiss, an ANOVA of statsmodels, and simulated truth."""

import os

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import random_scores, write_sweep
from schemas import check_schema
from scipy.stats import t as student
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from rlexp.analysis import load, noise
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.comparison import compare
from rlexp.analysis.stats.noise import noise_of, noise_statement, seed_noise
from rlexp.analysis.stats.significance import seeds_for_effect

SHROUT = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])  # table 2


def drawn(rng, sweeps, n, arms, sd=0.04, correlation=0.8):
    """Scores `[sweeps, n, arms]` of arms with one mean, with this SD and correlation over seeds."""
    shared = rng.normal(0, np.sqrt(correlation), (sweeps, n, 1))
    return 0.6 + sd * (shared + np.sqrt(1 - correlation) * rng.normal(size=(sweeps, n, arms)))


def test_the_correlation_is_that_of_shrout_and_fleiss():
    """Their table 4: ICC(3,1) = .71; the interval as R's psych and pingouin print it: [.34, .95]."""
    found = seed_noise(SHROUT)
    assert round(found.correlation, 2) == 0.71
    assert [round(end, 2) for end in found.correlation_interval] == [0.34, 0.95]


def test_the_mean_squares_are_those_of_an_analysis_of_variance():
    """statsmodels' two-way ANOVA; rounding of sums: 1e-10."""
    n, arms = SHROUT.shape
    seed, arm = np.repeat(np.arange(n), arms), np.tile(np.arange(arms), n)
    cells = pd.DataFrame({"y": SHROUT.ravel(), "seed": seed, "arm": arm})
    table = anova_lm(ols("y ~ C(seed) + C(arm)", cells).fit())
    by_seed, rest = table.loc["C(seed)", "mean_sq"], table.loc["Residual", "mean_sq"]
    found = seed_noise(SHROUT)
    assert found.sd**2 == pytest.approx((by_seed + 3 * rest) / 4, abs=1e-10)
    assert found.paired_sd**2 == pytest.approx(2 * rest, abs=1e-10) and found.paired_df == 15
    assert found.sd**2 == pytest.approx(SHROUT.var(0, ddof=1).mean())  # the mean of the arms' variances
    pair = seed_noise(SHROUT[:, :2])
    assert pair.paired_sd == pytest.approx((SHROUT[:, 0] - SHROUT[:, 1]).std(ddof=1))
    assert pair.paired_sd**2 == pytest.approx(2 * pair.sd**2 * (1 - pair.correlation))


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.85])
@pytest.mark.parametrize(("n", "arms"), [(3, 3), (4, 10), (5, 2), (10, 3)])
def test_bounds_and_intervals_hold_what_they_say(n, arms, correlation):
    """Two new runs of equal arms differ by more than the bound once in twenty; intervals hold the truth.

    4,000 sweeps: three standard errors of .05 are .0103. Where ρ is not known Satterthwaite's degrees of freedom are
    not exact (at most .067 with three or four seeds), and the interval of σ is on the safe side.
    """
    rng = np.random.default_rng([n, arms, int(100 * correlation)])
    sweeps = 4000
    scores = drawn(rng, sweeps, n, arms, correlation=correlation)
    new = drawn(rng, sweeps, 7, 2, correlation=correlation)
    found = [seed_noise(each) for each in scores]
    single = np.abs(new[:, 0, 0] - new[:, 1, 1])
    same = np.abs(new[:, 2, 0] - new[:, 2, 1])
    means = np.abs(new[:, :, 0].mean(1) - new[:, :, 1].mean(1))
    false = {
        "other seeds": np.mean(single > [each.must_differ() for each in found]),
        "the same seed": np.mean(same > [each.must_differ(paired=True) for each in found]),
        "means of the same": np.mean(means > [each.must_differ(7, True) for each in found]),
    }
    missed = {
        "sd": np.mean([not each.sd_interval.low <= 0.04 <= each.sd_interval.high for each in found]),
        "correlation": np.mean(
            [not each.correlation_interval.low <= correlation <= each.correlation_interval.high for each in found]
        ),
        "paired sd": np.mean(
            [
                not each.paired_sd_interval.low <= 0.04 * np.sqrt(2 - 2 * correlation) <= each.paired_sd_interval.high
                for each in found
            ]
        ),
    }
    for name, share in (false | missed).items():
        more, less = {"other seeds": (0.017, 0.015), "sd": (0.01, 0.03)}.get(name, (0, 0))
        assert 0.0397 - less <= share <= 0.0603 + more, (name, share)


def test_degrees_of_freedom_lie_between_those_of_one_arm_and_of_all():
    rng = np.random.default_rng(0)
    alone = [seed_noise(each).df for each in drawn(rng, 200, 10, 4, correlation=0.0)]
    together = [seed_noise(each).df for each in drawn(rng, 200, 10, 4, correlation=0.99)]
    assert 25 < np.median(alone) <= 36 and 9 <= np.median(together) < 10


def test_what_means_must_differ_by():
    found = seed_noise(SHROUT)
    other, same = student.ppf(0.975, found.df), student.ppf(0.975, 15)
    assert found.must_differ() == pytest.approx(other * np.sqrt(2) * found.sd)
    assert found.must_differ(8) == pytest.approx(found.must_differ() / np.sqrt(8))
    assert found.must_differ(8, True) == pytest.approx(same * found.paired_sd / np.sqrt(8))
    with pytest.raises(AnalysisError, match="of one seed or more"):
        found.must_differ(0)


def test_a_paired_seed_is_worth_one_over_one_less_the_correlation():
    found = seed_noise(SHROUT)
    assert found.paired_worth == pytest.approx(1 / (1 - found.correlation))
    n = 10
    m = n * found.paired_worth_at(n)
    unpaired = student.ppf(0.975, 2 * m - 2) * found.sd * np.sqrt(2 / m)
    assert unpaired == pytest.approx(student.ppf(0.975, n - 1) * found.paired_sd / np.sqrt(n))
    assert found.paired_worth_at(3) < found.paired_worth_at(10) < found.paired_worth
    assert found.paired_worth_at(10**6) == pytest.approx(found.paired_worth, rel=1e-3)
    assert np.isnan(found.paired_worth_at(1))


def test_seeds_that_lack_an_arm_are_left_out_and_order_does_not_matter():
    scores = SHROUT.astype(float)
    holes = np.vstack([scores, [5.0, np.nan, 6.0, 7.0]])
    assert seed_noise(holes) == seed_noise(scores)
    reordered = seed_noise(scores[::-1, [2, 0, 3, 1]])
    np.testing.assert_allclose(np.hstack(reordered), np.hstack(seed_noise(scores)), rtol=1e-12)
    np.testing.assert_allclose(seed_noise(scores + 1e6).sd, seed_noise(scores).sd, rtol=1e-6)
    assert seed_noise(np.c_[scores, np.full(6, np.nan)]) == seed_noise(scores)


def test_arms_without_common_seeds_are_pooled():
    a, b = SHROUT[:, 0].astype(float), SHROUT[:4, 1].astype(float)
    scores = np.full((10, 2), np.nan)
    scores[:6, 0], scores[6:, 1] = a, b
    found = seed_noise(scores)
    assert found.sd**2 == pytest.approx((5 * a.var(ddof=1) + 3 * b.var(ddof=1)) / 8) and found.df == 8
    assert np.isnan(found.correlation) and np.isnan(found.must_differ(5, True)) and np.isnan(found.paired_worth)
    alone = seed_noise(a[:, None])
    assert alone.sd == pytest.approx(a.std(ddof=1)) and alone.df == 5


def test_arms_that_differ_by_a_constant_have_no_paired_noise():
    found = seed_noise(np.array([[0.1, 0.3], [0.5, 0.7], [0.2, 0.4]]))
    assert found.paired_sd == 0 and found.correlation == 1 and found.must_differ(1, True) == 0
    assert found.paired_worth == found.paired_worth_at(3) == np.inf


@pytest.mark.parametrize(
    ("scores", "line"),
    [
        (np.zeros((0, 0)), "no arm has two seeds \\(0 completed runs\\)"),
        ([[0.5]], "no arm has two seeds \\(1 completed run\\)"),
        ([[0.5, 0.6]], "no arm has two seeds \\(2 completed runs\\)"),
        ([[0.5, np.nan], [np.nan, 0.5]], "no arm has two seeds"),
        ([[0.5, 0.6], [0.5, 0.6]], "no two seeds of any arm differ"),
        ([[0.5], [0.5]], "no two seeds of any arm differ"),
        ([[0.5, np.inf], [0.4, 0.3]], "some numbers are infinite"),
    ],
)
def test_where_nothing_is_known_a_line_says_so(scores, line):
    with pytest.raises(AnalysisError, match=line):
        seed_noise(np.array(scores))


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def sweep(tmp_path):
    return write_sweep(tmp_path / "norms", random_scores(["norm=a", "norm=b", "norm=c"], 8), steps=10)


def test_the_command_says_it_in_one_screen(sweep, capsys):
    assert noise.main([str(sweep), "--effect", "0.02"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Two single runs must differ by 0.") and out.count("\n") < 30
    comparison = compare(load(sweep))
    found = noise_of(comparison)
    seeds = seeds_for_effect(0.02, found.paired_sd, 2)
    assert (
        f"{seeds} seeds of every arm would settle a difference of 0.02" in " ".join(out.split()) and " min " not in out
    )
    assert noise_statement(comparison) in " ".join(out.split())


def test_minutes_are_said_where_they_are_known(sweep, capsys):
    begin = sweep / "multirun.yaml"
    begin.write_text("")
    os.utime(begin, (0, 0))
    for summary in sweep.glob("*/summary.json"):
        os.utime(summary, (2400, 2400))
    assert noise.main([str(sweep), "--effect", "0.02"]) == 0
    seeds = seeds_for_effect(0.02, noise_of(compare(load(sweep))).paired_sd, 2)
    expected = f"about {seeds * 3 * 100 / 60:.0f} min at this sweep's speed"  # 24 runs in 2,400 s
    assert expected in " ".join(capsys.readouterr().out.split())


def test_as_json(sweep, capsys):
    assert noise.main([str(sweep), "--json", "--effect", "0.02"]) == 0
    (found,) = check_schema("noise", capsys.readouterr().out)
    known = noise_of(compare(load(sweep)))
    assert found["sd"] == known.sd and found["two_runs"] == known.must_differ() and found["stratum"] == ""
    assert found["correlation_interval"] == list(known.correlation_interval)
    assert found["means"][4] == {"seeds": 10, "unpaired": known.must_differ(10), "paired": known.must_differ(10, True)}
    assert found["settled"]["seeds"] and found["settled"]["minutes"] is None


def test_tasks_are_told_apart(tmp_path, capsys):
    names = [f"task={task},norm={norm}" for task in ("sort", "parity") for norm in ("a", "b")]
    folder = write_sweep(tmp_path / "tasks", random_scores(names, 6), steps=10)
    assert noise.main([str(folder)]) == 0
    out = capsys.readouterr().out
    assert out.count("Two single runs must differ by") == 2 and out.startswith("task=")


def test_no_sentence_where_nothing_is_known(tmp_path):
    one = write_sweep(tmp_path / "one", {"norm=a": [0.5], "norm=b": [0.6]}, steps=10)
    assert noise_statement(compare(load(one))) == ""


@pytest.mark.parametrize(
    ("scores", "arguments", "line"),
    [
        ({"norm=a": [0.5]}, [], "no arm has two seeds (1 completed run)"),
        ({"norm=a": [0.5], "norm=b": [0.6]}, [], "no arm has two seeds (2 completed runs)"),
        ({"norm=a": [0.5, 0.6, 0.7]}, ["--effect", "0.1"], "--effect takes two arms on the same seeds"),
        ({"norm=a": [0.5, 0.6]}, ["--effect", "nan"], "--effect nan: must be above 0"),
        ({"norm=a": [0.5, 0.6]}, ["--metric", "best"], "no run logged 'best'"),
    ],
)
def test_a_sweep_that_says_nothing_ends_in_a_line(tmp_path, capsys, scores, arguments, line):
    folder = write_sweep(tmp_path / "sweep", scores, steps=4)
    assert noise.main([str(folder), *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {line}") and err.count("\n") == 1
    assert noise.main([str(tmp_path / "nowhere")]) == 2
    assert "is not a folder" in capsys.readouterr().err
