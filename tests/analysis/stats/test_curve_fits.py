"""Fitted curves: against scipy, and whether they foretell what comes."""

import numpy as np
import pytest
from learning_curves import X, exponential, sigmoid
from scipy.optimize import curve_fit

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.run_values import saturation
from rlexp.analysis.stats import endpoints
from rlexp.analysis.stats.curve_fits import check_forecast, fit_curve, fit_sigmoid


@pytest.mark.parametrize(("mid", "steepness"), [(5.0, 1.0), (15.0, 2.5), (40.0, 3.0), (20.0, 0.9)])
def test_a_sigmoid_without_noise_is_found_again(mid, steepness):
    x = np.linspace(0, 100, 41)
    fit = fit_sigmoid(x, sigmoid(x, mid=mid, steepness=steepness), 1)
    np.testing.assert_allclose(fit[1:5], [0.2, 0.8, mid, steepness], rtol=1e-4)  # least_squares stops at 1e-8
    np.testing.assert_allclose(fit.predict(x), sigmoid(x, mid=mid, steepness=steepness), atol=1e-6)
    falling = fit_sigmoid(x, -sigmoid(x, mid=mid, steepness=steepness), -1)
    assert falling.asymptote == pytest.approx(-0.8, rel=1e-4) and not falling.missing


def test_with_noise_it_is_as_near_as_least_squares_and_one_wild_value_moves_it_less():
    """scipy's plain fit from the truth; a tenth of the SD of an asymptote over seeds (0.02) is as good as the same."""
    x, rng = np.linspace(0, 100, 41), np.random.default_rng(4)
    ours, plain, robust, moved = [], [], [], []
    for _ in range(30):
        values = sigmoid(x) + 0.02 * rng.normal(size=x.size)
        best, _ = curve_fit(sigmoid, x, values, (0.2, 0.8, 20.0, 1.5))
        ours.append(fit_sigmoid(x, values).asymptote)
        plain.append(best[1])
        values[35] = 0.0
        robust.append(fit_sigmoid(x, values).asymptote)
        moved.append(curve_fit(sigmoid, x, values, (0.2, 0.8, 20.0, 1.5), maxfev=20_000)[0][1])
    assert np.mean(ours) == pytest.approx(0.8, abs=0.01) and np.std(ours) < 1.3 * np.std(plain)
    assert np.abs(np.subtract(robust, ours)).mean() < 0.3 * np.abs(np.subtract(moved, plain)).mean()


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        (sigmoid(X)[:7], "too few evaluations"),
        (sigmoid(X, mid=300.0), "too far from its asymptote"),
        (0.5 + 0.05 * np.random.default_rng(5).normal(size=X.size), "no rise"),
        (np.full(X.size, 0.5), "no rise"),
        (-sigmoid(X), "no rise"),
    ],
)
def test_a_sigmoid_that_does_not_tell_says_why(values, missing):
    assert fit_sigmoid(X[: values.size], values, 1).missing == missing


def test_an_exponential_is_that_of_the_curve_metrics():
    values = exponential(X) + 0.02 * np.random.default_rng(6).normal(size=X.size)
    fit, known = fit_curve(X, values, "exponential", 1), saturation(X, values, 1)
    assert (fit.start, fit.asymptote, fit.half, fit.missing) == tuple(known)
    np.testing.assert_allclose(fit.predict(X), exponential(X, known.start, known.asymptote, known.half), rtol=1e-12)


def test_a_fit_is_believed_where_it_foretells_better_than_the_last_value():
    fine = np.linspace(0, 100, 41)
    rising = check_forecast(fine, exponential(fine, half=20.0), "exponential")
    assert rising.believed and rising.error < 0.01 < rising.carried
    for form in endpoints.FORMS:
        broken = np.where(fine <= 50, exponential(fine, half=10.0), 0.75)  # it comes down after what is fitted
        found = check_forecast(fine, broken + 0.2 * (fine <= 50) * (fine > 30) * (fine - 30) / 20, form)
        assert not found.believed, form
    assert not check_forecast(X[:5], exponential(X[:5])).believed
    assert not check_forecast(X, np.full(X.size, np.nan)).believed
    with pytest.raises(AnalysisError, match="above 0 and below 1, and not 1"):
        check_forecast(X, exponential(X), share=1.0)
