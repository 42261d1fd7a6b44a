"""The distribution of advantages: one small histogram per variant above a common axis."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data.kept.samples import advantages
from analysis.figures.inputs import Drawing, FigureInputs, NoData
from analysis.figures.labels import require_spread, wrap_labels
from analysis.figures.layout import GAP, LINE, fit_caption, write_caption
from analysis.figures.style import BASELINE, INK, NOTE, TICK, WIDTH, Colours, set_margins, theme

Array = np.ndarray
ROW = 0.45  # inches of height


def draw_advantages(inputs: FigureInputs) -> Drawing:
    """Advantages in the sample completions of completed runs."""
    comparison = inputs.comparison
    values = advantages(inputs.data, inputs.samples)
    values = {variant: values[variant] for variant in comparison.table.index if variant in values}
    if not values:
        raise NoData("no completed run has sample completions")
    require_spread(np.concatenate(list(values.values())), "every advantage")
    caption = (
        "Advantages of the sample completions of all completed runs, before training, half-way and at the end: "
        "histograms, each scaled to its row, with their SD, and largest size. No interval: "
        "the distribution itself is shown."
    )
    labelled = {comparison.labels[variant]: numbers for variant, numbers in values.items()}
    colours = {comparison.labels[variant]: inputs.colours[variant] for variant in values}
    parts = [
        f"{label}: SD {numbers.std():.3g}, largest {abs(numbers).max():.3g}" for label, numbers in labelled.items()
    ]
    return Drawing(caption, "; ".join(parts), advantage_figure(labelled, colours, caption, "advantage"))


def advantage_figure(values: Mapping[str, Array], colours: Colours, caption: str, label: str) -> Figure:
    """One small histogram per name above a common axis, each as high as its row, below the name and the spread."""
    with theme():
        names = list(wrap_labels(values, 30, 1).values())
        notes = [f"SD {numbers.std():.2f}, largest {abs(numbers).max():.2f}" for numbers in values.values()]
        text, bottom = fit_caption(caption, WIDTH)
        figure = Figure(figsize=(WIDTH, bottom + len(names) * ROW + 0.1))
        axes = figure.add_subplot()
        set_margins(figure, 2 * GAP, GAP, bottom, 0.1)
        _histograms(axes, values, colours)
        axes.set(yticks=[], ylim=(0, len(names)), xlabel=label)
        write_caption(figure, text)
        _write_rows(axes, names, notes)
    return figure


def _write_rows(axes: Axes, names: Sequence[str], notes: Sequence[str]) -> None:
    """The name at the left of each row's upper edge, the note at the right."""
    for place, (name, note) in enumerate(zip(names, notes, strict=True)):
        look = {"y": len(names) - place - 0.5 * LINE / ROW, "transform": axes.get_yaxis_transform(), "va": "center"}
        axes.text(x=0, s=name, fontsize=TICK, weight="bold", color=INK, **look)
        axes.text(x=1, s=note, fontsize=NOTE, ha="right", **look)


def _histograms(axes: Axes, values: Mapping[str, Array], colours: Colours) -> None:
    """One row per name, from the top, each as high as its row."""
    reach = max(abs(numbers).max() for numbers in values.values()) or 1.0
    edges = np.linspace(-reach, reach, 42)
    for base, (name, numbers) in zip(reversed(range(len(values))), values.items(), strict=True):
        counts, _ = np.histogram(numbers, edges)
        axes.stairs(
            base + (1 - 1.2 * LINE / ROW) * counts / counts.max(), edges, baseline=base, fill=True, color=colours[name]
        )
    for base in range(len(values)):
        axes.plot([0, 0], [base, base + 1 - 1.2 * LINE / ROW], "--", color=BASELINE, linewidth=0.6, zorder=3)
    axes.set_xlim(-1.05 * reach, 1.05 * reach)
    axes.spines["left"].set_visible(False)
