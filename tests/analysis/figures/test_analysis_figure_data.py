"""The numbers of figures: heat maps, group sizes, profiles and frontiers against plain loops."""

import numpy as np
import pytest
from figure_checks import check
from report_fixtures import CASES, figure_inputs, write_case, write_report_sweep

from rlexp.analysis.data.load import load
from rlexp.analysis.figures import effects, frontier, lines
from rlexp.analysis.figures.inputs import NoData
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.comparison import compare


def test_heat_map_is_exactly_zero_at_the_baseline_and_interactions_are_differences_of_differences(tmp_path):
    folder = write_case(tmp_path / "sweep", "two axes")
    comparison = compare(load(folder), baseline="norm=global,clip=b")
    table = answer(load(folder), Question(baseline="norm=global,clip=b")).interactions[""]
    inputs = figure_inputs(folder)._replace(comparison=comparison, interactions=table)
    found, scores = effects.heat_map_data(comparison, table), comparison.scores
    assert found.interaction.p.loc["none", "d"] == table.loc["norm=none,clip=d", "q"]
    assert found.baseline == ("global", "b") and found.difference.values.shape == (3, 2)
    assert found.difference.values.loc["global", "b"] == 0.0
    cells = found.interaction.values
    assert (cells.loc["global"] == 0).all() and (cells["b"] == 0).all()
    by_hand = []
    for seed in scores.index:
        y = {(a, b): scores.loc[seed, f"norm={a},clip={b}"] for a in ("none", "global") for b in ("d", "b")}
        by_hand.append((y["none", "d"] - y["none", "b"]) - (y["global", "d"] - y["global", "b"]))
    assert cells.loc["none", "d"] == pytest.approx(np.mean(by_hand))
    texts_shown = [t.get_text() for t in effects.draw_heat_map(inputs).figure.axes[0].texts]
    assert texts_shown[cells.columns.get_loc("b") + 2 * cells.index.get_loc("global")] == "0.000"


@pytest.mark.parametrize("case", ["3 variants", "20 variants", "one variant"])
def test_no_heat_map_without_two_crossed_axes(tmp_path, case):
    data = load(write_case(tmp_path / "sweep", case))
    table = answer(data, Question()).interactions.get("")
    assert effects.heat_map_data(compare(data), table) is None


def test_group_sizes_at_equal_steps_and_at_equal_rollouts(tmp_path):
    folder = write_case(tmp_path / "sweep", "group sizes")
    data = load(folder)
    dear = data.metrics["variant"].str.endswith("=16")
    data.metrics.loc[dear, "progress/completions"] *= 4  # the largest groups cost four times as much a step
    found = lines.compare_sizes(data, compare(data))
    assert (found.steps, found.rollouts) == (40, 128 * 40) and set(found.at_steps) == {"norm=local", "norm=rloo"}
    line, cut = found.at_steps["norm=rloo"], found.at_rollouts["norm=rloo"]
    assert line.sizes.tolist() == [2, 4, 16] and (cut.iqm[:2] == line.iqm[:2]).all()
    own = data.metrics[(data.metrics["variant"] == "norm=rloo,group_size=16") & (data.metrics["step"] == 10)]
    values = np.sort(own["eval/greedy_accuracy"])
    assert cut.iqm[2] == pytest.approx(values[1:-1].mean()) and cut.iqm[2] < line.iqm[2]


def test_profile_is_the_share_of_runs_above_each_threshold_over_tasks(tmp_path):
    data = load(write_case(tmp_path / "sweep", "tasks"))
    runs = data.runs
    shares = [(runs.loc[(runs["norm"] == "global") & (runs["task"] == task), "score"] > 0.68).mean()
              for task in ("sort", "bandit", "length")]  # fmt: skip
    for arms in (data, answer(data, Question()).data):  # also where variants are arms within tasks
        line = lines.performance_profiles(arms)["norm=global"]
        assert line.iqm[68] == pytest.approx(np.mean(shares)) and len(set(shares)) > 1
        assert (np.diff(line.iqm) <= 0).all() and (line.low <= line.high).all()


def test_frontier_pairs_each_run_with_its_own_kl_and_keeps_the_pareto_front(tmp_path):
    found = figure_inputs(write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 4))
    crosses = frontier.frontier_points(found.data, found.comparison, "kl/ref_exact")
    rows = found.data.metrics[found.data.metrics["name"] == "norm=global,seed=2"].tail(5)  # a tenth of 41, rounded up
    place = int(np.flatnonzero(crosses["norm=global"].score == found.comparison.scores.loc[2, "norm=global"])[0])
    assert crosses["norm=global"].kl[place] == pytest.approx(rows["kl/ref_exact"].mean())

    def at(kl, score):
        return frontier.FrontierPoint(np.zeros(1), np.zeros(1), (kl, 0, 0), (score, 0, 0))

    points = {"a": at(1, 0.5), "b": at(2, 0.4), "c": at(3, 0.9), "d": at(3, 0.7)}
    assert frontier.pareto_front(points, "higher") == ["a", "c"] and frontier.pareto_front(points, "lower") == [
        "a",
        "b",
    ]
    assert frontier.pareto_front(points, None) == []


def test_gold_and_proxy_against_kl_are_distances_from_the_first_step_in_its_deviations(tmp_path):
    inputs = figure_inputs(write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 4))
    with pytest.raises(NoData, match="no run has a judge"):
        frontier.draw_proxies(inputs)
    kl = inputs.data.metrics["kl/ref_exact"]
    numbers = {"gold/mean": 5 - kl, "gold/std": 0.5, "reward/mean": 2 + 2 * kl, "reward/std": 4.0}
    inputs = inputs._replace(data=inputs.data._replace(metrics=inputs.data.metrics.assign(**numbers)))
    for names, slope in ((frontier.GOLD, -2.0), (frontier.PROXY, 0.5)):
        for x, y in frontier.paths_over_kl(inputs.data, inputs.comparison, *names).values():
            np.testing.assert_allclose(y, slope * (x - x[0]), rtol=1e-9, atol=1e-12)
    lines = frontier.draw_proxies(inputs).figure.axes[0].lines
    assert [line.get_linestyle() for line in lines] == ["-", "--"]


def test_gold_and_proxy_of_a_task_that_has_both_are_drawn_as_they_are(tmp_path):
    inputs = figure_inputs(write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 4))
    kl = inputs.data.metrics["kl/ref_exact"]
    numbers = {frontier.EXACT_KL: 2 * kl, frontier.EXACT["gold"]: 1 - kl, frontier.EXACT["proxy"]: 3 * kl}
    inputs = inputs._replace(data=inputs.data._replace(metrics=inputs.data.metrics.assign(**numbers)))
    figure = frontier.draw_proxies(inputs).figure
    gold, proxy = figure.axes[0].lines
    np.testing.assert_allclose(proxy.get_ydata(), 1.5 * proxy.get_xdata())
    np.testing.assert_allclose(gold.get_ydata(), 1 - gold.get_xdata() / 2)
    assert (gold.get_linestyle(), proxy.get_linestyle()) == ("-", "--")
    check(figure)
