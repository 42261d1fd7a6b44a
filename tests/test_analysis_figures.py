"""Figures: nothing overlaps, nothing is cut, and what is drawn is what the table says."""

import inspect

import numpy as np
import pytest
from analysis_fixtures import random_scores, write_sweep
from figure_checks import check
from matplotlib.colors import to_hex
from report_fixtures import CASES, write_case, write_report_sweep

from analysis import clips, forest, frontier, heatmap, profiles, scaling, shapes, votes
from analysis.answer import Question, answer
from analysis.comparison import compare
from analysis.configs import variant_configs
from analysis.curves import POINTS, learning_curves
from analysis.figures import Evidence, effects, gallery
from analysis.labels import spread, within, wrap, wrap_all
from analysis.load import load
from analysis.samples import read_samples
from analysis.style import BASELINE, save, variant_colours


def evidence(folder) -> Evidence:
    data = load(folder)
    return Evidence(data, compare(data), data, variant_configs(data), read_samples(data))


KNOBS = {"low": 0.15, "high": 0.3, "high_final": 0.7, "c": 1.7, "delta": 1.9, "lower": 0.6, "upper": 1.6}
KNOBS |= {"tau_positive": 1.0, "tau_negative": 2.0, "beta": 0.4, "share": 0.1, "coef": 0.0, "lb": 1.0, "ub": 5.0}
KNOBS |= {"k_positive": 2.0, "lambda_positive": 3.0, "k_negative": 3.0, "lambda_negative": 2.0}
TOGETHER = {f"norm={i}": list(np.random.default_rng(i).normal(0.8, 0.001, 6)) for i in range(7)}


def test_nothing_overlaps_where_seven_lines_end_together(tmp_path):
    drawn, _ = gallery(evidence(write_sweep(tmp_path / "sweep", TOGETHER, 20)))
    for each in drawn:
        check(each.figure)


@pytest.mark.parametrize("name", shapes.FIGURES)
def test_nothing_overlaps_in_the_figures_of_formulas(name):
    check(shapes.FIGURES[name]())


@pytest.mark.parametrize("names", [["naive", "ppo", "topr"], ["scheduled", *clips.WEIGHTS]])
def test_nothing_overlaps_in_few_and_in_many_clips(names):
    found = [(name, tuple((knob, KNOBS[knob]) for knob in knobs_of(name))) for name in names]
    lines = {name: both for choice in found for name, both in clips.weights(choice).items()}
    check(clips.clips_figure(lines, clips.clips_caption(found)))


def knobs_of(name):
    from rlexp.clip import FUNCTIONS

    return [each for each, parameter in inspect.signature(FUNCTIONS[name]).parameters.items() if parameter.kind == 3]


def test_of_many_variants_the_farthest_get_a_panel(tmp_path):
    scores = {f"norm={i}": [0.5 + 0.01 * abs(i - 10)] for i in range(30)}
    comparison = compare(load(write_sweep(tmp_path / "sweep", scores, 4)))
    shown, said = forest.farthest(comparison, comparison.table.index)
    assert "24 of 29 variants" in said and len(shown) == 24 and "norm=0" not in shown
    assert {f"norm={i}" for i in (7, 8, 9, 10, 11, 12, 13)} <= set(shown)  # farthest from the first, which has 0.6


def test_filled_means_significant(tmp_path):
    scores = random_scores(["norm=a"], 8)["norm=a"]
    nearly = [score + (0.001 if seed % 2 else -0.001) for seed, score in enumerate(scores)]
    better = [score + 0.1 + 0.001 * seed for seed, score in enumerate(scores)]
    comparison = compare(
        load(write_sweep(tmp_path, {"norm=a": scores, "norm=same": nearly, "norm=better": better}, 10))
    )
    (axes,) = effects(comparison).axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    filled = [to_hex(dot.get_markerfacecolor()) != "#ffffff" for dot in dots]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["better", "same"] and filled == [True, False]
    assert dots[0].get_xdata()[0] == comparison.table.loc["norm=better", "difference"]


