"""All figures of a sweep, in the order of its page. A new one is a function and its entry in `FIGURES`."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

from matplotlib.text import Text

from rlexp.analysis.data.kept import Gradient, Records
from rlexp.analysis.data.starts import in_units
from rlexp.analysis.figures.effects import draw_effects, draw_heat_map, draw_scores
from rlexp.analysis.figures.formulas import draw_advantages, draw_clips, draw_overlong
from rlexp.analysis.figures.frontier import draw_frontier, draw_proxies
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData, OmittedFigure, RenderedFigure
from rlexp.analysis.figures.layout import variant_colors
from rlexp.analysis.figures.lines import draw_curves, draw_group_sizes, draw_lengths, draw_profile, draw_votes
from rlexp.analysis.stats.answer import Answer

Draw = Callable[[FigureInputs], Drawing]


class Entry(NamedTuple):
    """A figure: under which heading of the page, its title, and who draws it."""

    section: str
    title: str
    draw: Draw
    once: bool = False
    """Whether it is the same for every stratum."""


RESULTS, TRAINING, LOSSES = "Results", "During training", "Losses and penalties"
FIGURES = {
    "effects": Entry(RESULTS, "Paired differences", draw_effects),
    "intervals": Entry(RESULTS, "Final scores", draw_scores),
    "curves": Entry(RESULTS, "Learning curves", draw_curves),
    "heatmap": Entry(RESULTS, "Two axes together", draw_heat_map),
    "group_sizes": Entry(RESULTS, "Group size", draw_group_sizes),
    "profile": Entry(RESULTS, "Performance profile over tasks", draw_profile, once=True),
    "frontier": Entry(TRAINING, "Reward and KL", draw_frontier),
    "proxies": Entry(TRAINING, "Gold and proxy against KL", draw_proxies),
    "entropy": Entry(TRAINING, "Entropy of the policy", partial(draw_curves, metric="policy/entropy")),
    "lengths": Entry(TRAINING, "Length of correct and wrong answers", draw_lengths),
    "zero_variance": Entry(
        TRAINING, "Groups whose rewards are all equal", partial(draw_curves, metric="groups/zero_variance")
    ),
    "advantages": Entry(TRAINING, "Advantages", draw_advantages),
    "clip": Entry(LOSSES, "Clip functions", draw_clips, once=True),
    "overlong": Entry(LOSSES, "Overlong penalty", draw_overlong, once=True),
    "voting": Entry(TRAINING, "Accuracy of a vote", draw_votes),
}
SECTIONS = (RESULTS, TRAINING, LOSSES, "Figures of your own")
OWN: dict[str, Draw] = {}  # those of ``rlexp.register``; their docstring is the title


def gallery(
    inputs: FigureInputs, place: int | None = None, only: Collection[str] = ()
) -> tuple[list[RenderedFigure], list[OmittedFigure]]:
    """Draw every figure (or `only` some) that the data allow; return the others with the reason.

    place: which of several strata the inputs are.
    """
    own = {
        name: Entry(SECTIONS[-1], (draw.__doc__ or name).strip().partition("\n")[0].rstrip("."), draw)
        for name, draw in OWN.items()
    }
    rendered, omitted, stratum = [], [], inputs.comparison.stratum
    for kind, (section, title, draw, once) in (FIGURES | own).items():
        if (only and kind not in only) or (once and place):
            continue
        several = place is not None and not once
        try:
            drawing = in_units_of(draw(inputs), inputs.data.unit)
        except NoData as reason:
            omitted.append(OmittedFigure(f"{title}, {stratum}" if place is not None else title, str(reason)))
        else:
            name, title = (f"{kind}-{place}", f"{title}, {stratum}") if several else (kind, title)
            rendered.append(RenderedFigure(name, title, *drawing, kind, section, stratum))
    return rendered, omitted


def in_units_of(drawing: Drawing, unit: str) -> Drawing:
    """Say what is counted in all texts of a drawing: seeds, or starts."""
    for text in drawing.figure.findobj(Text):
        text.set_text(in_units(text.get_text(), unit))
    return drawing._replace(caption=in_units(drawing.caption, unit), alt_text=in_units(drawing.alt_text, unit))


def draw_figures(
    result: Answer,
    configs: Mapping[str, Mapping[str, Any]],
    samples: Mapping[str, Records],
    gradients: Mapping[str, Gradient],
    only: Collection[str] = (),
) -> tuple[list[RenderedFigure], list[OmittedFigure]]:
    """Draw the figures of each stratum of an answer, those that would be the same in all once, with the first."""
    colors = variant_colors(result.data.variants, result.comparisons[0].baseline)
    figures, omitted = [], []
    for place, (part, comparison) in enumerate(zip(result.parts, result.comparisons, strict=True)):
        table = result.interactions.get(comparison.stratum)
        inputs = FigureInputs(part, comparison, result.data, configs, samples, gradients, colors, table)
        drawn, left_out = gallery(inputs, place if len(result.parts) > 1 else None, only)
        figures += drawn
        omitted += left_out
    return figures, omitted
