"""All figures of a sweep, in the order of its page."""

from collections.abc import Callable, Collection

from analysis.figures.forest import draw_effects, draw_scores
from analysis.figures.formulas import draw_overlong
from analysis.figures.frontier import draw_frontier, draw_proxies
from analysis.figures.heatmap import draw_heat_map
from analysis.figures.inputs import Drawing, FigureInputs, NoData, OmittedFigure, RenderedFigure
from analysis.figures.lines import draw_lengths, draw_metric, draw_votes
from analysis.figures.objective.advantages import draw_advantages
from analysis.figures.objective.clips import draw_clips
from analysis.figures.profiles import draw_profile
from analysis.figures.scaling import draw_group_sizes

MAKERS: dict[str, tuple[str, Callable[[FigureInputs], Drawing]]] = {
    "effects": ("Paired differences", draw_effects),
    "intervals": ("Final scores", draw_scores),
    "curves": ("Learning curves", draw_metric()),
    "heatmap": ("Two axes together", draw_heat_map),
    "group_sizes": ("Group size", draw_group_sizes),
    "profile": ("Performance profile over tasks", draw_profile),
    "frontier": ("Reward and KL", draw_frontier),
    "proxies": ("Gold and proxy against KL", draw_proxies),
    "entropy": ("Entropy of the policy", draw_metric("policy/entropy")),
    "lengths": ("Length of correct and wrong answers", draw_lengths),
    "zero_variance": ("Groups whose rewards are all equal", draw_metric("groups/zero_variance")),
    "advantages": ("Advantages", draw_advantages),
    "clip": ("Clip functions", draw_clips),
    "overlong": ("Overlong penalty", draw_overlong),
    "voting": ("Accuracy of a vote", draw_votes),
}

SECTIONS = {
    "Results": ("effects", "intervals", "curves", "heatmap", "group_sizes", "profile"),
    "During training": ("frontier", "proxies", "entropy", "lengths", "zero_variance", "advantages", "voting"),
    "Losses and penalties": ("clip", "overlong"),
}


def gallery(inputs: FigureInputs, without: Collection[str] = ()) -> tuple[list[RenderedFigure], list[OmittedFigure]]:
    """Every figure that the data allow, and those that they do not; leave out some by name."""
    rendered, omitted = [], []
    for name, (title, draw) in MAKERS.items():
        if name in without:
            continue
        try:
            rendered.append(RenderedFigure(name, title, *draw(inputs)))
        except NoData as reason:
            omitted.append(OmittedFigure(title, str(reason)))
    return rendered, omitted
