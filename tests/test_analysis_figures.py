"""Figures: nothing overlaps, nothing is cut, and what is drawn is what the table says."""

from itertools import combinations

import numpy as np
import pytest
from analysis_fixtures import random_scores, write_sweep
from matplotlib.colors import to_hex
from matplotlib.text import Text

from analysis import load
from analysis.comparison import compare
from analysis.curves import learning_curves
from analysis.figures import curves, effects
from analysis.labels import spread, within, wrap
from analysis.style import BASELINE, save, variant_colours

LONG = [
    "preset=grpo_tcr,clip.high=0.28,group_size=64,task.length_penalty.coefficient=0.001",
    "preset=dapo,clip.high=0.24,group_size=8,a=$x$",
    "preset=averyveryveryveryveryverylongnamewithoutanycommaoranythingelse,agg=token",
]
SWEEPS = {
    "3 variants": (random_scores([f"norm={i}" for i in range(3)], 6), 10),
    "7 that end together": ({f"norm={i}": list(np.random.default_rng(i).normal(0.8, 0.001, 6)) for i in range(7)}, 10),
    "8 variants": (random_scores([f"norm={i}" for i in range(8)], 6), 10),
    "20 variants": (random_scores([f"group_size={i % 5},clip.high=0.{i}" for i in range(20)], 3), 100_00),
    "long names": (random_scores(LONG, 6), 10),
    "one seed": (random_scores(["norm=a", "norm=b"], 1), 10),
    "one variant": (random_scores(["default"], 4), 10),
}


@pytest.fixture(params=list(SWEEPS), ids=list(SWEEPS))
def figures(request, tmp_path) -> list:
    scores, last_step = SWEEPS[request.param]
    data = load(write_sweep(tmp_path, scores, min(last_step, 20)))
    data.metrics["step"] *= last_step // 10
    comparison = compare(data)
    drawn = [curves(comparison, learning_curves(data, comparison))]
    return drawn + ([effects(comparison)] if comparison.others else [])


def texts(figure) -> list[Text]:
    """All texts that are drawn; ticks outside the limits belong to a figure but are not."""
    figure.draw_without_rendering()
    ticks = [tick for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for tick in axis.majorTicks]
    drawn = [t for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for t in _inside(axis)]
    hidden = {id(label) for tick in ticks if tick not in drawn for label in (tick.label1, tick.label2)}
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and id(t) not in hidden]


def _inside(axis) -> list:
    low, high = sorted(axis.get_view_interval())
    return [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def test_no_text_covers_another_or_is_cut(figures):
    for figure in figures:
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
        width, height = figure.bbox.width, figure.bbox.height
        cut = [text for text, box in boxes if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height]
        assert cut == []
        assert [(a[0], b[0]) for a, b in combinations(boxes, 2) if a[1].padded(-0.5).overlaps(b[1].padded(-0.5))] == []


def test_numbers_and_names_do_not_lie_on_the_data(figures):
    for figure in figures:
        panels = [axes.get_window_extent().padded(-1) for axes in figure.axes]
        outside = [text for text in texts(figure) if text.figure is figure and text.axes is None]
        assert not [text.get_text() for text in outside for panel in panels if panel.overlaps(text.get_window_extent())]


def test_filled_means_significant(tmp_path):
    scores = random_scores(["norm=a"], 8)["norm=a"]
    nearly = [score + (0.001 if seed % 2 else -0.001) for seed, score in enumerate(scores)]
    better = [score + 0.1 + 0.001 * seed for seed, score in enumerate(scores)]
    comparison = compare(
        load(write_sweep(tmp_path, {"norm=a": scores, "norm=same": nearly, "norm=better": better}, 10))
    )
    (axes,) = effects(comparison).axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    filled = [to_hex(dot.get_markerfacecolor()) != "#ffffff" for dot in dots]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["better", "same"] and filled == [True, False]
    assert dots[0].get_xdata()[0] == comparison.table.loc["norm=better", "difference"]


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
    comparison = compare(load(write_sweep(tmp_path, random_scores(["norm=a", "norm=$x$"], 4), 10)))
    svg, pdf, png = save(effects(comparison), tmp_path / "effects")
    assert ">$x$</text>" in svg.read_text()
    assert pdf.read_bytes().startswith(b"%PDF") and png.read_bytes()[1:4] == b"PNG"


def test_one_colour_per_variant_and_grey_for_the_baseline():
    colours = variant_colours(list("abcdefg"), baseline="c")
    assert colours["c"] == BASELINE and len(set(colours.values())) == 7
    assert len(set(variant_colours(list("abcdefgh"), baseline="c").values())) == 2


def test_spread_labels_keep_order_and_distance():
    wanted, heights = np.array([3.0, 1.0, 1.1, 1.05]), np.array([1.0, 0.5, 0.5, 1.0])
    centres = spread(wanted, heights)
    order = np.argsort(wanted)
    gaps = np.diff(centres[order]) - (heights[order][1:] + heights[order][:-1]) / 2
    assert (gaps > -1e-9).all() and centres[0] == 3.0
    np.testing.assert_allclose((centres - wanted)[1:].mean(), 0, atol=1e-9)
    inside = within(centres, heights, 0.5, 4.0)
    assert (inside - heights / 2 > 0.5 - 1e-9).all() and (inside + heights / 2 < 4.0 + 1e-9).all()


def test_long_labels_are_wrapped_at_commas_and_cut():
    assert wrap("norm=local,clip=higher", 12) == "norm=local,\nclip=higher"
    assert wrap("a=1,b=2", 12) == "a=1,b=2"
    lines = wrap("x" * 100, 12).split("\n")
    assert len(lines) == 3 and lines[-1].endswith("…") and max(map(len, lines)) == 12
