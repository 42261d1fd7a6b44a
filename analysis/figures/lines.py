"""Figures with steps along x: one panel with names at the line ends, or one small panel per variant if many."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData, require_spread
from rlexp.analysis.figures.labels import few_seeds_note, line_names, most_different, panel_names, seed_count
from rlexp.analysis.figures.layout import GAP, LINE, Point, add_text, one_panel, small_multiples, step_ticks
from rlexp.analysis.figures.style import BAND, MAX_LINES, OTHERS, TICK, Colors, theme
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.curves import POINTS, VOTE_ACCURACY, Curve, Curves, learning_curves, voting_curves

MAX_BACKGROUND_LINES = 20  # in the background of a panel; with more variants a gray band says where they are


def draw_curves(inputs: FigureInputs, metric: str | None = None) -> Drawing:
    """Draw the curves of a metric (the comparison's unless named)."""
    comparison, name = inputs.comparison, metric or inputs.comparison.metric
    lines = learning_curves(inputs.data, comparison, metric)
    if not lines:
        raise NoData(f"no completed run has a value of {name}")
    require_spread(_values(lines), f"{name} of every run")
    return curves_drawing(comparison, lines, inputs.colors, metric)


def _values(lines: Curves) -> np.ndarray:
    """Return all that is drawn, bands included."""
    return np.concatenate([np.empty(0), *(np.ravel(line[1:]) for line in lines.values())])


def _ends_as_text(comparison: Comparison, lines: Curves) -> str:
    parts = [f"{comparison.labels[name]}: {line.iqm[0]:.3g} to {line.iqm[-1]:.3g}" for name, line in lines.items()]
    return "from first to last step, " + "; ".join(parts)


def curves_drawing(comparison: Comparison, lines: Curves, colors: Colors, metric: str | None = None) -> Drawing:
    """Draw curves of a metric (the comparison's) over steps."""
    counts = comparison.table.loc[list(lines), "n"]
    most = max(line.steps.size for line in lines.values())
    thinned = f" (at most {POINTS} of them are drawn)" if most >= POINTS else ""
    dashed = f" Dashed: {comparison.labels[comparison.baseline]}." if len(lines) > 1 else ""
    caption = (
        f"Line: interquartile mean over seeds at each logged step{thinned}, "
        f"{seed_count(counts)} per variant, completed runs; "
        f"band: pointwise 95 % bootstrap interval; no smoothing.{dashed}{few_seeds_note(counts)}"
    )
    figure = _line_figure(comparison, lines, colors, ("step", metric or comparison.metric), caption)
    return Drawing(caption, _ends_as_text(comparison, lines), figure)


def draw_votes(inputs: FigureInputs) -> Drawing:
    """Draw the accuracy of a vote by the number of completions that vote."""
    comparison = inputs.comparison
    lines = voting_curves(inputs.data, comparison, inputs.samples)
    if max((line.steps.size for line in lines.values()), default=0) < 2:
        raise NoData("no completed run has kept two completions of a prompt")
    require_spread(np.concatenate([line.iqm for line in lines.values()]), f"{VOTE_ACCURACY} of every variant")
    parts = [f"{comparison.labels[name]}: {line.iqm[0]:.3g} with 1 vote, {line.iqm[-1]:.3g} with {line.steps[-1]}"
             for name, line in lines.items()]  # fmt: skip
    counts = comparison.table.loc[list(lines), "n"]
    caption = (
        "Accuracy of the most common answer among that many of a prompt's completions, as runs kept them after the "
        "last step (training prompts; all choices of the completions, ties broken fairly): interquartile mean over "
        f"seeds, {seed_count(counts)} per variant; band: 95 % bootstrap interval.{few_seeds_note(counts)}"
    )
    figure = _line_figure(comparison, lines, inputs.colors, ("votes", VOTE_ACCURACY), caption)
    return Drawing(caption, "; ".join(parts), figure)


def _line_figure(
    comparison: Comparison, lines: Curves, colors: Colors, labels: tuple[str, str], caption: str
) -> Figure:
    """Draw curves in one panel, or in small ones if there are many."""

    def draw(axes: Axes) -> dict[str, Point]:
        for variant, line in lines.items():
            _draw(axes, line, colors[variant], dashed=variant == comparison.baseline and len(lines) > 1)
        axes.margins(x=0.01)
        step_ticks(axes)
        return {variant: (line.steps[-1], line.iqm[-1]) for variant, line in lines.items()}

    with theme():
        if len(lines) > MAX_LINES:
            return _panel_per_variant(comparison, lines, colors, labels, caption)
        return one_panel(draw, line_names(comparison, lines), colors, labels, caption)


def _draw(axes: Axes, line: Curve, color: str, dashed: bool) -> None:
    marker = "o" if line.steps.size == 1 else None
    axes.fill_between(line.steps, line.low, line.high, color=color, alpha=BAND, linewidth=0)
    axes.plot(line.steps, line.iqm, color=color, linestyle="--" if dashed else "-", marker=marker, markersize=4)


def _panel_per_variant(
    comparison: Comparison, lines: Curves, colors: Colors, labels: tuple[str, str], caption: str
) -> Figure:
    """Draw a panel per variant above a background: thin lines of all variants, or a band of very many."""
    variants, selection_note = most_different(comparison, lines)
    many = len(lines) > MAX_BACKGROUND_LINES
    steps = next(iter(lines.values())).steps
    values = [np.interp(steps, line.steps, line.iqm) for line in lines.values()]
    low, high = np.min(values, 0), np.max(values, 0)

    def draw(axes: Axes, variant: str) -> None:
        if many:
            axes.fill_between(steps, low, high, color=OTHERS, linewidth=0, alpha=0.6)
        for other, line in lines.items() if not many else ():
            if other not in (variant, comparison.baseline):
                axes.plot(line.steps, line.iqm, color=OTHERS, linewidth=0.6)
        if comparison.baseline in lines:
            _draw(axes, lines[comparison.baseline], colors[comparison.baseline], dashed=True)
        _draw(axes, lines[variant], colors[variant], dashed=False)
        step_ticks(axes, 3)

    background = " Grey band: from the lowest to the highest variant." if many else " Thin grey: all other variants."
    return small_multiples(draw, panel_names(comparison, variants), labels, caption + background + selection_note)


def draw_lengths(inputs: FigureInputs) -> Drawing:
    """Draw the length of correct and of wrong answers over steps, one panel per variant."""
    comparison, colors = inputs.comparison, inputs.colors
    curves = {kind: learning_curves(inputs.data, comparison, f"length/{kind}") for kind in ("correct", "wrong")}
    if not any(curves.values()):
        raise NoData("no completed run has a value of length/correct or length/wrong")
    require_spread(np.concatenate([_values(lines) for lines in curves.values()]), "the length of every answer")
    alt_text = "; ".join(f"{kind} {_ends_as_text(comparison, lines)}" for kind, lines in curves.items() if lines)
    caption = (
        "Mean tokens of a sampled completion, correct (solid) and wrong (dashed): interquartile mean over seeds at "
        f"each logged step that has any, {seed_count(comparison.table['n'])} per variant; band: pointwise 95 % "
        f"bootstrap interval.{few_seeds_note(comparison.table['n'])}"
    )
    found = [name for name in comparison.table.index if any(name in lines for lines in curves.values())]
    others, selection_note = most_different(comparison, found)
    variants = [name for name in found if name == comparison.baseline] + others

    def draw(axes: Axes, variant: str) -> None:
        for kind, lines in curves.items():
            if variant in lines:
                _draw(axes, lines[variant], colors[variant], dashed=kind == "wrong")
        step_ticks(axes, 3)

    with theme():
        names, labels = panel_names(comparison, variants), ("step", "tokens")
        figure = small_multiples(draw, names, labels, caption + selection_note, heading=LINE)
        add_text(figure, "solid: correct   dashed: wrong", GAP, -GAP / 2, size=TICK, va="top")
    return Drawing(caption, alt_text, figure)
