"""How many seeds an effect takes, and one question with its exit code."""

import json
import os

import numpy as np
import pytest
from analysis_fixtures import write_sweep
from schemas import check_schema
from scipy.stats import ttest_rel

from rlexp.analysis import better, plan
from rlexp.analysis.stats.significance import (
    MOST,
    minimum_detectable_effect,
    seeds_for_effect,
    seeds_until_decided,
    sign_flip_p,
)

pytestmark = pytest.mark.slow  # many draws

BASE = np.random.default_rng(0).normal(0.5, 0.05, 10)
NOISE = np.random.default_rng(1).normal(0, 0.02, 10)


def test_seeds_for_an_effect_are_the_fewest_that_detect_it():
    for effect, sd, of in ((0.02, 0.03, 1), (0.05, 0.03, 4), (0.01, 0.05, 2)):
        n = seeds_for_effect(effect, sd, of)
        assert minimum_detectable_effect(sd, n, comparisons=of) <= effect
        assert n == 8 or minimum_detectable_effect(sd, n - 1, comparisons=of) > effect
    assert seeds_for_effect(1.0, 0.001) == 6  # sign flips reach no smaller p with five
    assert seeds_for_effect(1e-6, 1.0) is None


def test_seeds_for_an_effect_give_the_power_by_simulation():
    n = seeds_for_effect(0.02, 0.03)
    draws = np.random.default_rng(2).normal(0.02, 0.03, (2000, n))
    power = np.mean([ttest_rel(row, np.zeros(n)).pvalue < 0.05 for row in draws])
    assert power == pytest.approx(0.8, abs=0.03)  # three standard errors


def test_smaller_effects_take_longer_to_decide():
    seeds = [seeds_until_decided(effect, 0.03) for effect in (0.12, 0.06, 0.03, 0.0)]
    assert seeds == sorted(seeds) and 6 <= seeds[0] < 8 and seeds[-1] > 0.9 * MOST


@pytest.fixture
def sweep(tmp_path):
    scores = {"norm=a": list(BASE), "norm=b": list(BASE + 0.1 + NOISE), "norm=c": list(BASE + NOISE)}
    return str(write_sweep(tmp_path / "pilot", scores, steps=4))


def test_a_pilot_says_what_an_effect_takes(sweep, tmp_path, capsys):
    assert plan.main([sweep, "--effect", "0.02"]) == 0
    out = capsys.readouterr().out
    sd = np.std(NOISE, ddof=1)
    assert f"{sd:.4f}" in out and f" {seeds_for_effect(0.02, sd, 2)} " in out and "min" not in out
    begin = tmp_path / "pilot" / "multirun.yaml"
    begin.write_text("")
    os.utime(begin, (0, 0))
    for summary in (tmp_path / "pilot").glob("*/summary.json"):
        os.utime(summary, (3000, 3000))
    assert plan.main([sweep, "--effect", "0.02"]) == 0
    assert "take about" in capsys.readouterr().out


def test_a_plan_as_json(sweep, capsys):
    assert plan.main([sweep, "--effect", "0.02", "--json"]) == 0
    found = check_schema("plan", capsys.readouterr().out)
    need = next(each for each in found["needs"] if each["label"] == "c")
    assert need["sd"] == pytest.approx(np.std(NOISE, ddof=1)) and need["seeds"] == seeds_for_effect(0.02, need["sd"], 2)
    assert found["minutes"] is None and found["arms"] == 3


@pytest.mark.parametrize(
    ("asked", "code", "begins"),
    [
        (["norm=b", "norm=a"], 0, "yes: norm=b is better than norm=a: +0."),
        (["norm=b", "norm=a", "--by", "0.05"], 0, "yes: norm=b is better than norm=a by at least 0.05: "),
        (["norm=b", "norm=a", "--by", "0.5"], 10, "no: norm=b is not better than norm=a by at least 0.5: "),
        (["a", "b"], 10, "no: a is not better than b: "),
        (["norm=b", "norm=a", "--endpoint", "auc:tokens"], 0, "yes: norm=b is better than norm=a: +0."),
        (["norm=c", "norm=a"], 11, "open: whether norm=c is better than norm=a is not known: "),
    ],
)
def test_a_question_has_an_exit_code(sweep, capsys, asked, code, begins):
    assert better.main([sweep, *asked]) == code
    out = capsys.readouterr().out
    assert out.startswith(begins) and out.count("\n") == 1
    assert ("more seeds would tell" in out) is (code == 11)


def test_its_p_is_that_of_the_sign_flips_less_the_margin(sweep, capsys):
    assert better.main([sweep, "norm=b", "norm=a", "--by", "0.05", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["p"] == sign_flip_p(0.1 + NOISE - 0.05) and found["n"] == 10 and found["more_seeds"] is None


@pytest.mark.parametrize(
    ("command", "arguments", "line"),
    [
        (better, ["norm=a", "norm=a"], "norm=a: is both; name two variants"),
        (better, ["norm=a", "norm=z"], "'norm=z' is not a variant; choose one of: norm=a  norm=b  norm=c"),
        (better, ["norm=b", "norm=a", "--by", "-1"], "--by -1: must be at least 0"),
        (better, ["norm=b", "norm=a", "--endpoint", "end"], "--endpoint end: 'end' is no endpoint; allowed: final"),
        (better, ["norm=b", "norm=a", "--metric", "group/size"], "no run logged 'group/size'; choose one of: "),
        (plan, ["--effect", "0"], "--effect 0: must be above 0"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_line(sweep, capsys, command, arguments, line):
    assert command.main([sweep, *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {line}") and err.count("\n") == 1


def test_equal_arms_scatter_nowhere(tmp_path, capsys):
    folder = write_sweep(tmp_path / "same", {"norm=a": [0.5] * 4, "norm=b": [0.5] * 4}, steps=4)
    assert plan.main([str(folder), "--effect", "0.1"]) == 2
    assert "so nothing scatters" in capsys.readouterr().err