def test_bands_need_three_runs_and_lines_are_the_pointwise_iqm(tmp_path):
    data = load(write_sweep(tmp_path, random_scores(["norm=a"], 5), 10))
    comparison = compare(data)
    line = learning_curves(data, comparison)["norm=a"]
    last = data.metrics[data.metrics["step"] == 10][comparison.metric].sort_values()
    assert line.steps.tolist() == [0, 2, 4, 6, 8, 10] and line.iqm[-1] == pytest.approx(last[1:4].mean())
    assert (line.low < line.iqm).all() and (line.iqm < line.high).all()
    few = load(write_sweep(tmp_path / "few", random_scores(["norm=a"], 2), 10))
    assert np.isnan(learning_curves(few, compare(few))["norm=a"].low).all()


def test_figures_are_saved_as_three_formats_with_text_as_text(tmp_path):
    comparison = compare(load(write_sweep(tmp_path, random_scores(["norm=a", "norm=$x$"], 4), 10)))
    svg, pdf, png = save(effects(comparison), tmp_path / "effects")
    assert ">$x$</text>" in svg.read_text()
    assert pdf.read_bytes().startswith(b"%PDF") and png.read_bytes()[1:4] == b"PNG"


def test_one_colour_per_variant_and_grey_for_the_baseline():
    colours = variant_colours(list("abcdefg"), baseline="c")
    assert colours["c"] == BASELINE and len(set(colours.values())) == 7
    assert len(set(variant_colours(list("abcdefgh"), baseline="c").values())) == 2


def test_spread_labels_keep_order_and_distance():
    wanted, heights = np.array([3.0, 1.0, 1.1, 1.05]), np.array([1.0, 0.5, 0.5, 1.0])
    centres = spread(wanted, heights)
    order = np.argsort(wanted)
    gaps = np.diff(centres[order]) - (heights[order][1:] + heights[order][:-1]) / 2
    assert (gaps > -1e-9).all() and centres[0] == 3.0
    np.testing.assert_allclose((centres - wanted)[1:].mean(), 0, atol=1e-9)
    inside = within(centres, heights, 0.5, 4.0)
    assert (inside - heights / 2 > 0.5 - 1e-9).all() and (inside + heights / 2 < 4.0 + 1e-9).all()


def test_long_labels_are_wrapped_at_commas_and_cut():
    assert wrap("norm=local,clip=higher", 12) == "norm=local,\nclip=higher"
    assert wrap("a=1,b=2", 12) == "a=1,b=2"
    lines = wrap("x" * 100, 12).split("\n")
    assert len(lines) == 3 and lines[-1].endswith("…") and max(map(len, lines)) == 12


def test_names_that_would_be_cut_to_the_same_text_lose_what_they_share():
    names = [f"preset=grpo_tcr,group_size=64,penalty={i}" for i in (1, 2)]
    assert list(wrap_all([*names, "x"], 16, 2).values()) == ["…penalty=1", "…penalty=2", "x"]
    assert wrap("coefficient_of_length=0.001", 24) == "coefficient_of_length=\n0.001"  # not inside a number


def test_curves_are_thinned_to_what_a_figure_shows(tmp_path):
    data = load(write_sweep(tmp_path, random_scores(["norm=a"], 3), 400))
    line = learning_curves(data, compare(data))["norm=a"]
    assert line.steps.size == POINTS and (line.steps[0], line.steps[-1]) == (0, 400)
    row = data.metrics[data.metrics["step"] == line.steps[7]]["eval/greedy_accuracy"]
    assert line.iqm[7] == pytest.approx(row.mean())


def test_heat_map_is_exactly_zero_at_the_baseline_and_interactions_are_differences_of_differences(tmp_path):
    comparison = compare(load(write_case(tmp_path / "sweep", "two axes")), baseline="norm=global,clip=b")
    found, scores = heatmap.cross(comparison), comparison.scores
    assert found.baseline == ("global", "b") and found.difference.values.shape == (3, 2)
    assert found.difference.values.loc["global", "b"] == 0.0
    cells = found.interaction.values
    assert (cells.loc["global"] == 0).all() and (cells["b"] == 0).all()
    by_hand = []
    for seed in scores.index:
        y = {(a, b): scores.loc[seed, f"norm={a},clip={b}"] for a in ("none", "global") for b in ("d", "b")}
        by_hand.append((y["none", "d"] - y["none", "b"]) - (y["global", "d"] - y["global", "b"]))
    assert cells.loc["none", "d"] == pytest.approx(np.mean(by_hand))
    texts_shown = [t.get_text() for t in heatmap.heat_map(comparison, found).axes[0].texts]
    assert texts_shown[cells.columns.get_loc("b") + 2 * cells.index.get_loc("global")] == "0.000"


