"""Races: a plain loop over the rule, what may go wrong at most so often, and what the notes say."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from analysis_fixtures import write_sweep

from benchmarks import stopping
from rlexp.analysis.data.load import load
from rlexp.analysis.report.tables import answer_json, comparison_table
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.racing import race, race_alpha
from rlexp.analysis.stats.significance import is_above, lower_bound, symmetry_p

RNG = np.random.default_rng(5)


def table(means, seeds, shared=1.0):
    noise = RNG.normal(size=(seeds, len(means))) / np.sqrt(2) + shared * RNG.normal(size=(seeds, 1))
    return pd.DataFrame(noise + means, columns=[*"abcdef"[: len(means)]])


@pytest.mark.parametrize("seeds", [5, 8, 20, 40])
def test_the_rule_is_that_of_a_plain_loop(seeds):
    for means in ([0, 0, 0], [0, -2, 0.2], [1.5, 1, 0], [3, 0, 0]):
        scores = table(means, seeds)
        found, alpha = race(scores, 1.0), 0.05 / 2
        pairs = [(i, j) for i, j in product("abc", "abc") if i != j]
        bound = {(i, j): lower_bound((scores[i] - scores[j]).to_numpy(), alpha) for i, j in pairs}
        assert {*found.out} == {j for (i, j), low in bound.items() if low > 0}
        left = [arm for arm in "abc" if arm not in found.out]
        best = [i for i in left if all(bound[i, j] > -1 for j in left if j != i)]
        assert found.left == left and (found.best in best if best else found.best is None)


def test_arms_have_to_be_worse_than_one_that_is_there():
    scores = table([0, 0, 4], 12)
    found = race(scores, 0.5)
    assert found.best == "c" and found.left == ["c"] and found.out == {"a": "c", "b": "c"}
    assert race(scores.assign(b=np.nan), 0.5).out == {"a": "c", "b": None}
    assert race(scores[["c"]], 0.5) == (["c"], {}, "c")
    nothing = race(scores * np.nan, 0.5)
    assert nothing.left == [] and nothing.best is None
    one_seed = race(scores[:1], 0.5)
    assert one_seed.left == [*"abc"] and one_seed.best is None


def test_an_arm_that_stopped_early_is_compared_on_common_seeds():
    """The verdict on it stays what it was, whatever the others do afterwards."""
    scores = table([0, 1, -3], 30)
    first = race(scores[:8], 0.01)
    assert first.out == {"c": first.out["c"]}
    later = scores.assign(c=scores["c"].where(scores.index < 8))
    assert "c" in race(later, 0.01).out and "c" not in race(later, 0.01).left


def test_whoever_has_the_highest_mean_is_never_the_last_to_go(monkeypatch):
    """Were each of two arms shown to be worse than the other, one would stay."""
    monkeypatch.setattr("rlexp.analysis.stats.racing.is_above", lambda differences, center, alpha: True)
    found = race(table([0, 1], 10), 0.1)
    assert len(found.left) == 1


def test_above_a_center_is_what_the_lower_bound_says():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        differences = rng.choice([rng.normal(size=12), rng.standard_t(2, 12), 1 - rng.exponential(size=12)]) + seed / 60
        low = lower_bound(differences, 0.02)
        assert is_above(differences, low - 0.01, 0.02) and not is_above(differences, low + 0.01, 0.02)
        assert is_above(differences, -50.0, 0.02) and not is_above(differences, 50.0, 0.02)
    assert not is_above(np.zeros(0), -1.0) and is_above(np.ones(5), 0.9) and not is_above(np.ones(4), 0.9)


@pytest.mark.parametrize("arms", [2, 3])
def test_a_bound_of_equal_arms_is_passed_as_seldom_as_it_may(arms):
    """Exactly, over all signs of ten differences with given sizes: at most alpha, on one side, at any seed."""
    sizes, alpha = np.abs(RNG.normal(size=10)), race_alpha(arms)
    ever = [lower_bound(sizes * signs, alpha) > 0 for signs in product([1.0, -1.0], repeat=10)]
    assert np.mean(ever) <= alpha


def test_symmetric_differences_are_seldom_called_skewed_and_skewed_ones_often():
    normal = [symmetry_p(np.random.default_rng(seed).normal(3, 2, 20)) for seed in range(200)]
    skewed = [symmetry_p(np.random.default_rng(seed).exponential(size=20)) for seed in range(200)]
    assert np.mean(np.less(normal, 0.05)) < 0.1 and np.mean(np.less(skewed, 0.05)) > 0.5
    assert np.isnan(symmetry_p([1.0, 2, 3, 4])) and symmetry_p(np.ones(9)) == 1
    assert symmetry_p([-3.0, -1, 0, 1, 3]) == 1  # a gap of 0
    x = np.random.default_rng(0).exponential(size=20)
    assert symmetry_p(-2 * x + 7) == pytest.approx(symmetry_p(x), abs=0.01)


def sweep(folder, rule, scores):
    write_sweep(folder, scores, steps=4)
    for path in folder.glob("*/config.yaml"):
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | rule))
    return answer(load(folder), Question())


def test_the_table_says_what_became_of_each_arm(tmp_path):
    shaken = 0.005 * RNG.normal(size=(3, 20))
    scores = {"norm=a": list(0.4 + shaken[0, :7]), "norm=b": list(0.5 + shaken[1]), "norm=c": list(0.5 + shaken[2])}
    result = sweep(tmp_path / "x", {"until_best": 0.02}, scores)
    (comparison,) = result.comparisons
    printed = comparison_table(comparison)
    column = [row[printed.headers.index("race")] for row in printed.rows]
    assert column[0] in ("worse than b", "worse than c") and sorted(column[1:]) == ["best", "left"]
    found = json.loads(answer_json(result, []))
    assert found["until_best"] == 0.02 and [arm["race"] for arm in found["comparisons"][0]["arms"]] == column
    assert "decided" not in found["comparisons"][0]["arms"][1]
    notes = " ".join(result.notes)
    assert "Stopped: a after 7 seeds" in notes and "Left out of the differences" not in notes
    assert "in at most 5 % of races" in notes


def test_skewed_differences_are_named_where_p_is_of_their_center(tmp_path):
    skewed = 0.01 * np.random.default_rng(1).exponential(size=30)
    scores = {"norm=a": [0.5] * 30, "norm=b": list(0.5 + skewed), "norm=c": list(0.5 + 0.01 * RNG.normal(size=30))}
    notes = " ".join(sweep(tmp_path / "x", {"until_decided": 0.03}, scores).notes)
    assert "Clearly skewed, not symmetric around a center, are the differences of b (mean" in notes
    assert "Clearly skewed" not in " ".join(sweep(tmp_path / "y", {}, scores).notes)


def test_intervals_that_stayed_too_wide_are_named(tmp_path):
    wide, narrow = (size * RNG.normal(size=10) for size in (0.1, 0.001))
    scores = {"norm=a": [0.5] * 10, "norm=b": list(0.5 + narrow), "norm=c": list(0.5 + wide)}
    result = sweep(tmp_path / "x", {"until_width": 0.02}, scores)
    notes, (comparison,) = " ".join(result.notes), result.comparisons
    assert [comparison.is_open(arm) for arm in comparison.others] == [False, True]
    assert f"The seeds ended before that for c (±{comparison.half_width('norm=c'):.2g})." in notes
    assert "paired t" in notes and json.loads(answer_json(result, []))["until_width"] == 0.02


@pytest.mark.slow
def test_the_simulation_prints_and_writes(tmp_path, capsys):
    assert stopping.main(["--quick", "--out", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    printed = capsys.readouterr().out
    assert all(
        title in printed
        for title in ("until_width, from 10 to 40", "until_decided, differences whose mean is 0", "until_best=1")
    )
    assert {*found} == {"sweeps", "races", "width", "symmetry", "race"} and all(found.values())
    assert stopping.main(["--sweeps", "0"]) == 2


def test_what_the_page_quotes_is_what_the_simulation_stored():
    docs = Path(__file__).parents[3] / "docs"
    page = {*(docs / "statistics.md").read_text(encoding="utf-8").splitlines()}
    stored = (docs / "statistics" / "stopping.txt").read_text(encoding="utf-8").splitlines()
    found = json.loads((docs / "statistics" / "stopping.json").read_text(encoding="utf-8"))
    quoted = [line for line in map(str.rstrip, stored) if line in page]
    assert len(quoted) >= len(found["symmetry"]) + len(found["race"])
    assert len(stored) >= sum(len(found[part]) for part in ("width", "symmetry", "race"))


def test_the_simulation_found_what_is_promised():
    """Of symmetric differences, up to three standard errors of so many races and sweeps."""
    docs = Path(__file__).parents[3] / "docs"
    found = json.loads((docs / "statistics" / "stopping.json").read_text(encoding="utf-8"))
    noise = {part: 3 * (0.05 * 0.95 / found[part]) ** 0.5 for part in ("sweeps", "races")}
    races = [row for row in found["race"] if row["noise"] != "collapses"]
    assert races and all(max(row["first out"], row["wrong"]) <= 0.05 + noise["races"] for row in races)
    symmetric = [row for row in found["symmetry"] if row["differences"] in stopping.SYMMETRIC]
    assert len(symmetric) == 4 and all(row["denied"] <= 0.05 + noise["sweeps"] for row in symmetric)
    assert all(row["holds"] > 0.92 for row in found["width"] if row["differences"] in stopping.SYMMETRIC)
