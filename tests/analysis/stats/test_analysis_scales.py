"""Scales of effects: back and forth, at their ends, in words, and by the names of docs/metrics.md."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logit

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.scales import AMOUNTS, COUNT, REWARDS, SHARES, SIGNED, Scale, headroom, scale_name, scale_of

METRICS = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8").replace(r"\|", "")
SHARE = scale_of("eval/sampled_accuracy")
SCALES = [SHARE, scale_of("eval/exact/accuracy", attainable=0.9), scale_of("eval/length"), Scale("identity")]
SCALES.append(scale_of("eval/reward", start_sd=2.0))


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
def test_values_come_back(scale):
    values = np.array([0.0, 0.002, 0.3, 0.5, 0.9, 0.9]) + (0.001 if scale.name == "log" else 0)
    scaled = scale.forward(values)
    assert scale.inverse(scaled) == pytest.approx(values)
    assert (np.diff(scaled)[:-1] > 0).all() and np.isfinite(scaled).all()


def test_log_odds_are_those_of_counts_with_half_a_completion_more():
    right = np.arange(9)
    assert scale_of("eval/pass@4", count=8).forward(right / 8) == pytest.approx(np.log((right + 0.5) / (8.5 - right)))
    middle = np.linspace(0.05, 0.95, 19)
    assert SHARE.forward(middle) == pytest.approx(logit(middle), abs=0.01)


def test_the_half_takes_away_bias():
    """The mean log-odds of samples: 1/(24 m²)-like bias with the half (Anscombe 1956), ten times that by clipping."""
    rng, m, true = np.random.default_rng(0), 64, 0.9
    shares = rng.binomial(m, true, 200_000) / m
    corrected = scale_of("eval/sampled_accuracy", count=m).forward(shares).mean() - logit(true)
    clipped = logit(np.clip(shares, 0.5 / m, 1 - 0.5 / m)).mean() - logit(true)
    assert abs(corrected) < 0.01 < 0.05 < abs(clipped)


@pytest.mark.parametrize(("level", "points"), [(0.5, 6.2), (0.9, 2.0), (0.95, 1.1)])
def test_the_smallest_effect_that_counts_in_points(level, points):
    assert SHARE.smallest == 0.25
    assert 100 * SHARE.change(SHARE.smallest, level) == pytest.approx(points, abs=0.06)


def test_smallest_effects_of_the_other_scales():
    assert scale_of("eval/length").smallest == pytest.approx(np.log(1.25))
    assert scale_of("eval/reward", start_sd=3.0).smallest == 0.2
    assert np.isnan(scale_of("loss/total").smallest)


def test_effects_are_shown_in_natural_units():
    assert SHARE.show(0.25, 0.1, 0.4, 0.5) == "+6.2 points [+2.5, +9.9] at .5"
    assert SHARE.show(-0.25, -0.4, 0.0, 0.9) == "−2.5 points [−4.2, +0.0] at .9"
    assert scale_of("eval/length").show(np.log(1.25), np.log(1.1), np.log(1.4), 12) == "×1.25 [1.10, 1.40] at 12"
    assert scale_of("eval/reward", start_sd=2.0).show(0.2, -0.1, 0.5, 3.0) == "+0.4 [−0.2, +1]"
    assert Scale("identity").show(0.012, -0.01, 0.034, 0.0) == "+0.012 [−0.01, +0.034]"


def test_ceiling_and_floor():
    """Of 1,024 completions 3 may be wrong unseen: the end is .997, and .995 and more is nearer to it than .5."""
    levels = {0.5: (False, False), 0.98: (False, False), 0.996: (True, False), 1.0: (True, False), 0.003: (False, True)}
    for level, flags in levels.items():
        assert headroom(SHARE, level, 0.25)[2:] == flags, level
    capped = scale_of("eval/exact/accuracy", attainable=0.9)
    assert headroom(capped, 0.8999, 0.25).ceiling and not headroom(capped, 0.85, 0.25).ceiling
    assert headroom(SHARE, 0.8, 0.25, highest=0.85).above == pytest.approx(logit(0.85) - logit(0.8), abs=0.01)
    length = scale_of("eval/length")
    assert headroom(length, 12, length.smallest) == (np.inf, np.inf, False, False)
    assert headroom(length, 12, length.smallest, lowest=10, highest=16)[2:] == (True, True)
    assert headroom(length, 12, length.smallest, lowest=1, highest=32)[2:] == (False, False)


def named_with_units():
    """Metric and unit of each row of docs/metrics.md."""
    rows = re.findall(r"^\| `([^`]+)` \| .* \| ([^|]*) \| [^|]* \| [^|]* \| [^|]* \|$", METRICS, re.MULTILINE)
    return [(name.replace("<k>", "8").replace("<q>", "1"), unit.strip()) for name, unit in rows if "<comp" not in name]


@pytest.mark.parametrize(("metric", "unit"), named_with_units())
def test_a_metric_has_the_scale_of_its_unit(metric, unit):
    found = scale_name(metric)
    if unit == "share" and metric != "value/explained_variance":
        assert found == "log-odds"
    elif unit in ("tokens", "s", "nats", "nats a completion", "completions", "calls", "updates", "steps"):
        expected = ("identity",) if metric.startswith(("kl/ref_k1", "pairs/margin", "data/age")) else ("log",)
        assert found in expected or metric == "step"
    else:
        assert found != "log-odds"


def test_every_beginning_is_that_of_a_metric_or_a_cost():
    names = [metric for metric, _ in named_with_units()]
    own = ("eval/exact/hard", "eval/exact/easy", "eval/exact/right", "eval/exact/gold")  # components
    costs = ("steps", "updates", "rollouts", "tokens", "verdicts")
    for beginning in {*SHARES, *AMOUNTS, *REWARDS, *SIGNED} - {*own, *costs}:
        assert any(name.startswith(beginning) for name in names), beginning


def test_a_budget_or_target_changes_no_scale():
    assert scale_name("eval/sampled_accuracy at equal rollouts") == "log-odds"
    assert scale_name("rollouts at eval/sampled_accuracy ≥ 0.9") == "log"
    assert scale_name("curve/speed") == scale_name("collapsed") == "identity"


def test_what_has_no_place_on_a_scale_is_refused():
    for values, said in (([0.5, 1.2], "no share"), ([-0.1], "no share")):
        with pytest.raises(AnalysisError, match=said):
            SHARE.forward(values)
    with pytest.raises(AnalysisError, match="no log"):
        scale_of("eval/length").forward([-1.0])
    for start_sd in (None, 0.0, np.nan):
        with pytest.raises(AnalysisError, match="must be above 0"):
            scale_of("eval/reward", start_sd=start_sd)
    with pytest.raises(AnalysisError, match="at least 1"):
        scale_of("eval/pass@8", count=0.5)
    with pytest.raises(AnalysisError, match="at most 1"):
        scale_of("eval/pass@8", attainable=1.2)
    assert scale_of("eval/exact/accuracy").count > scale_of("eval/pass@8").count == COUNT
    assert scale_of("eval/length").forward([np.inf, 0.0])[0] == np.inf
