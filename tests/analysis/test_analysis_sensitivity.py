"""Φ and effective dimensionality over folders of tuned ablations: by the paper's formulas, written as loops."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from schemas import check_schema

from rlexp.analysis import sensitivity
from rlexp.analysis.stats.ablation import Ablation
from rlexp.analysis.stats.rates import rate_grid
from rlexp.analysis.stats.scales import Scale

RATES = {"sort": [0.001, 0.004, 0.016], "bandit": [0.004, 0.016, 0.064, 0.256], "lecture": [0.001, 0.004, 0.016]}
PARTS = {"sort": ["clip=higher", "norm=none"], "bandit": ["norm=none", "clip=higher"], "lecture": ["norm=none"]}


def ablation(task, scores, parts=None, seeds=3, better="higher", key="lr", scale="identity"):
    """One task's arms, the baseline and each part alone, with `scores [arms, rates]` that scatter by nothing."""
    parts = parts or PARTS[task]
    made = Scale(scale)
    arms = [frozenset(), *(frozenset({place}) for place in range(len(parts)))]
    sign = -1 if better == "lower" else 1
    grids = {
        arm: rate_grid(RATES[task], np.repeat(sign * made.forward(np.array(row))[:, None], seeds, axis=1))
        for arm, row in zip(arms, scores, strict=True)
    }
    fields = dict.fromkeys(Ablation._fields)
    fields |= {"declared": {"tune": key and {"key": key}, "seeds": [*range(seeds)]}, "parts": parts, "grids": grids}
    return Ablation(**fields | {"metric": SimpleNamespace(better=better), "scale": made})


@pytest.fixture
def tasks(monkeypatch):
    """Random scores of three tasks, by the name of the folder; the bandit's arms are in another order."""
    rng = np.random.default_rng(2)
    raw = {task: rng.uniform(size=(1 + len(PARTS[task]), len(RATES[task]))) for task in RATES}
    made = {task: ablation(task, scores) for task, scores in raw.items()}
    monkeypatch.setattr(sensitivity, "analyze", lambda folder: made[str(folder).rpartition("/")[2]])
    return SimpleNamespace(raw=raw, made=made)


def shared_scores(raw):
    """The scores by arm, task and rate, of the baseline and norm=none, with 0 and 1 at the percentiles of a task."""
    found = {}
    for task, scores in raw.items():
        rows = {"baseline": scores[0], "norm=none": scores[1 + PARTS[task].index("norm=none")]}
        low, high = np.percentile(np.repeat([*rows.values()], 3), [5, 95])
        for arm, row in rows.items():
            scaled = zip(RATES[task], (row - low) / (high - low), strict=True)
            found |= {(arm, task, rate): value for rate, value in scaled}
    return found


def test_performance_and_sensitivity_are_the_papers(tasks):
    found, scores = sensitivity.find([*RATES]), shared_scores(tasks.raw)
    assert list(found.arms) == ["baseline", "norm=none"] and found.shared.tolist() == [0.004, 0.016]
    for arm, each in found.arms.items():
        best = [max(scores[arm, task, rate] for rate in RATES[task]) for task in RATES]
        one = max((np.mean([scores[arm, task, rate] for task in RATES]), rate) for rate in (0.004, 0.016))
        assert each.performance == pytest.approx(np.mean(best))
        assert each.sensitivity == pytest.approx(np.mean(best) - one[0]) and found.values[each.setting] == one[1]
        own = [found.values[at] for at in each.task_settings]
        assert [scores[arm, task, rate] for task, rate in zip(RATES, own, strict=True)] == pytest.approx(best)
        assert found.needed[arm] == (one[0] < 0.95 * np.mean(best))