@pytest.mark.parametrize("case", ["3 variants", "20 variants", "one variant"])
def test_no_heat_map_without_two_crossed_axes(tmp_path, case):
    assert heatmap.cross(compare(load(write_case(tmp_path / "sweep", case)))) is None


def test_group_sizes_at_equal_steps_and_at_equal_rollouts(tmp_path):
    folder = write_case(tmp_path / "sweep", "group sizes")
    data = load(folder)
    dear = data.metrics["variant"].str.endswith("=16")
    data.metrics.loc[dear, "progress/completions"] *= 4  # the largest groups cost four times as much a step
    found = scaling.scaling(data, compare(data), scaling.size_key(data))
    assert (found.steps, found.rollouts) == (40, 128 * 40) and set(found.at_steps) == {"norm=local", "norm=rloo"}
    line, cut = found.at_steps["norm=rloo"], found.at_rollouts["norm=rloo"]
    assert line.sizes.tolist() == [2, 4, 16] and (cut.iqm[:2] == line.iqm[:2]).all()
    own = data.metrics[(data.metrics["variant"] == "norm=rloo,group_size=16") & (data.metrics["step"] == 10)]
    values = np.sort(own["eval/greedy_accuracy"])
    assert cut.iqm[2] == pytest.approx(values[1:-1].mean()) and cut.iqm[2] < line.iqm[2]


def test_profile_is_the_share_of_runs_above_each_threshold_over_tasks(tmp_path):
    data = load(write_case(tmp_path / "sweep", "tasks"))
    runs = data.runs
    shares = [(runs.loc[(runs["norm"] == "global") & (runs["task"] == task), "score"] > 0.68).mean()
              for task in ("sort", "bandit", "length")]  # fmt: skip
    for arms in (data, answer(data, Question()).data):  # also where variants are arms within tasks
        line = profiles.profiles(arms)["norm=global"]
        assert line.iqm[68] == pytest.approx(np.mean(shares)) and len(set(shares)) > 1
        assert (np.diff(line.iqm) <= 0).all() and (line.low <= line.high).all()


def test_frontier_pairs_each_run_with_its_own_kl_and_keeps_who_is_not_beaten(tmp_path):
    found = evidence(write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 4))
    crosses = frontier.crosses(found.data, found.comparison, "kl/ref_exact")
    rows = found.data.metrics[found.data.metrics["name"] == "norm=global,seed=2"].tail(5)  # a tenth of 41, rounded up
    place = int(np.flatnonzero(crosses["norm=global"].score == found.comparison.scores.loc[2, "norm=global"])[0])
    assert crosses["norm=global"].kl[place] == pytest.approx(rows["kl/ref_exact"].mean())

    def at(kl, score):
        return frontier.Cross(np.zeros(1), np.zeros(1), (kl, 0, 0), (score, 0, 0))

    points = {"a": at(1, 0.5), "b": at(2, 0.4), "c": at(3, 0.9), "d": at(3, 0.7)}
    assert frontier.best(points, "higher") == ["a", "c"] and frontier.best(points, "lower") == ["a", "b"]
    assert frontier.best(points, None) == []


def test_votes_of_three_kinds_and_of_two():
    votes = {1: 0.7, 3: 0.8155, 5: 0.88653, 7: 0.93474, 9: 0.96081, 11: 0.97604, 15: 0.99125, 21: 0.99798}
    assert {m: round(shapes.plurality(0.7, m), 5) for m in votes} == votes
    assert shapes.binary_majority(0.7, 5) == pytest.approx(0.83692)


def test_formulas_are_those_of_the_training_code():
    import torch

    from rlexp import clip, shaping

    ratios = np.linspace(0.3, 2, 50)
    for advantage in (1.0, -1.0):
        logs = torch.tensor(ratios).log()[None, None]
        one = torch.full_like(logs, advantage)
        losses = clip.ppo(logs, torch.zeros_like(logs), one, logs > -9, low=0.2, high=0.28)[0, 0]
        np.testing.assert_allclose(-losses.numpy(), shapes.clipped(ratios, advantage, 0.2, 0.28), rtol=1e-6)
    lengths = np.arange(0, 1300, 50.0)
    offered = torch.zeros(1, 26), torch.tensor(lengths)[None].float()
    for power, function in ((1, shaping.overlong), (2, shaping.overlong_quadratic)):
        shaped = function(*offered, cap=1000, cache=200, factor=1.5)[0]
        np.testing.assert_allclose(shaped.numpy(), shapes.overlong(lengths, 1000, 200, 1.5, power), atol=1e-6)


