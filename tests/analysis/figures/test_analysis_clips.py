"""The weights of policy-gradient losses are those that the runs have written, and nothing else."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from figure_checks import check
from report_fixtures import CASES, figure_inputs, ppo_gradient, write_report_sweep

from rlexp.analysis.data.kept import Gradient, parse_gradient, variant_gradients
from rlexp.analysis.data.load import load
from rlexp.analysis.figures import formulas
from rlexp.analysis.figures.inputs import NoData

RATIOS = np.geomspace(0.3, 6, 100)


def gradient(positive, negative=None, name="", note=""):
    return Gradient(RATIOS, {name: (positive, positive if negative is None else negative)}, note)


def two_sided(high):
    """PPO's weights at low = 0.2, and none beyond the ratio 3."""
    weights = np.where(RATIOS <= 3, RATIOS, 0.0)
    return gradient(np.where(RATIOS <= 1 + high, weights, 0.0), np.where(RATIOS >= 0.8, weights, 0.0))


def named(count):
    gates = {f"sapo,tau={i}": gradient(RATIOS / (1 + np.exp(i * (RATIOS - 2)))) for i in range(count - 1)}
    return {"naive": gradient(np.ones(100)), **gates}


def drawn(gradients, configs=None):
    """The figure of variants, each of a policy loss that is called as it is unless there are configurations."""
    configs = configs or {name: {"clip.name": name} for name in gradients}
    return formulas.draw_clips(SimpleNamespace(configs=configs, gradients=gradients, colors={}))


@pytest.mark.parametrize("count", [1, 3, 7, 8, 20])
def test_nothing_overlaps_in_few_and_in_many_losses(count):
    assert len(formulas.weight_lines(named(count))) == count
    check(drawn(named(count)).figure)


@pytest.mark.parametrize("weights", [-RATIOS, np.exp(5 * RATIOS), np.where(RATIOS > 2, np.nan, 1.0)])
def test_negative_huge_and_missing_weights_are_drawn_inside_the_axes(weights):
    figure = drawn({"mine": gradient(weights)}).figure
    check(figure)
    low, high = figure.axes[0].get_ylim()
    assert low <= min(0, weights[np.isfinite(weights)].min()) and 6 <= high <= 12


def test_what_is_drawn_is_what_the_summaries_hold(tmp_path):
    inputs = figure_inputs(write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 2))
    drawing = formulas.draw_clips(inputs)
    assert drawing.alt_text == "weights of ppo,low=0.2,high=0.2; ppo,low=0.2,high=0.28"
    for high, color in ((0.28, inputs.colors["norm=global"]), (0.2, formulas.INK)):  # two variants share the second
        expected = ppo_gradient(0.2, high)["lines"][""]
        for axes, sign in zip(drawing.figure.axes, ("positive", "negative"), strict=True):
            assert color in {line.get_color() for line in axes.lines if line.get_ydata().tolist() == expected[sign]}


def test_a_choice_is_drawn_once_and_one_without_weights_is_named():
    configs = {f"v{i}": {"clip.name": "ppo", "clip.low": 0.2, "clip.high": high, "lr": 1}
               for i, high in enumerate((0.2, 0.28, 0.2))}  # fmt: skip
    configs |= {"other": {"clip.name": "mine", "clip.window": [1, 2]}, "none": {}}
    found = drawn({"v1": two_sided(0.28), "v2": two_sided(0.2)}, configs)  # v0 is an older run of v2's choice
    assert found.alt_text == "weights of ppo,low=0.2,high=0.2; ppo,low=0.2,high=0.28"
    assert "as its runs hold no weights: mine." in found.caption


def test_a_loss_may_have_two_lines_and_a_note():
    ends = Gradient(RATIOS, {"start": (RATIOS, RATIOS), "end": (RATIOS, RATIOS)}, "At both ends of its schedule.")
    found = drawn({"scheduled": ends, "ppo": gradient(RATIOS, note="At both ends of its schedule.")})
    assert found.alt_text == "weights of scheduled, start; scheduled, end; ppo"
    assert found.caption.count("At both ends of its schedule.") == 1


def test_without_any_weights_the_figure_is_left_out_with_a_reason(tmp_path):
    inputs = figure_inputs(write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 1))
    with pytest.raises(NoData, match="no run holds the weights"):
        formulas.draw_clips(inputs._replace(gradients={}))


GOOD = ppo_gradient(0.2, 0.28)
DAMAGED = [
    None,
    3,
    [],
    {},
    {"ratios": [1, 2]},
    GOOD | {"lines": {}},
    GOOD | {"ratios": [1.0]},
    GOOD | {"ratios": ["a"] * 100},
]
DAMAGED += [
    GOOD | {"ratios": ["a"] * 100},
    GOOD | {"lines": {"": {"positive": [1.0] * 100}}},
    GOOD | {"lines": [1]},
    GOOD | {"ratios": [0.0] * 100},
]


@pytest.mark.parametrize("value", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_gradient_counts_as_none(tmp_path, value):
    assert parse_gradient(GOOD).lines[""][0].shape == (100,) and parse_gradient(value) is None
    folder = write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 2)
    summary = folder / "norm=local,seed=0" / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"gradient": value}))
    assert list(variant_gradients(load(folder))) == ["norm=local", "norm=global", "norm=hybrid"]  # its second seed's


def test_null_is_a_weight_that_is_not_known():
    lines = {"": {"positive": [None, *[1.0] * 99], "negative": [1.0] * 100}}
    assert np.isnan(parse_gradient(GOOD | {"lines": lines}).lines[""][0][0])
