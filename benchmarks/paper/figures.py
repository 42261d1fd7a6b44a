"""The figures of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from benchmarks.cards.asked import Asked, asked, sides
from benchmarks.cards.changes import Change, changes
from benchmarks.cards.forecasts import LLAMA
from benchmarks.cards.other_tasks import Pair, pairs
from benchmarks.cards.texts import TASKS, read_cards
from benchmarks.paper.numbers import DOCS, Answer, read
from rlexp.analysis.figures.layout import BASELINE, COLORS, INK, light_grid, text_size

COLUMN, PAGE = 3.45, 7.1  # inches
WORDS = {
    "supported": COLORS[3],
    "smaller than claimed": COLORS[5],
    "no material effect": COLORS[0],
    "contradicted": COLORS[2],
    "open": BASELINE,
}
LARGEST = 6.0  # smallest effects that count, at the ends of the axis
ROW = 0.112  # inches, of an assertion
LABEL = 58  # characters
CURVES = ("clip_speed", "norm_deviation", "baseline_rewards", "overlong", "prompt_mean", "prime_rl_summer")
CURVES += ("oxrl_own_settings", "allocation")
BUDGETS = {
    "group_size_budgets": ("groups of 16", "groups of 2, as many completions", "groups of 2, an eighth of them"),
    "dynamic_budgets": ("equal groups stay", "replaced, as many completions", "replaced, as many updates"),
}
LINES = (BASELINE, COLORS[0], COLORS[2])


def figures(rows: Sequence[Answer]) -> dict[str, Figure]:
    """Return the figures by name."""
    questions = {each.question.name: each.question for each in rows}
    again = (TASKS, LLAMA)
    first = [each for each in rows if each.found["effect"] is not None and not each.question.name.endswith(again)]
    return {
        "stability": stability(),
        "scorecard": scorecard(first),
        "changes": moved([*changes(questions.values())]),
        "tasks": other_tasks([*pairs(read_cards(), asked())]),
        "budget": budget([questions[name] for name in BUDGETS if name in questions]),
        "rates": rates([questions[name] for name in CURVES if name in questions]),
        "forecast": forecasts(),
    }


def stability() -> Figure:
    """Draw the probabilities that headlines stay, counted and pooled."""
    found = read(DOCS / "statistics" / "words.json")
    figure = Figure(figsize=(COLUMN, 1.35), layout="constrained")
    axes = figure.add_subplot()
    generator = np.random.default_rng(0)
    for place, (name, color) in enumerate((("counted", COLORS[2]), ("pooled", COLORS[0]))):
        stays = np.array([each["stays"] for each in found[name]])
        axes.plot(stays, place + generator.uniform(-0.2, 0.2, len(stays)), "o", color=color, markersize=3, alpha=0.6)
        axes.plot([stays.mean()] * 2, [place - 0.35, place + 0.35], color=INK, linewidth=1.4)
    axes.set_yticks([0, 1], ["counted", "pooled"])
    axes.set(xlim=(-0.02, 1.02), ylim=(1.5, -0.5), xlabel="probability that a headline stays (line: mean)")
    light_grid(axes)
    return figure


def scorecard(shown: Sequence[Answer]) -> Figure:
    """Draw every pooled effect in units of the smallest that counts, positive where it is as claimed."""
    half, twice = -(-len(shown) // 2), Counter(name(each) for each in shown)
    figure = Figure(figsize=(PAGE, ROW * half + 0.55))
    height = figure.get_figheight()
    for place, some in enumerate((shown[:half], shown[half:])):
        labels = [name(each, twice[name(each)] > 1) for each in some]
        left = max(text_size(figure, each, 4.9)[0] for each in labels) + 0.07
        middle = PAGE / 2 * place
        place_at = (middle + left) / PAGE, 0.42 / height, (PAGE / 2 - left - 0.05) / PAGE, 1 - 0.45 / height
        axes = figure.add_axes(place_at)
        draw_effects(axes, some, half)
        axes.set_yticks(range(len(some)), labels, fontsize=4.9)
    words = {each.found["word"] for each in shown}
    lines = [Line2D([], [], color=color, linewidth=2, label=word) for word, color in WORDS.items() if word in words]
    figure.legend(handles=lines, loc="lower center", ncols=len(lines), fontsize=5.5, frameon=False)
    return figure


def name(each: Answer, with_number: bool = False) -> str:
    """Return an assertion as an axis names it, with what it is about where others have the same arms."""
    arms, number = each.sides, each.question.number(each.place).removeprefix("eval/")
    text = f"{each.card.label}  {arms['arm']} {arms['sign']} {arms['versus']}{f', {number}' if with_number else ''}"
    return text if len(text) <= LABEL else f"{text[: LABEL - 1]}…"


def draw_effects(axes: Axes, shown: Sequence[Answer], rows: int) -> None:
    """Draw a column of the scorecard."""
    axes.axvspan(-1, 1, color=BASELINE, alpha=0.1, linewidth=0)
    axes.axvline(0, color=BASELINE, linewidth=0.8, linestyle="--")
    for place, assertion in enumerate(each.found for each in shown):
        sign, unit, color = assertion["sign_of_claim"], assertion["smallest"], WORDS[assertion["word"]]
        middle, low, high, *predicted = (
            sign * value / unit
            for value in (assertion["effect"], assertion["low"], assertion["high"], *assertion["predicted"])
        )
        for ends, width in ((sorted(predicted), 0.5), (sorted((low, high)), 1.6)):
            inside = np.clip(ends, -LARGEST, LARGEST)
            axes.plot(inside, [place, place], color=color, linewidth=width, solid_capstyle="butt")
        for beyond, marker in ((min(low, high) < -LARGEST, "<"), (max(low, high) > LARGEST, ">")):
            if beyond:
                axes.plot(LARGEST * (1 if marker == ">" else -1), place, marker, color=color, markersize=3)
        axes.plot(np.clip(middle, -LARGEST, LARGEST), place, "o", color=color, markersize=2.6)
    axes.set(xlim=(-LARGEST - 0.3, LARGEST + 0.3), ylim=(rows - 0.4, -0.6))
    axes.set_xlabel("smallest effects that count", fontsize=5.5, labelpad=1)
    axes.tick_params(axis="x", labelsize=5.5, pad=1)
    axes.tick_params(axis="y", length=0, pad=1)
    light_grid(axes)


def moved(found: Sequence[Change]) -> Figure:
    """Draw the sizes of effects on accuracy, of changes of the loss and of others, with their medians."""
    figure = Figure(figsize=(COLUMN, 1.35), layout="constrained")
    axes = figure.add_subplot()
    generator = np.random.default_rng(0)
    for place, (of_loss, color) in enumerate(((True, COLORS[0]), (False, COLORS[2]))):
        sizes = np.array([each.size for each in found if each.of_loss is of_loss])
        axes.plot(sizes, place + generator.uniform(-0.2, 0.2, len(sizes)), "o", color=color, markersize=3, alpha=0.6)
        axes.plot([np.median(sizes)] * 2, [place - 0.35, place + 0.35], color=INK, linewidth=1.4)
    axes.axvline(1, color=BASELINE, linewidth=0.7, linestyle="--")
    axes.set_yticks([0, 1], ["the loss alone", "what is sampled,\nrewarded, asked"])
    axes.set(xscale="log", ylim=(1.5, -0.5), xlabel="effect over the size that counts")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:g}"))
    light_grid(axes)
    return figure


def other_tasks(found: Sequence[Pair]) -> Figure:
    """Draw effects where they were asked first against those on other tasks, in smallest effects that count."""
    figure = Figure(figsize=(COLUMN, 2.6), layout="constrained")
    axes = figure.add_subplot()
    axes.axhspan(-1, 1, color=BASELINE, alpha=0.1, linewidth=0)
    axes.axvspan(-1, 1, color=BASELINE, alpha=0.1, linewidth=0)
    axes.axline((0, 0), slope=1, color=BASELINE, linewidth=0.7, linestyle="--")
    for pair in found:
        first, other = pair.there, pair.found
        x, *across = (value / first["smallest"] for value in (first["effect"], *first["predicted"]))
        y, *along = (other[key] / other["smallest"] for key in ("effect", "low", "high"))
        color, at = WORDS[other["word"]], np.clip((x, y), -LARGEST, LARGEST)
        axes.plot(across, [y, y], color=color, linewidth=0.5)
        axes.plot([x, x], along, color=color, linewidth=1.2)
        marker = ("<>"[x > 0] if abs(x) > LARGEST else "v^"[y > 0]) if max(abs(x), abs(y)) > LARGEST else "o"
        axes.plot(*at, marker, color=color, markersize=3)
        if max(abs(at)) >= 1:
            axes.annotate(pair.card.label, at, (2, 2), textcoords="offset points", fontsize=5)
    axes.set(xlim=(-LARGEST - 0.2, LARGEST + 0.2), ylim=(-LARGEST, LARGEST))
    axes.set_xlabel("on the first task", fontsize=7)
    axes.set_ylabel("on other tasks", fontsize=7)
    axes.tick_params(labelsize=6)
    light_grid(axes)
    return figure


def rates(questions: Sequence[Asked]) -> Figure:
    """Draw the score of both arms over the learning rate, a panel a question."""
    rows = -(-len(questions) // 4)
    figure = Figure(figsize=(PAGE, 1.85 * rows), layout="constrained")
    for place, question in enumerate(questions, 1):
        draw_rates(figure.add_subplot(rows, 4, place), question)
    figure.supxlabel("learning rate", fontsize=6.5)
    figure.supylabel("score less the baseline's best", fontsize=6.5)
    return figure


def draw_rates(axes: Axes, question: Asked) -> None:
    """Draw the arms of the first assertion, from the rates that all conditions have."""
    assertion = question.assertions[0]
    arm, versus = sides(assertion)
    grids = {side: [question.grid(each, side) for each in question.conditions] for side in (versus, arm)}
    for side, other, color in (("versus", "arm", BASELINE), ("arm", "versus", COLORS[0])):
        own = [part for part in assertion[side] if part not in assertion[other]] or assertion[side] or ["default"]
        curves = [
            dict(zip(grid.rates, grid.values.mean(-1), strict=True)) for grid in grids[arm if side == "arm" else versus]
        ]
        common = sorted(set.intersection(*({*curve} for curve in curves)))
        table = np.array([[curve[rate] for rate in common] for curve in curves])
        table -= np.array([[grid.values.mean(-1).max()] for grid in grids[versus]])
        middle, error = table.mean(0), table.std(0, ddof=1) / np.sqrt(len(table))
        axes.fill_between(common, middle - error, middle + error, color=color, alpha=0.15, linewidth=0)
        axes.plot(common, middle, "o-", color=color, mfc="white", markersize=3, label="\n".join(own))
        axes.plot(common[middle.argmax()], middle.max(), "o", color=color, markersize=4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title(question.name.replace("_", " "), fontsize=7)
    axes.tick_params(labelsize=6)
    axes.legend(fontsize=5.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), handlelength=1)


def budget(questions: Sequence[Asked]) -> Figure:
    """Draw where each arm ends at each budget, each at its best rate there: a panel a question."""
    figure = Figure(figsize=(COLUMN, 2.3), layout="constrained")
    panels = figure.subplots(1, len(questions), sharey=True, squeeze=False).flat
    for axes, question in zip(panels, questions, strict=True):
        spent = question.curves.groupby(["folder", "seed"])["completions"].max().rename("spent")
        judged = question.runs[question.runs["best"]].join(spent, on=["folder", "seed"])
        arm, versus = zip(*(sides(each) for each in question.assertions), strict=True)
        budgets = judged[judged["arm"] == versus[0]].groupby("condition")["spent"].max()
        lines = [(versus[0], "assertion_1"), *zip(arm, ("assertion_1", "assertion_2"), strict=True)]
        for (name, number), label, color in zip(lines, BUDGETS[question.name], LINES, strict=True):
            runs = judged[judged["arm"] == name]
            means = runs.groupby(runs["condition"].map(budgets))[number].mean()
            axes.plot(means.index, means, "o-", color=color, markersize=3, linewidth=1, label=label)
        axes.set_xscale("log")
        axes.set_xticks([*budgets.unique()], [f"{each / 1000:.0f}k" for each in budgets.unique()])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("budget, completions", fontsize=6.5)
        axes.tick_params(labelsize=6)
        axes.legend(fontsize=5.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.3), handlelength=1)
    figure.axes[0].set_ylabel("accuracy", fontsize=6.5)
    return figure


def forecasts() -> Figure:
    """Draw forecast effects against those that came out."""
    figure = Figure(figsize=(COLUMN, 1.9), layout="constrained")
    for place, (folder, title) in enumerate((("ladder", "300k, own loop"), ("language", "Llama of 1.2M, TRL")), 1):
        axes = figure.add_subplot(1, 2, place)
        effects = read(DOCS / "transfer" / folder / "score.json")["effects"]
        x, y, error = (np.array([each[key] for each in effects]) for key in ("forecast", "shown", "error"))
        ends = np.array([[each["low"], each["high"]] for each in effects]).T
        largest = 1.05 * np.abs([*ends, y - 2 * error, y + 2 * error]).max()
        axes.axline((0, 0), slope=1, color=BASELINE, linewidth=0.7, linestyle="--")
        axes.errorbar(x, y, 2 * error, np.abs(ends - x), fmt="o", color=COLORS[0], markersize=3, linewidth=0.8)
        axes.set(xlim=(-largest, largest), ylim=(-largest, largest), aspect="equal")
        axes.set_title(title, fontsize=7)
        axes.set_xlabel("forecast, log-odds", fontsize=7)
        axes.tick_params(labelsize=6)
    figure.axes[0].set_ylabel("came out", fontsize=7)
    return figure