def test_dimensionality_of_arm_and_rate_is_that_of_loops(tasks):
    found, scores = sensitivity.find([*RATES]).dimensionality, shared_scores(tasks.raw)
    arms = ("baseline", "norm=none")

    def mean(arm_of, rate_of):
        return np.mean([scores[arm_of(task), task, rate_of(task)] for task in RATES])

    _, arm, rate = max((mean(lambda _: a, lambda _: r), a, r) for a in arms for r in (0.004, 0.016))  # noqa: B023
    by_arm = np.mean([max(scores[a, task, rate] for a in arms) for task in RATES])
    by_rate = np.mean([max(scores[arm, task, r] for r in RATES[task]) for task in RATES])
    both = np.mean([max(scores[a, task, r] for a in arms for r in RATES[task]) for task in RATES])
    expected = [mean(lambda _: arm, lambda _: rate), max(by_arm, by_rate), both]
    np.testing.assert_allclose(found.scores, expected)
    assert found.tuned[1] == ((0,) if by_arm > by_rate else (1,))
    assert found.needed == next(k for k in range(3) if expected[k] >= 0.95 * both)


def test_scores_count_in_the_metrics_units_with_the_better_end_up(tasks):
    """Shares are kept as log-odds, and costs with a minus: Φ is of neither."""
    before = sensitivity.find(["sort", "lecture"])
    tasks.made["sort"] = ablation("sort", tasks.raw["sort"], scale="log-odds")
    tasks.made["lecture"] = ablation("lecture", 2 - tasks.raw["lecture"], better="lower")
    after = sensitivity.find(["sort", "lecture"])
    for arm, each in before.arms.items():
        assert after.arms[arm][:6] == pytest.approx(each[:6], abs=1e-6) and after.arms[arm][6:] == each[6:]


def test_tasks_with_fewer_seeds_limit_the_others_and_ends_are_named(tasks):
    tasks.made["sort"] = ablation("sort", tasks.raw["sort"], seeds=5)
    notes = sensitivity.find([*RATES]).notes
    assert notes[0] == "sort has 5 seeds, of which the first 3 count, as many as all tasks have."
    assert notes[1].startswith("The one lr for all tasks is an end of the 2 that all of them have (0.004 to 0.016)")


def test_what_cannot_be_compared_ends_in_a_line(tasks, capsys):
    def said(*folders):
        assert sensitivity.main([*folders]) == 2
        return capsys.readouterr().err

    assert "name two folders or more, each once" in said("sort") and "each once" in said("sort", "x/../sort")
    tasks.made["lecture"] = ablation("lecture", tasks.raw["lecture"], key="kl.coef")
    assert "tuned: lr in sort, kl.coef in lecture; must be the same key" in said("sort", "lecture")
    tasks.made["lecture"] = ablation("lecture", tasks.raw["lecture"], key=None)
    assert "tuned: lr in sort, nothing in lecture" in said("sort", "lecture")
    tasks.made["lecture"] = ablation("lecture", np.ones((2, 3)), parts=["norm=none"])
    assert "the 5th and 95th percentile of its scores are the same" in said("sort", "lecture")
    tasks.made["lecture"] = ablation("lecture", np.ones((3, 3)), ["x=1", "y=1"])
    tasks.made["lecture"] = tasks.made["lecture"]._replace(grids=dict([*tasks.made["lecture"].grids.items()][1:]))
    assert "share no arm" in said("sort", "lecture")
    tasks.made["sort"] = tasks.made["sort"]._replace(
        grids={arm: rate_grid([0.1, 0.2, 0.4], grid.values) for arm, grid in tasks.made["sort"].grids.items()}
    )
    assert "lr is 0.1 to 0.4 in sort, 0.004 to 0.256 in bandit: must share two values" in said("sort", "bandit")


@pytest.mark.slow
def test_it_prints_a_table_and_writes_files(tasks, tmp_path, capsys):
    assert sensitivity.main([*RATES, "--out", str(tmp_path / "out")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "performance [95 %]" in printed and "must be chosen for each task to reach 95 %" in printed
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {f"sensitivity.{e}" for e in ("csv", "json", "svg")}
    assert sensitivity.main([*RATES, "--json", "--out", str(tmp_path / "out")]) == 0
    content = check_schema("sensitivity", capsys.readouterr().out)
    table = pd.read_csv(tmp_path / "out" / "sensitivity.csv")
    assert content == json.loads((tmp_path / "out" / "sensitivity.json").read_text(encoding="utf-8"))
    assert [row["sensitivity"] for row in content["arms"]] == pytest.approx(table["sensitivity"].tolist())