@pytest.mark.parametrize("name", sorted([*clips.WEIGHTS, "scheduled"]))
def test_the_weight_of_a_gradient_is_that_of_the_training_code(name):
    import torch

    from rlexp.clip import FUNCTIONS

    taken = inspect.signature(FUNCTIONS[name]).parameters
    knobs = {knob: KNOBS[knob] for knob in knobs_of(name)}
    old = torch.full((clips.RATIOS.size, 1, 1, 1), np.log(clips.OLD_PROBABILITY), dtype=torch.float64)
    moved = torch.tensor(clips.RATIOS).log()[:, None, None, None]
    drawn = clips.weights((name, tuple(knobs.items())))
    for end, both in enumerate(drawn.values()):
        given = {"progress": torch.full((clips.RATIOS.size,), float(end), dtype=torch.float64)}
        given |= {"uniforms": torch.zeros_like(old)}
        given = {each: value for each, value in given.items() if each in taken}
        for advantage, weight in zip((1.0, -1.0), both, strict=True):
            logs = (old + moved).requires_grad_()
            losses = FUNCTIONS[name](logs, old, torch.full_like(old, advantage), old < 0, **given, **knobs)
            losses.sum().backward()
            np.testing.assert_allclose(weight * advantage, -logs.grad.ravel(), rtol=1e-9, atol=1e-12)
    assert len(drawn) == 1 + (name == "scheduled")


def test_clips_are_drawn_once_and_an_unknown_one_is_named():
    configs = [{"clip.name": "ppo", "clip.low": 0.2, "clip.high": high, "lr": 1} for high in (0.2, 0.28, 0.2)]
    found = clips.choices([*configs, {"clip.name": "mine"}, {}])
    lines = {name: both for choice in found for name, both in clips.weights(choice).items()}
    assert list(lines) == ["ppo,low=0.2,high=0.2", "ppo,low=0.2,high=0.28"]
    assert "no formula is known here: mine." in clips.clips_caption(found)


def test_a_vote_is_the_most_common_answer_of_all_choices_of_completions():
    answers, correct = ["a", "b", "b", "c"], [True, False, False, True]
    assert votes.accuracy(answers, correct, 1) == 0.5
    pairs = [0.5, 0.5, 1.0, 0.0, 0.5, 0.5]  # ab ab ac bb bc bc
    assert votes.accuracy(answers, correct, 2) == pytest.approx(np.mean(pairs))
    assert votes.accuracy(answers, correct, 4) == 0.0


def test_votes_are_those_of_the_last_step_and_a_mean_over_prompts(tmp_path):
    found = evidence(write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 3))
    kept = ("xa", "xa", "xb", "yb", "yb", "ya")
    rows = [{"step": 40, "prompt": p, "completion": c, "correct": c == "a"} for p, c in kept]
    found = found._replace(samples={name: [{"step": 0, "prompt": "x"}, *rows] for name in found.samples})
    line = votes.voting_curves(found.data, found.comparison, found.samples)["norm=global"]
    assert line.steps.tolist() == [1, 2, 3]
    np.testing.assert_allclose(line.iqm, [0.5, 0.5, 0.5])
    rows[-1]["correct"] = True
    rows[-1]["completion"] = rows[-2]["completion"] = "a"  # now right in both prompts
    rows[-2]["correct"] = True
    line = votes.voting_curves(found.data, found.comparison, found.samples)["norm=global"]
    np.testing.assert_allclose(line.iqm, [2 / 3, 2 / 3, 1.0])


def test_advantages_of_the_worked_example():
    rewards = np.array([[1.0, -1.0, 1.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
    np.testing.assert_allclose(shapes.normalised(rewards)[0], [0.7833, -1.3056, 0.7833, -0.2611], atol=1e-4)
    assert (shapes.normalised(rewards)[1] == 0).all()


def test_the_four_figures_of_formulas_are_one_command(tmp_path):
    assert shapes.main([str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out").iterdir())) == 12
