"""Figures: nothing overlaps, nothing is cut, and what is drawn is what the table says."""

import json

import numpy as np
import pytest
from analysis_fixtures import random_scores, write_lines, write_sweep
from figure_checks import check
from matplotlib.collections import PatchCollection, PathCollection
from matplotlib.colors import to_hex
from report_fixtures import CASES, figure_inputs, write_flat_sweep, write_report_sweep

from rlexp.analysis.data.load import load
from rlexp.analysis.figures.effects import draw_effects, draw_scores
from rlexp.analysis.figures.gallery import gallery
from rlexp.analysis.figures.layout import BASELINE, COLORS, TICK, most_different, save_figure, variant_colors
from rlexp.analysis.report.tables import write_files
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.comparison import compare
from rlexp.analysis.stats.curves import POINTS, learning_curves

TOGETHER = {f"norm={i}": list(np.random.default_rng(i).normal(0.8, 0.001, 6)) for i in range(7)}


def test_nothing_overlaps_where_seven_lines_end_together(tmp_path):
    drawn, _ = gallery(figure_inputs(write_sweep(tmp_path / "sweep", TOGETHER, 20)))
    for each in drawn:
        check(each.figure)


def test_of_many_variants_the_farthest_get_a_panel(tmp_path):
    scores = {f"norm={i}": [0.5 + 0.01 * abs(i - 10)] for i in range(30)}
    comparison = compare(load(write_sweep(tmp_path / "sweep", scores, 4)))
    shown, note = most_different(comparison, comparison.table.index)
    assert "24 of 29 variants" in note and len(shown) == 24 and "norm=0" not in shown
    assert {f"norm={i}" for i in (7, 8, 9, 10, 11, 12, 13)} <= set(shown)  # farthest from the first, which has 0.6


def test_filled_means_significant(tmp_path):
    scores = random_scores(["norm=a"], 8)["norm=a"]
    nearly = [score + (0.001 if seed % 2 else -0.001) for seed, score in enumerate(scores)]
    better = [score + 0.1 + 0.001 * seed for seed, score in enumerate(scores)]
    folder = write_sweep(tmp_path, {"norm=a": scores, "norm=same": nearly, "norm=better": better}, 10)
    inputs = figure_inputs(folder)
    (axes,) = draw_effects(inputs).figure.axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    filled = [to_hex(dot.get_markerfacecolor()) != "#ffffff" for dot in dots]
    assert [text.get_text() for text in axes.texts[:2]] == ["better", "same"] and filled == [True, False]
    assert dots[0].get_xdata()[0] == inputs.comparison.table.loc["norm=better", "difference"]


def test_bands_need_three_runs_and_lines_are_the_pointwise_iqm(tmp_path):
    data = load(write_sweep(tmp_path, random_scores(["norm=a"], 5), 10))
    comparison = compare(data)
    line = learning_curves(data, comparison)["norm=a"]
    last = data.metrics[data.metrics["step"] == 10][comparison.metric].sort_values()
    assert line.steps.tolist() == [0, 2, 4, 6, 8, 10] and line.iqm[-1] == pytest.approx(last[1:4].mean())
    assert (line.low < line.iqm).all() and (line.iqm < line.high).all()
    few = load(write_sweep(tmp_path / "few", random_scores(["norm=a"], 2), 10))
    assert np.isnan(learning_curves(few, compare(few))["norm=a"].low).all()


def test_figures_are_saved_as_three_formats_with_text_as_text(tmp_path):
    inputs = figure_inputs(write_sweep(tmp_path, random_scores(["norm=a", "norm=$x$"], 4), 10))
    svg, pdf, png = save_figure(draw_effects(inputs).figure, tmp_path / "effects")
    assert ">$x$</text>" in svg.read_text()
    assert pdf.read_bytes().startswith(b"%PDF") and png.read_bytes()[1:4] == b"PNG"


