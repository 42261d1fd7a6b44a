"""Saturating curves with known parameters are found again, and what does not tell them is left out."""

import numpy as np
import pytest
from analysis_fixtures import METRIC, write_sweep
from scipy.optimize import curve_fit
from study_sweeps import answered, numbers_of, study_sweep, write_curve

from rlexp.analysis import load
from rlexp.analysis.data.errors import NothingLeft
from rlexp.analysis.data.run_values import saturation, values_per_run

STEPS = np.arange(0, 61, 3.0)


def curve(start, asymptote, half, steps=STEPS, noise=0.0, seed=0):
    values = start + (asymptote - start) * (1 - 2.0 ** (-steps / half))
    return values + noise * np.random.default_rng(seed).normal(size=steps.size)


@pytest.mark.parametrize("half", [1.5, 4.0, 10.0, 30.0])
@pytest.mark.parametrize(("start", "asymptote"), [(0.1, 0.9), (0.6, 0.7), (5.0, 1.0)])
def test_without_noise_the_parameters_are_exact(start, asymptote, half):
    fit = saturation(STEPS + 7, curve(start, asymptote, half))
    np.testing.assert_allclose([fit.start, fit.asymptote, fit.half], [start, asymptote, half], rtol=2e-3)


@pytest.mark.parametrize(("half", "noise"), [(4.0, 0.02), (8.0, 0.05), (20.0, 0.02)])
def test_with_noise_they_are_as_near_as_least_squares_gets(half, noise):
    """The same as scipy's fit of each curve, and right on average."""
    fits, errors = [], []
    for seed in range(40):
        values = curve(0.1, 0.9, half, noise=noise, seed=seed)
        fit = saturation(STEPS, values, 1)
        best, _ = curve_fit(lambda t, a, b, h: a + (b - a) * (1 - 2.0 ** (-t / h)), STEPS, values, (0.1, 0.9, half))
        np.testing.assert_allclose([fit.start, fit.asymptote, fit.half], best, rtol=0.02, atol=2e-3)
        fits.append(fit.half)
        errors.append(fit.asymptote - 0.9)
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(40) + 0.005
    assert np.mean(fits) == pytest.approx(half, rel=0.1)


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        (curve(0.1, 0.9, 5.0)[:5], "too few evaluations"),
        (curve(0.1, 0.9, 80.0, noise=0.01), "too far from its asymptote"),
        (0.01 * STEPS, "too far from its asymptote"),
        (curve(0.5, 0.5, 5.0, noise=0.05), "no rise"),
        (np.full(STEPS.size, 0.5), "no rise"),
        (curve(0.9, 0.1, 5.0), "no rise"),
        (np.where(STEPS == 30, np.nan, curve(0.1, 0.9, 5.0)), ""),
    ],
)
def test_what_does_not_tell_is_said(values, missing):
    fit = saturation(STEPS[: len(values)], values, 1)
    assert fit.missing == missing and np.isnan(fit.asymptote) == bool(missing)


def test_a_jump_has_an_asymptote_and_no_speed():
    fit = saturation(STEPS, np.where(STEPS > 0, 0.9, 0.1), 1)
    assert fit.asymptote == pytest.approx(0.9, abs=0.01) and np.isnan(fit.half) and not fit.missing


def test_speed_and_asymptote_are_two_answers(tmp_path):
    """b is twice as fast and gets no further; one run of c does not tell."""
    expect = [
        {"variant": "norm=b", "direction": "higher", "metric": "curve/speed", "minimum_effect": 0.5},
        {"variant": "norm=b", "direction": "equal", "metric": "curve/asymptote"},
        {"variant": "norm=c", "direction": "lower", "metric": "curve/asymptote"},
    ]
    shapes = {"norm=a": (0.8, 10.0), "norm=b": (0.8, 5.0), "norm=c": (0.6, 10.0)}
    folder = study_sweep(tmp_path, {name: np.linspace(0.5, 0.6, 9) for name in shapes}, expect)
    for name, (asymptote, half) in shapes.items():
        for seed in range(9):
            values = curve(0.1, asymptote + 0.002 * (seed - 4), half, noise=0.005, seed=seed)
            write_curve(folder / f"{name},seed={seed}", STEPS, values)
    write_curve(folder / "norm=c,seed=8", STEPS, np.full(STEPS.size, 0.1))
    found = answered(folder)
    assert [each.verdict for each in found.verdicts] == ["reproduced"] * 3
    faster, equal, lower = found.verdicts
    assert faster.estimate == pytest.approx(1.0, abs=0.1) and lower.n == 8
    assert equal.minimum_effect == 0.05
    note = "Of the claims on curve/asymptote: Left out of curve/asymptote: 1 of 27 runs: 1 no rise."
    assert note in found.notes
    assert numbers_of(folder, "norm=a", metric="curve/speed")[4] == pytest.approx(-np.log2(10), abs=0.1)
    asked = answered(folder, metric="curve/asymptote").comparisons[0]
    assert asked.better == "higher" and asked.metric == "curve/asymptote"


def test_where_no_curve_tells_it_is_said_why(tmp_path):
    folder = write_sweep(tmp_path, {"norm=a": [0.5], "norm=b": [0.5]}, steps=6)
    with pytest.raises(NothingLeft, match=f"no curve of {METRIC} can be fitted: 2 too few evaluations"):
        values_per_run(load(folder), "curve/speed")
