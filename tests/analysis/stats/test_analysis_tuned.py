"""What tuning an arm takes: best value, plateau, ends and the best of k values, by loops on curves without scatter."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from rlexp.analysis.report.ablation import tuned_table
from rlexp.analysis.stats import ablation as ablations
from rlexp.analysis.stats.ablation import Ablation
from rlexp.analysis.stats.rates import rate_grid
from rlexp.analysis.stats.scales import Scale
from rlexp.analysis.stats.tuned import tuning_table

RATES = [0.001, 0.002, 0.004, 0.008]
SCORES = {"baseline": [0.5, 0.8, 0.7, 0.4], "clip=higher": [0.3, 0.4, 0.6, 0.9]}


def ablation(better="higher", scale="identity", scores=SCORES):
    """Two arms of three seeds that agree."""
    made, sign = Scale(scale), -1 if better == "lower" else 1
    grids = {
        arm: rate_grid(RATES, np.repeat(sign * made.forward(np.array(row))[:, None], 3, axis=1))
        for arm, row in zip((frozenset(), frozenset({0})), scores.values(), strict=True)
    }
    fields = dict.fromkeys(Ablation._fields) | {"declared": {"tune": {"key": "lr"}}, "smallest": 0.15, "grids": grids}
    return Ablation(**fields | {"metric": SimpleNamespace(better=better), "scale": made, "parts": ["clip=higher"] * 2})


def test_a_row_is_what_loops_say():
    table = tuning_table(ablation())
    first, second = table.loc["baseline"], table.loc["clip=higher"]
    assert [*first[["value", "edge", "score"]]] == pytest.approx([0.002, "", 0.8])
    assert [*second[["value", "edge", "score"]]] == pytest.approx([0.008, "high", 0.9])
    # from .8 down to .65: halfway from .5 to .8, and a sixth of the way from .7 to .4, in octaves
    ends = [0.001 * 2**0.5, 0.004 * 2 ** (1 / 6)]
    assert [*first[["plateau_low", "plateau_high"]]] == pytest.approx(ends)
    assert first["octaves"] == pytest.approx(np.log2(ends[1] / ends[0])) and first["plateau_open"] == ""
    assert second["plateau_low"] == pytest.approx(0.004 * 2**0.5) and second["plateau_open"] == "high"
    for arm, row in SCORES.items():
        for k in range(1, 5):
            expected = np.mean([max(each) for each in combinations(row, k)])
            assert table.loc[arm, f"best_of_{k}"] == pytest.approx(expected)


def test_scores_are_in_the_metrics_units_and_costs_are_best_where_they_are_low():
    shares = tuning_table(ablation(scale="log-odds"))
    assert shares.loc["baseline", "score"] == pytest.approx(0.8) == shares.loc["baseline", "best_of_4"]
    odds = Scale("log-odds").forward(np.array(SCORES["baseline"])).mean()
    assert shares.loc["baseline", "best_of_1"] == pytest.approx(float(Scale("log-odds").inverse(odds)))
    costs = tuning_table(ablation("lower", scores={arm: [1 - each for each in row] for arm, row in SCORES.items()}))
    np.testing.assert_allclose(1 - costs["score"], tuning_table(ablation())["score"])


def test_ends_of_intervals_are_in_order_where_less_is_better():
    found = ablation("lower")
    noise = np.random.default_rng(3).normal(scale=0.02, size=(4, 3))
    grids = {arm: grid._replace(values=grid.values + noise) for arm, grid in found.grids.items()}
    table = tuning_table(found._replace(grids=grids))
    assert (table["score_low"] < table["score"]).all() and (table["score"] < table["score_high"]).all()


def test_printed_ends_that_the_plateau_reaches_are_marked():
    rows = {row[0]: row[1:] for row in tuned_table(ablation()).rows}
    assert rows["baseline"] == ["0.0014 to 0.0045", "1.7", "0.600", "0.717", "0.775", "0.800"]
    assert rows["clip=higher"][:2] == ["0.0057 to ≥ 0.008", "≥ 0.5"]


@pytest.mark.parametrize(
    ("baseline", "part", "word"),
    [
        ([0.5, 0.8, 0.7, 0.4], [0.1, 0.2, 0.3, 0.2], "hurts"),
        ([0.5, 0.8, 0.7, 0.4], [0.1, 0.2, 0.3, 0.5], "open"),  # the part may be better beyond the grid
        ([0.1, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.5], "helps"),  # and still more so
        ([0.1, 0.2, 0.3, 0.5], [0.5, 0.8, 0.7, 0.4], "open"),  # the baseline may be
        ([0.1, 0.2, 0.3, 0.5], [0.1, 0.3, 0.3, 0.1], "hurts"),
        ([0.1, 0.2, 0.3, 0.5], [0.1, 0.2, 0.3, 0.5], "open"),
        ([0.1, 0.3, 0.3, 0.1], [0.1, 0.3, 0.3, 0.1], "no material effect"),
    ],
)
def test_no_word_is_said_that_rates_beyond_the_grid_would_undo(monkeypatch, baseline, part, word):
    monkeypatch.setattr(ablations, "speed_of", lambda *_: (np.nan, np.nan, np.nan, False))
    found = ablation(scores={"baseline": baseline, "clip=higher": part})._replace(parts=["clip=higher"])
    declared = {**found.declared, "designs": ["add-one"], "order": None}
    effects = ablations.effects_of(found._replace(levels=tuning_table(found), declared=declared))
    assert effects.set_index("kind").loc["added first", "word"] == word
