"""The distribution of advantages: one small histogram per variant above a common axis."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from rlexp.analysis.data.kept import advantages
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData, require_spread
from rlexp.analysis.figures.labels import wrap_labels
from rlexp.analysis.figures.layout import GAP, LINE, fit_caption, write_caption
from rlexp.analysis.figures.style import BASELINE, INK, NOTE, TICK, WIDTH, Colors, set_margins, theme

Array = np.ndarray
ROW = 0.45  # inches of height


def draw_advantages(inputs: FigureInputs) -> Drawing:
    """Draw the advantages in the sample completions of completed runs."""
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
    colors = {comparison.labels[variant]: inputs.colors[variant] for variant in values}
    parts = [
        f"{label}: SD {numbers.std():.3g}, largest {abs(numbers).max():.3g}" for label, numbers in labelled.items()
    ]
    return Drawing(caption, "; ".join(parts), advantage_figure(labelled, colors, caption, "advantage"))


def advantage_figure(values: Mapping[str, Array], colors: Colors, caption: str, label: str) -> Figure:
    """Draw one small histogram per name above a common axis, each as high as its row, below the name and the spread."""
    with theme():
        text, bottom = fit_caption(caption, WIDTH)
        figure = Figure(figsize=(WIDTH, bottom + len(values) * ROW + 0.1))
        axes = figure.add_subplot()
        set_margins(figure, 2 * GAP, GAP, bottom, 0.1)
        reach = max(abs(numbers).max() for numbers in values.values()) or 1.0
        edges, top = np.linspace(-reach, reach, 42), 1 - 1.2 * LINE / ROW  # of a histogram in its row
        look = {"transform": axes.get_yaxis_transform(), "va": "center"}
        wrapped = wrap_labels(values, 30, 1)
        for place, (name, numbers) in enumerate(values.items()):
            base = len(values) - 1 - place
            counts, _ = np.histogram(numbers, edges)
            axes.stairs(base + top * counts / counts.max(), edges, baseline=base, fill=True, color=colors[name])
            note, y = f"SD {numbers.std():.2f}, largest {abs(numbers).max():.2f}", base + 1 - 0.5 * LINE / ROW
            axes.text(0, y, wrapped[name], fontsize=TICK, weight="bold", color=INK, **look)
            axes.text(1, y, note, fontsize=NOTE, ha="right", **look)
        for base in range(len(values)):
            axes.plot([0, 0], [base, base + top], "--", color=BASELINE, linewidth=0.6, zorder=2.9)
        axes.set(xlim=(-1.05 * reach, 1.05 * reach), yticks=[], ylim=(0, len(values)), xlabel=label)
        axes.spines["left"].set_visible(False)
        write_caption(figure, text)
    return figure
