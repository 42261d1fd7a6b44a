"""Figures with steps along x: one panel with names at the line ends, or one small panel per variant if many."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.inputs import Drawing, FigureInputs, NoData
from analysis.figures.labels import (
    LABEL_WIDTH,
    PANEL_WIDTH,
    few_seeds_note,
    most_different,
    require_spread,
    seed_count,
    short_names,
)
from analysis.figures.layout import GAP, LINE, Point, add_text, one_panel, small_panels, step_ticks
from analysis.figures.style import BAND, MAX_LINES, OTHERS, TICK, Colours, theme
from analysis.stats.comparison import Comparison
from analysis.stats.curves import POINTS, Curve, Curves, learning_curves
from analysis.stats.votes import VOTE_ACCURACY, voting_curves

MAX_BACKGROUND_LINES = 20  # in the background of a panel; with more variants a grey band says where they are


def draw_metric(metric: str | None = None) -> Callable[[FigureInputs], Drawing]:
    """A function that draws the curves of a metric (the comparison's unless named)."""

    def draw(inputs: FigureInputs) -> Drawing:
        lines = learning_curves(inputs.data, inputs.comparison, metric)
        name = metric or inputs.comparison.metric
        if not lines:
            raise NoData(f"no completed run has a value of {name}")
        require_spread(_values(lines), f"{name} of every run")
        caption = curves_caption(inputs.comparison, lines)
        figure = curves_figure(inputs.comparison, lines, inputs.colours, metric)
        return Drawing(caption, _ends_as_text(inputs.comparison, lines), figure)

    return draw


def _values(lines: Curves) -> np.ndarray:
    """All that is drawn, bands included."""
    return np.concatenate([np.empty(0), *(np.ravel(line[1:]) for line in lines.values())])


def _ends_as_text(comparison: Comparison, lines: Curves) -> str:
    parts = [f"{comparison.labels[name]}: {line.iqm[0]:.3g} to {line.iqm[-1]:.3g}" for name, line in lines.items()]
    return "from first to last step, " + "; ".join(parts)


def draw_lengths(inputs: FigureInputs) -> Drawing:
    """Length of correct and of wrong answers over steps."""
    comparison = inputs.comparison
    curves = {kind: learning_curves(inputs.data, comparison, f"length/{kind}") for kind in ("correct", "wrong")}
    if not any(curves.values()):
        raise NoData("no completed run has a value of length/correct or length/wrong")
    require_spread(np.concatenate([_values(lines) for lines in curves.values()]), "the length of every answer")
    alt_text = "; ".join(f"{kind} {_ends_as_text(comparison, lines)}" for kind, lines in curves.items() if lines)
    return Drawing(lengths_caption(comparison), alt_text, lengths_figure(comparison, inputs.colours, **curves))


def draw_votes(inputs: FigureInputs) -> Drawing:
    """Accuracy of a vote by the number of completions that vote."""
    comparison = inputs.comparison
    lines = voting_curves(inputs.data, comparison, inputs.samples)
    if max((line.steps.size for line in lines.values()), default=0) < 2:
        raise NoData("no completed run has kept two completions of a prompt")
    require_spread(np.concatenate([line.iqm for line in lines.values()]), f"{VOTE_ACCURACY} of every variant")
    parts = [f"{comparison.labels[name]}: {line.iqm[0]:.3g} with 1 vote, {line.iqm[-1]:.3g} with {line.steps[-1]}"
             for name, line in lines.items()]  # fmt: skip
    caption = votes_caption(comparison, lines)
    figure = line_figure(comparison, lines, inputs.colours, ("votes", VOTE_ACCURACY), caption)
    return Drawing(caption, "; ".join(parts), figure)


def curves_caption(comparison: Comparison, lines: Curves) -> str:
    """What the lines and bands of `curves_figure` mean, and from how many seeds."""
    counts = comparison.table.loc[list(lines), "n"]
    most = max(line.steps.size for line in lines.values())
    thinned = f" (at most {POINTS} of them are drawn)" if most >= POINTS else ""
    dashed = f" Dashed: {comparison.labels[comparison.baseline]}." if len(lines) > 1 else ""
    return (
        f"Line: interquartile mean over seeds at each logged step{thinned}, "
        f"{seed_count(counts)} per variant, completed runs; "
        f"band: pointwise 95 % bootstrap interval; no smoothing.{dashed}{few_seeds_note(counts)}"
    )


def curves_figure(comparison: Comparison, lines: Curves, colours: Colours, metric: str | None = None) -> Figure:
    """Curves of a metric (the comparison's) over steps."""
    labels = "step", metric or comparison.metric
    return line_figure(comparison, lines, colours, labels, curves_caption(comparison, lines))


def line_figure(
    comparison: Comparison, lines: Curves, colours: Colours, labels: tuple[str, str], caption: str
) -> Figure:
    """Curves of any numbers, with the labels of both axes."""
    with theme():
        draw = _one_panel if len(lines) <= MAX_LINES else _small_multiples
        return draw(comparison, lines, colours, labels, caption)


def _one_panel(
    comparison: Comparison, lines: Curves, colours: Colours, labels: tuple[str, str], caption: str
) -> Figure:

    def draw(axes: Axes) -> dict[str, Point]:
        for variant, line in lines.items():
            _draw(axes, line, colours[variant], dashed=variant == comparison.baseline and len(lines) > 1)
        axes.margins(x=0.01)
        step_ticks(axes)
        return {variant: (line.steps[-1], line.iqm[-1]) for variant, line in lines.items()}

    return one_panel(draw, short_names(comparison, lines, LABEL_WIDTH), colours, labels, caption)


def _draw(axes: Axes, line: Curve, colour: str, dashed: bool) -> None:
    marker = "o" if line.steps.size == 1 else None
    axes.fill_between(line.steps, line.low, line.high, color=colour, alpha=BAND, linewidth=0)
    axes.plot(line.steps, line.iqm, color=colour, linestyle="--" if dashed else "-", marker=marker, markersize=4)


def _small_multiples(
    comparison: Comparison, lines: Curves, colours: Colours, labels: tuple[str, str], caption: str
) -> Figure:
    variants, selection_note = most_different(comparison, lines)
    names = list(short_names(comparison, variants, PANEL_WIDTH, 2).values())
    many = len(lines) > MAX_BACKGROUND_LINES
    background_note = (
        " Grey band: from the lowest to the highest variant." if many else " Thin grey: all other variants."
    )
    band = _range_of(lines) if many else None

    def draw(axes: Axes, place: int) -> None:
        _background(axes, lines, {variants[place], comparison.baseline}, band)
        if comparison.baseline in lines:
            _draw(axes, lines[comparison.baseline], colours[comparison.baseline], dashed=True)
        _draw(axes, lines[variants[place]], colours[variants[place]], dashed=False)
        step_ticks(axes, 3)

    return small_panels(names, draw, labels, caption + background_note + selection_note)


def _background(axes: Axes, lines: Curves, without: set[str], band: Curve | None) -> None:
    if band:
        axes.fill_between(band.steps, band.low, band.high, color=OTHERS, linewidth=0, alpha=0.6)
        return
    for other, line in lines.items():
        if other not in without:
            axes.plot(line.steps, line.iqm, color=OTHERS, linewidth=0.6)


def _range_of(lines: Curves) -> Curve:
    """From the lowest to the highest line, on the steps of the first."""
    steps = next(iter(lines.values())).steps
    values = [np.interp(steps, line.steps, line.iqm) for line in lines.values()]
    return Curve(steps, np.mean(values, 0), np.min(values, 0), np.max(values, 0))


def lengths_caption(comparison: Comparison) -> str:
    """What the lines of `lengths_figure` mean."""
    return (
        "Mean tokens of a sampled completion, correct (solid) and wrong (dashed): interquartile mean over seeds at "
        f"each logged step that has any, {seed_count(comparison.table['n'])} per variant; band: pointwise 95 % "
        f"bootstrap interval.{few_seeds_note(comparison.table['n'])}"
    )


def lengths_figure(comparison: Comparison, colours: Colours, correct: Curves, wrong: Curves) -> Figure:
    """Length of correct and of wrong answers over steps, one panel per variant."""
    first = [comparison.baseline] if comparison.baseline in correct or comparison.baseline in wrong else []
    others, selection_note = most_different(
        comparison, [v for v in comparison.table.index if v in correct or v in wrong]
    )
    variants = first + others
    names = list(short_names(comparison, variants, PANEL_WIDTH, 2).values())

    def draw(axes: Axes, place: int) -> None:
        for lines, dashed in ((correct, False), (wrong, True)):
            if variants[place] in lines:
                _draw(axes, lines[variants[place]], colours[variants[place]], dashed)
        step_ticks(axes, 3)

    with theme():
        caption = lengths_caption(comparison) + selection_note
        figure = small_panels(names, draw, ("step", "tokens"), caption, heading=LINE)
        add_text(figure, "solid: correct   dashed: wrong", GAP, -GAP / 2, size=TICK, va="top")
    return figure


def votes_caption(comparison: Comparison, lines: Curves) -> str:
    """What the lines of `draw_votes` mean."""
    counts = comparison.table.loc[list(lines), "n"]
    return (
        "Accuracy of the most common answer among that many of a prompt's completions, as runs kept them after the "
        "last step (training prompts; all choices of the completions, ties broken fairly): interquartile mean over "
        f"seeds, {seed_count(counts)} per variant; band: 95 % bootstrap interval.{few_seeds_note(counts)}"
    )
