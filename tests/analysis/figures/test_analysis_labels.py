"""Text that can be read: wrapped, apart, and unlike any other."""

import numpy as np

from rlexp.analysis.figures.layout import spread_labels, wrap_label, wrap_labels


def test_spread_labels_keep_order_and_distance():
    wanted, heights = np.array([3.0, 1.0, 1.1, 1.05]), np.array([1.0, 0.5, 0.5, 1.0])
    centers = spread_labels(wanted, heights, -np.inf, np.inf)
    order = np.argsort(wanted)
    gaps = np.diff(centers[order]) - (heights[order][1:] + heights[order][:-1]) / 2
    assert (gaps > -1e-9).all() and centers[0] == 3.0
    np.testing.assert_allclose((centers - wanted)[1:].mean(), 0, atol=1e-9)
    inside = spread_labels(wanted, heights, 0.5, 4.0)
    assert (inside - heights / 2 > 0.5 - 1e-9).all() and (inside + heights / 2 < 4.0 + 1e-9).all()


def test_long_labels_are_wrapped_at_commas_and_cut():
    assert wrap_label("norm=local,clip=higher", 12) == "norm=local,\nclip=higher"
    assert wrap_label("a=1,b=2", 12) == "a=1,b=2"
    lines = wrap_label("x" * 100, 12).split("\n")
    assert len(lines) == 3 and lines[-1].endswith("…") and max(map(len, lines)) == 12


def test_names_that_would_be_cut_to_the_same_text_lose_what_they_share():
    names = [f"preset=grpo_tcr,group_size=64,penalty={i}" for i in (1, 2)]
    assert list(wrap_labels([*names, "x"], 16, 2).values()) == ["…penalty=1", "…penalty=2", "x"]
    assert wrap_label("coefficient_of_length=0.001", 24) == "coefficient_of_length=\n0.001"  # not inside a number