def test_twenty_variants_have_twenty_colors_and_the_baseline_is_grey():
    colors = variant_colors(list("abcdefghijklmnopqrst"), baseline="c")
    assert colors["c"] == BASELINE and len(set(colors.values())) == 20
    assert len(variant_colors(list(map(str, range(50))), baseline="0")) == 50


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 9])
def test_a_variant_has_one_color_in_all_figures_and_no_other_has_it(tmp_path, count):
    inputs = figure_inputs(write_report_sweep(tmp_path / "sweep", [f"norm={name}" for name in "abcdefghi"[:count]], 3))
    assert set(inputs.comparison.table.index) == set(inputs.colors)
    drawn, _ = gallery(inputs)
    palette = {color.lower() for color in COLORS}
    for each in drawn:
        found = {to_hex(line.get_color()) for axes in each.figure.axes for line in axes.lines} & palette
        assert found <= {inputs.colors[variant].lower() for variant in inputs.data.variants}
    panels = {name: axes for each in drawn if each.name == "lengths" for name, axes in _panels(each.figure).items()}
    assert {name: {to_hex(line.get_color()) for line in axes.lines} for name, axes in panels.items()} == {
        inputs.data.labels[variant]: {color.lower()} for variant, color in inputs.colors.items()
    }


def _panels(figure):
    return {axes.get_title(loc="left"): axes for axes in figure.axes}


@pytest.mark.slow
def test_what_is_the_same_in_every_run_gets_no_figure(tmp_path):
    folder = write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 3)
    same = {"groups/zero_variance": 0.25, "kl/ref_exact": 0.0, "length/correct": 3, "length/wrong": 3}
    for file in folder.glob("*/metrics.jsonl"):
        write_lines(file, [json.loads(line) | same for line in file.read_text().splitlines()])
    drawn, omitted = gallery(figure_inputs(folder))
    reasons = {each.title: each.reason for each in omitted}
    assert reasons["Groups whose rewards are all equal"] == "groups/zero_variance of every run is 0.25"
    assert reasons["Reward and KL"] == "kl/ref_exact of every run is 0"
    assert reasons["Length of correct and wrong answers"] == "the length of every answer is 3"
    assert {"entropy", "curves", "effects"} <= {each.name for each in drawn}


@pytest.mark.slow
def test_where_nothing_was_learned_no_figure_shows_the_score(tmp_path):
    drawn, omitted = gallery(figure_inputs(write_flat_sweep(tmp_path / "sweep")))
    assert not {"effects", "intervals", "curves", "frontier"} & {each.name for each in drawn}
    assert "eval/greedy_accuracy of every run is 0" in {each.reason for each in omitted}
    files = write_files(tmp_path / "out", answer(load(tmp_path / "sweep"), Question()))
    assert not [file.name for file in files if file.suffix == ".svg"]


def test_curves_are_thinned_to_what_a_figure_shows(tmp_path):
    data = load(write_sweep(tmp_path, random_scores(["norm=a"], 3), 400))
    line = learning_curves(data, compare(data))["norm=a"]
    assert line.steps.size == POINTS and (line.steps[0], line.steps[-1]) == (0, 400)
    row = data.metrics[data.metrics["step"] == line.steps[7]]["eval/greedy_accuracy"]
    assert line.iqm[7] == pytest.approx(row.mean())


def test_every_seed_is_a_dot_at_its_score_and_boxes_need_five(tmp_path):
    scores = random_scores(["norm=a", "norm=b"], 6) | {"norm=c": [0.5, 0.6, 0.7]}
    figure = draw_scores(figure_inputs(write_sweep(tmp_path, scores, 10))).figure
    (axes,) = figure.axes
    figure.draw_without_rendering()
    swarms = [collection for collection in axes.collections if isinstance(collection, PathCollection)]
    dots = [sorted(swarm.get_offsets()[:, 0].tolist()) for swarm in swarms]
    assert sorted(dots) == sorted(sorted(values) for values in scores.values())
    assert len([each for each in axes.collections if isinstance(each, PatchCollection)]) == 2  # boxes


def test_the_theme_is_one_and_leaves_the_process_alone(tmp_path):
    import matplotlib
    from matplotlib import pyplot

    matplotlib.rcParams["font.size"] = 13.0
    before = dict(matplotlib.rcParams)
    drawn, _ = gallery(figure_inputs(write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 3)))
    assert dict(matplotlib.rcParams) == before and pyplot.get_fignums() == []
    assert len(drawn) > 5 and {
        label.get_fontsize() for each in drawn for label in each.figure.axes[0].get_xticklabels()
    } == {TICK}
    matplotlib.rcdefaults()
