"""Figures of learning-rate curves and of sensitivity: texts apart, marks where the numbers say."""

import numpy as np
import pandas as pd
import pytest
from figure_checks import check, texts
from matplotlib.colors import to_hex
from scipy.special import expit, logit

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.run_values import RunValues
from rlexp.analysis.figures import layout
from rlexp.analysis.figures.rates import draw_response, draw_sensitivity, score_ticks, short_rate
from rlexp.analysis.stats import rates
from rlexp.analysis.stats.arms import ScaledRuns
from rlexp.analysis.stats.scales import Scale
from rlexp.analysis.stats.sensitivity import normalize_scores, sensitivity

STEPS = 1e-4 * 2.0 ** np.arange(7)
LABELS = ("learning rate", "eval/accuracy")
SHAPES = {
    "norm=local": -0.02 * (np.arange(7) - 3.0) ** 2,
    "clip=cispo": 0.04 * np.arange(7) - 0.2,
    "norm=local,clip=gspo,agg=sequence": np.zeros(7),
}


def drawn(shapes, seeds=6, baseline="norm=local", gaps=(), natural=float):
    """The figure of arms with these curves, and the numbers that it is of."""
    rng, found = np.random.default_rng(5), {}
    for arm, means in shapes.items():
        values = 0.6 + np.asarray(means)[:, None] + 0.03 * rng.normal(size=(7, seeds))
        for gap in gaps:
            values[gap] = np.nan
        found[arm] = rates.rate_grid(STEPS, values)
    curves, best = (
        {arm: each(grid) for arm, grid in found.items()} for each in (rates.response_curve, rates.best_value)
    )
    plateaus = {arm: rates.plateau(grid, 0.03) for arm, grid in found.items()}
    extensions = {arm: rates.extend(grid, 0.03, most_rates=7) for arm, grid in found.items()}
    return draw_response(curves, best, plateaus, extensions, baseline, LABELS, natural), best, plateaus


def marked(figure, marker):
    """Color and place of each marker of a kind."""
    lines = [
        line for axes in figure.axes for line in axes.lines if line.get_marker() == marker and line.get_xdata().size
    ]
    return {(to_hex(line.get_color()).upper(), *np.round(line.get_xdata(), 8)) for line in lines}


@pytest.mark.parametrize("count", [1, 3, 7, pytest.param(9, marks=pytest.mark.slow)])
def test_no_text_is_on_another(count):
    shapes = {f"clip=variant_{place}": np.roll(SHAPES["norm=local"], place % 3) for place in range(count - 1)}
    figure = drawn({"norm=local": SHAPES["norm=local"], **shapes})[0]
    check(figure)
    assert len(figure.axes) == (1 if count <= layout.MAX_LINES else count - 1)


def test_of_many_arms_only_the_interval_at_the_best_rate_is_drawn():
    rng, shapes = np.random.default_rng(5), {f"clip=variant_{place}": SHAPES["norm=local"] for place in range(4)}
    figure, best, _ = drawn({"norm=local": SHAPES["norm=local"], **shapes})
    values = {arm: 0.6 + SHAPES["norm=local"][:, None] + 0.03 * rng.normal(size=(7, 6)) for arm in best}
    curves = {arm: rates.response_curve(rates.rate_grid(STEPS, each)) for arm, each in values.items()}
    upright = {
        tuple(np.round(line.get_ydata(), 6)): line.get_xdata()[0]
        for line in figure.axes[0].lines
        if len(line.get_xdata()) == 2 and line.get_xdata()[0] == line.get_xdata()[1]
    }
    for arm, curve in curves.items():
        at = int(curve.mean.argmax())
        ends = tuple(np.round([curve.low[at], curve.high[at]], 6))
        assert upright.pop(ends) == pytest.approx(best[arm].rate, rel=0.2) and curve.rates[at] == best[arm].rate
    assert not upright and not figure.axes[0].collections, "no bands"


def test_best_rates_ends_that_could_not_be_left_and_plateaus_are_marked():
    figure, best, plateaus = drawn(SHAPES)
    colors = {arm: color.upper() for arm, color in layout.variant_colors(list(SHAPES), "norm=local").items()}
    stuck = {(colors["clip=cispo"], round(STEPS[-1], 8))}
    assert marked(figure, "^") == stuck and best["clip=cispo"].rate == STEPS[-1]
    dots = {(colors[arm], round(best[arm].rate, 8)) for arm in SHAPES if arm != "clip=cispo"}
    assert marked(figure, "o") == dots
    arrows = {(colors[arm], round(found.high, 8)) for arm, found in plateaus.items() if found.open_high}
    assert marked(figure, ">") == arrows and len(arrows) == 2
    bars = {tuple(np.round(line.get_xdata(), 8)) for line in figure.axes[0].lines if line.get_linewidth() > 3}
    assert bars == {(round(found.low, 8), round(found.high, 8)) for found in plateaus.values()}
    said = " ".join(text.get_text() for text in texts(figure)).replace("\n", " ")
    assert "▲: the best is at an end" in said and "Bars: the rates at which less is lost than counts" in said
    assert "▲" not in " ".join(text.get_text() for text in texts(drawn({"norm=local": SHAPES["norm=local"]})[0]))


