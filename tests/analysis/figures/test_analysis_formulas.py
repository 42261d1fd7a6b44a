"""Figures of formulas against worked numbers and the training code."""

import re
from pathlib import Path

import numpy as np
import pytest
from figure_checks import check

from rlexp.analysis.figures import formulas


@pytest.mark.parametrize("name", formulas.FIGURES)
def test_nothing_overlaps_in_the_figures_of_formulas(name):
    check(formulas.FIGURES[name]())


def test_votes_of_three_kinds_and_of_two():
    votes = {1: 0.7, 3: 0.8155, 5: 0.88653, 7: 0.93474, 9: 0.96081, 11: 0.97604, 15: 0.99125, 21: 0.99798}
    assert {m: round(formulas.plurality(0.7, m), 5) for m in votes} == votes
    assert formulas.binary_majority(0.7, 5) == pytest.approx(0.83692)


@pytest.mark.holds("S1.15")
def test_formulas_are_those_of_the_training_code():
    import torch

    from rlexp.axes import clip, shaping

    ratios = np.linspace(0.3, 2, 50)
    for advantage in (1.0, -1.0):
        logs = torch.tensor(ratios).log()[None, None]
        one = torch.full_like(logs, advantage)
        losses = clip.FUNCTIONS["ppo"](
            logs, torch.zeros_like(logs), one, logs > -9, torch.tensor(20.0), low=0.2, high=0.28
        )[0, 0]
        np.testing.assert_allclose(-losses.numpy(), formulas.clipped(ratios, advantage, 0.2, 0.28), rtol=1e-6)
    lengths = np.arange(0, 1300, 50.0)
    offered = torch.zeros(1, 26), torch.tensor(lengths)[None].float()
    for power, function in ((1, shaping.overlong), (2, shaping.overlong_quadratic)):
        shaped = function(*offered, cap=1000, cache=200, factor=1.5)[0]
        np.testing.assert_allclose(shaped.numpy(), formulas.overlong(lengths, 1000, 200, 1.5, power), atol=1e-6)


def test_advantages_of_the_worked_example():
    rewards = np.array([[1.0, -1.0, 1.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
    np.testing.assert_allclose(formulas.normalized(rewards)[0], [0.7833, -1.3056, 0.7833, -0.2611], atol=1e-4)
    assert (formulas.normalized(rewards)[1] == 0).all()


@pytest.mark.holds("S1.10")
@pytest.mark.slow
def test_the_five_figures_of_formulas_are_one_command(tmp_path):
    assert formulas.main([str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out").iterdir())) == 3 * len(formulas.FIGURES)


def test_the_pages_count_and_list_the_figures_of_formulas():
    pages = [Path(__file__).parents[3] / "docs" / name for name in ("report.md", "tour/four_pillars.md")]
    report, tour = (" ".join(page.read_text("utf-8").split()) for page in pages)
    listed = re.search(r"draws the five figures of formulas [^:]*: ([^.]*)\.", report)[1]
    assert len(formulas.FIGURES) == len(listed.split(", ")) == 5
    assert "The figure is one of five that `python -m rlexp.analysis.figures.formulas docs/tour/figures` draws" in tour
