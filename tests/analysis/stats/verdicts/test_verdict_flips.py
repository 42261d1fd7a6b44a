"""How often few seeds would have put two variants in the other order, as an expectation."""

from itertools import combinations

import numpy as np
import pytest
from study_sweeps import answered, study_sweep

SCORES = {"norm=a": np.array([0.1, 0.9, 0.3, 0.2, 0.4, 0.5]), "norm=b": np.array([0.3, 0.1, 0.6, 0.5, 0.7, 0.9])}


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_the_share_of_subsets_in_the_other_order_is_judged(tmp_path, seeds):
    ahead = np.sign((SCORES["norm=b"] - SCORES["norm=a"]).sum())
    sums = [sum((SCORES["norm=b"] - SCORES["norm=a"])[list(each)]) for each in combinations(range(6), seeds)]
    share = float(np.mean([np.sign(each) != ahead for each in sums]))
    flips = {"variant": "norm=b", "direction": "flips", "seeds": seeds}
    expect = [flips | {"value": share}, flips | {"value": share + 0.01}]
    less, more = answered(study_sweep(tmp_path, SCORES, expect)).verdicts
    assert (less.verdict, more.verdict) == ("reproduced", "not reproduced")
    assert less.estimate == more.estimate == pytest.approx(share)
    assert less.claim.startswith(f"norm=b and norm=a change places with {seeds} of the seeds, in at least ")


def test_as_many_seeds_as_there_are_say_nothing(tmp_path):
    flips = {"variant": "norm=b", "direction": "flips", "seeds": 6, "value": 0.1}
    (verdict,) = answered(study_sweep(tmp_path, SCORES, [flips])).verdicts
    assert (verdict.verdict, verdict.reason) == ("underpowered", "there are 6 seeds in all")