def test_ticks_are_rates_that_were_trained_and_scores_beside_curves():
    figure = drawn(SHAPES)[0]
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert set(np.round(axes.get_xticks(), 8)) <= set(np.round(STEPS, 8))
    bars = [line.get_ydata()[0] for line in axes.lines if line.get_linewidth() > 3]
    assert len(axes.get_yticks()) >= 3 and min(axes.get_yticks()) > max(bars)


def test_ticks_of_scores_are_in_the_units_of_the_number():
    """A cost, where a lower one is better: its score is −log."""
    costs = ScaledRuns(RunValues(pd.Series(), "tokens", "", [], "lower"), Scale("log"))
    figure = drawn({"norm=local": -6.0 + SHAPES["norm=local"]}, natural=costs.natural)[0]
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    shown = [(y, text.get_text()) for y, text in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)]
    inside = [(y, text) for y, text in shown if low <= y <= high]
    assert len(inside) > 2
    for y, text in inside:
        assert float(text.replace(",", "")) == pytest.approx(np.exp(-y), rel=0.005)  # three digits


def log_odds(low, high):
    return expit, logit(low), logit(high)


@pytest.mark.parametrize(
    ("scale", "shown"),
    [
        (log_odds(0.22, 0.75), ["0.3", "0.5", "0.7"]),
        (log_odds(0.5, 0.986), ["0.5", "0.8", "0.95", "0.98"]),
        ((lambda score: np.exp(-score), -np.log(6000), -np.log(80)), ["5,000", "2,000", "500", "200", "80"]),
        ((float, 2.4, 4.1), ["2.5", "3", "3.5", "4"]),
        ((lambda score: -score, -4.1, -2.4), ["4", "3.5", "3", "2.5"]),
        ((np.exp, 0.0, 0.01), ["1", "1.01"]),
        ((expit, 0.5, 0.5), ["0.622"]),
    ],
)
def test_ticks_of_scores_are_round_in_their_units(scale, shown):
    natural, low, high = scale
    found = score_ticks(natural, low, high)
    assert [*found.values()] == shown
    for place, text in found.items():
        assert low <= place <= high and float(text.replace(",", "")) == pytest.approx(natural(place), rel=1e-3)


def test_a_rate_without_all_scores_is_crossed_out():
    figure = drawn({"norm=local": SHAPES["norm=local"]}, gaps=[(6, 0), (5, 2)])[0]
    assert {each[1:] for each in marked(figure, "x")} == {tuple(np.round(STEPS[5:], 8))}
    assert "no score" in " ".join(text.get_text() for text in texts(figure)).replace("\n", " ")
    check(figure)


def sensitivities(count):
    rng = np.random.default_rng(2)
    scores = 0.5 + 0.1 * rng.normal(size=(count, 4, 5, 1)) + 0.03 * rng.normal(size=(count, 4, 5, 6))
    return {f"norm=variant_{place}": sensitivity(each) for place, each in enumerate(normalize_scores(scores))}


@pytest.mark.parametrize("count", [1, 3, 8])
def test_sensitivity_has_a_cross_an_arm_and_the_diagonal_of_the_baseline(count):
    arms = sensitivities(count)
    figure = draw_sensitivity(arms, "norm=variant_0", tasks=4)
    check(figure)
    (axes,) = figure.axes
    dots = {(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_marker() in ("o", "s")}
    assert dots == {(found.sensitivity, found.performance) for found in arms.values()}
    base = arms["norm=variant_0"]
    slopes = [line for line in axes.lines if to_hex(line.get_color()) == "#a6a6a6"]
    (x, y) = slopes[0].get_data()
    np.testing.assert_allclose(y - x, base.performance - base.sensitivity)


def test_wrong_arms_end_in_a_line():
    with pytest.raises(AnalysisError, match="baseline 'none'"):
        draw_sensitivity(sensitivities(2), "none")
    with pytest.raises(AnalysisError, match="same arms"):
        draw_response({}, {}, {}, {}, "none")


@pytest.mark.parametrize(
    ("rate", "text"),
    [(1e-4, "1e-4"), (0.00032, "3.2e-4"), (0.0016, "0.0016"), (0.05, "0.05"), (2, "2"), (1280, "1.3e3")],
)
def test_short_rates(rate, text):
    assert short_rate(rate) == text
