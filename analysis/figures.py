"""All figures of a sweep. Each maker draws one from the data, or says in a line why there is nothing to draw."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from analysis import clips, heatmap, lines, profiles, samples, scaling, shapes, votes
from analysis import frontier as front
from analysis.comparison import Comparison
from analysis.curves import Curves, learning_curves
from analysis.forest import effects, effects_caption, intervals, intervals_caption
from analysis.lines import curves, curves_caption
from analysis.load import Data
from analysis.style import variant_colours
from analysis.tables import decimals, interval

__all__ = ["Absent", "Drawn", "Evidence", "curves", "effects", "gallery"]


class Evidence(NamedTuple):
    """What figures are drawn from."""

    data: Data
    """The runs that are compared."""
    comparison: Comparison
    whole: Data
    """The runs of all tasks."""
    configs: Mapping[str, Mapping[str, Any]]
    """Flat configuration of each variant."""
    samples: Mapping[str, samples.Rows]
    """Sample completions of each run."""


class Drawn(NamedTuple):
    """A figure, what it says it shows, and its numbers in words for whoever cannot see it."""

    name: str
    title: str
    caption: str
    words: str
    figure: Figure


class Absent(NamedTuple):
    """A figure that is left out, and why."""

    title: str
    reason: str


class NothingToDraw(Exception):
    """Why a figure is left out."""


Picture = tuple[str, str, Figure]  # caption, words, figure


def gallery(evidence: Evidence, without: Collection[str] = ()) -> tuple[list[Drawn], list[Absent]]:
    """Every figure that the data allow, and those that they do not; leave out some by name."""
    drawn, absent = [], []
    for name, (title, make) in MAKERS.items():
        if name in without:
            continue
        try:
            drawn.append(Drawn(name, title, *make(evidence)))
        except NothingToDraw as reason:
            absent.append(Absent(title, str(reason)))
    return drawn, absent


def _effects(evidence: Evidence) -> Picture:
    comparison = evidence.comparison
    if not (comparison.table["n_pairs"] > 0).any():
        raise NothingToDraw("no variant shares a seed with the baseline")
    return effects_caption(comparison), _intervals_in_words(comparison, "difference", sign=True), effects(comparison)


def _intervals(evidence: Evidence) -> Picture:
    comparison = evidence.comparison
    if not (comparison.table["n"] > 0).any():
        raise NothingToDraw("no run has a score")
    return intervals_caption(comparison), _intervals_in_words(comparison, "iqm"), intervals(comparison)


def _intervals_in_words(comparison: Comparison, column: str, sign: bool = False) -> str:
    digits = decimals(comparison.scores.to_numpy().ravel())
    table = comparison.table if column == "iqm" else comparison.table.loc[comparison.others]
    ends = zip(table.index, table[column], table[f"{column}_low"], table[f"{column}_high"], strict=True)
    return "; ".join(f"{comparison.labels[name]}: {interval(*row, digits, sign=sign)}" for name, *row in ends)


def _over_steps(metric: str | None = None) -> Callable[[Evidence], Picture]:
    def make(evidence: Evidence) -> Picture:
        found = _curves(evidence, metric)
        caption = curves_caption(evidence.comparison, found)
        return caption, _ends_in_words(evidence.comparison, found), curves(evidence.comparison, found, metric)

    return make


def _curves(evidence: Evidence, metric: str | None) -> Curves:
    found = learning_curves(evidence.data, evidence.comparison, metric)
    if not found:
        raise NothingToDraw(f"no completed run has a value of {metric or evidence.comparison.metric}")
    return found


def _ends_in_words(comparison: Comparison, found: Curves) -> str:
    parts = [f"{comparison.labels[name]}: {line.iqm[0]:.3g} to {line.iqm[-1]:.3g}" for name, line in found.items()]
    return "from first to last step, " + "; ".join(parts)


def _frontier(evidence: Evidence) -> Picture:
    data, comparison = evidence.data, evidence.comparison
    if comparison.metric in front.KL_METRICS:
        raise NothingToDraw("the metric is the KL itself")
    known = [name for name in front.KL_METRICS if name in data.metrics and data.metrics[name].notna().any()]
    metric = known[0] if known else None
    found = front.crosses(data, comparison, metric) if metric else {}
    if not found:
        raise NothingToDraw(f"no completed run has both a score and a value of {' or '.join(front.KL_METRICS)}")
    words = "; ".join(
        f"{comparison.labels[name]}: KL {c.centre[0]:.3g}, score {c.centre[1]:.3g}" for name, c in found.items()
    )
    return front.frontier_caption(comparison, found, metric), words, front.frontier(comparison, found, metric)


def _heat_map(evidence: Evidence) -> Picture:
    comparison = evidence.comparison
    cross = heatmap.cross(comparison)
    if cross is None:
        raise NothingToDraw("needs a sweep over exactly two axes, with each choice beside the baseline's other one")
    if not (comparison.table["n_pairs"] > 0).any():
        raise NothingToDraw("no variant shares a seed with the baseline")
    values = cross.interaction.values.stack()
    words = "interactions: " + "; ".join(
        f"{a} and {b}: {value:+.3g}" for (a, b), value in values.dropna().items() if value
    )
    return heatmap.heat_caption(comparison), words, heatmap.heat_map(comparison, cross)


def _group_sizes(evidence: Evidence) -> Picture:
    key = scaling.size_key(evidence.data)
    found = scaling.scaling(evidence.data, evidence.comparison, key) if key else None
    if found is None:
        raise NothingToDraw(
            "needs variants that differ in group_size only, and runs that log completions and the metric"
        )
    parts = [f"{name or 'group size'} {size:g}: {value:.3g}" for name, line in found.at_rollouts.items()
             for size, value in zip(line.sizes, line.iqm, strict=True)]  # fmt: skip
    return (
        scaling.scaling_caption(found),
        "at equal rollouts, " + "; ".join(parts),
        scaling.group_sizes(evidence.comparison, found),
    )


def _profile(evidence: Evidence) -> Picture:
    tasks = profiles.tasks_of(evidence.whole)
    if len(tasks) < profiles.MIN_TASKS:
        raise NothingToDraw(f"needs {profiles.MIN_TASKS} tasks or more, and this sweep varies {len(tasks) or 'none'}")
    found = profiles.profiles(evidence.whole)
    if not found:
        raise NothingToDraw("no run has a score")
    words = "; ".join(f"{name}: {line.iqm[len(line.iqm) // 2]:.2f} above 0.5" for name, line in found.items())
    figure = profiles.profile(evidence.whole, found, evidence.comparison.baseline)
    return profiles.profile_caption(evidence.whole, found), words, figure


def _lengths(evidence: Evidence) -> Picture:
    kinds = [learning_curves(evidence.data, evidence.comparison, f"length/{kind}") for kind in ("correct", "wrong")]
    if not any(kinds):
        raise NothingToDraw("no completed run has a value of length/correct or length/wrong")
    words = "; ".join(f"{kind} {_ends_in_words(evidence.comparison, found)}"
                      for kind, found in zip(("correct", "wrong"), kinds, strict=True) if found)  # fmt: skip
    return lines.lengths_caption(evidence.comparison), words, lines.lengths(evidence.comparison, *kinds)


def _clips(evidence: Evidence) -> Picture:
    found = clips.choices(evidence.configs.values())
    drawn = {name: both for choice in found for name, both in clips.weights(choice).items()}
    if not drawn:
        raise NothingToDraw("no configuration names a clip whose formula is known here")
    caption = clips.clips_caption(found)
    return caption, "weights of " + "; ".join(drawn), clips.clips_figure(drawn, caption)


def _overlong(evidence: Evidence) -> Picture:
    keys, powers = ("shaping.cap", "shaping.cache", "shaping.factor"), {"overlong": 1, "overlong_quadratic": 2}
    chosen = [config for config in evidence.configs.values() if config.get("shaping.name") in powers]
    settings = sorted({(*(c[key] for key in keys), powers[c["shaping.name"]]) for c in chosen})
    if not settings:
        raise NothingToDraw("no variant has an overlong penalty")
    words = "; ".join(f"cap {cap:g}, cache {cache:g}, factor {factor:g}" for cap, cache, factor, _ in settings)
    return "What overlong shaping adds to the reward.", words, shapes.overlong_figure(settings)


def _votes(evidence: Evidence) -> Picture:
    comparison = evidence.comparison
    found = votes.voting_curves(evidence.data, comparison, evidence.samples)
    if max((line.steps.size for line in found.values()), default=0) < 2:
        raise NothingToDraw("no completed run has kept two completions of a prompt")
    words = "; ".join(f"{comparison.labels[name]}: {line.iqm[0]:.3g} with 1 vote, {line.iqm[-1]:.3g} with "
                      f"{line.steps[-1]}" for name, line in found.items())  # fmt: skip
    caption = votes.votes_caption(comparison, found)
    return caption, words, lines.drawn(comparison, found, ("votes", votes.ACCURACY), caption)


def _advantages(evidence: Evidence) -> Picture:
    comparison = evidence.comparison
    found = samples.advantages(evidence.data, evidence.samples)
    found = {variant: found[variant] for variant in comparison.table.index if variant in found}
    if not found:
        raise NothingToDraw("no completed run has sample completions")
    colours = variant_colours(list(comparison.table.index), comparison.baseline)
    caption = (
        "Advantages of the sample completions of all completed runs, before training, half-way and at the end: "
        "histograms, each scaled to its row, with their SD, largest size and n (completions, not seeds). No interval: "
        "the distribution itself is shown."
    )
    labels = comparison.labels
    figure = shapes.advantage_figure(
        {labels[v]: x for v, x in found.items()}, {labels[v]: colours[v] for v in found}, caption, "advantage"
    )
    words = "; ".join(f"{labels[v]}: SD {x.std():.3g}, largest {abs(x).max():.3g}" for v, x in found.items())
    return caption, words, figure


MAKERS: dict[str, tuple[str, Callable[[Evidence], Picture]]] = {
    "effects": ("Paired differences", _effects),
    "intervals": ("Final scores", _intervals),
    "curves": ("Learning curves", _over_steps()),
    "heatmap": ("Two axes together", _heat_map),
    "group_sizes": ("Group size", _group_sizes),
    "profile": ("Performance profile over tasks", _profile),
    "frontier": ("Reward and KL", _frontier),
    "entropy": ("Entropy of the policy", _over_steps("policy/entropy")),
    "lengths": ("Length of correct and wrong answers", _lengths),
    "zero_variance": ("Groups whose rewards are all equal", _over_steps("groups/zero_variance")),
    "advantages": ("Advantages", _advantages),
    "clip": ("Clip functions", _clips),
    "overlong": ("Overlong penalty", _overlong),
    "voting": ("Accuracy of a vote", _votes),
}
