"""All figures of a sweep, in the order of its page."""

from collections.abc import Callable, Collection
from functools import partial

from rlexp.analysis.figures.advantages import draw_advantages
from rlexp.analysis.figures.clips import draw_clips
from rlexp.analysis.figures.forest import draw_effects, draw_scores
from rlexp.analysis.figures.formulas import draw_overlong
from rlexp.analysis.figures.frontier import draw_frontier, draw_proxies
from rlexp.analysis.figures.heatmap import draw_heat_map
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData, OmittedFigure, RenderedFigure
from rlexp.analysis.figures.lines import draw_curves, draw_lengths, draw_votes
from rlexp.analysis.figures.profiles import draw_profile
from rlexp.analysis.figures.scaling import draw_group_sizes

MAKERS: dict[str, tuple[str, Callable[[FigureInputs], Drawing]]] = {
    "effects": ("Paired differences", draw_effects),
    "intervals": ("Final scores", draw_scores),
    "curves": ("Learning curves", draw_curves),
    "heatmap": ("Two axes together", draw_heat_map),
    "group_sizes": ("Group size", draw_group_sizes),
    "profile": ("Performance profile over tasks", draw_profile),
    "frontier": ("Reward and KL", draw_frontier),
    "proxies": ("Gold and proxy against KL", draw_proxies),
    "entropy": ("Entropy of the policy", partial(draw_curves, metric="policy/entropy")),
    "lengths": ("Length of correct and wrong answers", draw_lengths),
    "zero_variance": ("Groups whose rewards are all equal", partial(draw_curves, metric="groups/zero_variance")),
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
OWN: dict[str, Callable[[FigureInputs], Drawing]] = {}  # those of ``rlexp.register``; their docstring is the title


def by_section() -> dict[str, tuple[str, ...]]:
    """Return the figures of a page by section."""
    return SECTIONS | ({"Figures of your own": tuple(OWN)} if OWN else {})


def makers() -> dict[str, tuple[str, Callable[[FigureInputs], Drawing]]]:
    """Return all figures by name, with title and function."""
    own = {name: ((draw.__doc__ or name).strip().partition("\n")[0].rstrip("."), draw) for name, draw in OWN.items()}
    return MAKERS | own


def gallery(inputs: FigureInputs, without: Collection[str] = ()) -> tuple[list[RenderedFigure], list[OmittedFigure]]:
    """Draw every figure that the data allow, but those in `without`; return the others with the reason."""
    rendered, omitted = [], []
    for name, (title, draw) in makers().items():
        if name in without:
            continue
        try:
            rendered.append(RenderedFigure(name, title, *draw(inputs)))
        except NoData as reason:
            omitted.append(OmittedFigure(title, str(reason)))
    return rendered, omitted
