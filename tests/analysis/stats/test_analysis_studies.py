"""Studies: identities, texts that were changed, and how many seeds would settle what is open."""

import numpy as np
import yaml
from analysis_fixtures import random_scores, write_sweep

from rlexp.analysis import load
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.significance import seeds_for_effect

NAMES = ["norm=a", "norm=b"]


def study_of(folder, study):
    """Put a study into the configuration of every run of a sweep, and the command that ran it on record."""
    for path in folder.glob("*/config.yaml"):
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"study": study}))
    record = {"hydra": {"overrides": {"task": ["study=x"], "hydra": []}}}
    (folder / "multirun.yaml").write_text(yaml.safe_dump(record))


def test_an_identity_is_judged_by_rows_and_asks_for_no_p(tmp_path):
    same = {"norm=a": [0.5] * 8, "norm=b": [0.5] * 8, "norm=c": list(0.8 + 0.01 * np.arange(8))}
    folder = write_sweep(tmp_path / "sweep", same, steps=4)
    for path in folder.glob("norm=b,*/metrics.jsonl"):
        path.write_text((folder / path.parent.name.replace("norm=b", "norm=a") / "metrics.jsonl").read_text())
    identical = [{"variant": f"norm={name}", "direction": "identical"} for name in "bc"]
    study_of(folder, {"name": "x", "baseline": "norm=a", "expect": identical})
    result = answer(load(folder), Question())
    assert [(each.verdict, each.n) for each in result.verdicts] == [("reproduced", 8), ("not reproduced", 8)]
    assert result.verdicts[0].reason == "8/8 pairs of runs have the same rows"
    assert "0/8 pairs of runs have the same rows; seed 0: step " in result.verdicts[1].reason
    assert result.comparisons[0].family == 2


def test_a_study_whose_text_was_changed_is_not_judged(tmp_path):
    folder = write_sweep(tmp_path / "sweep", random_scores(NAMES, 8), steps=4)
    study_of(folder, {"name": "x", "baseline": NAMES[0], "expect": [{"variant": NAMES[1], "direction": "higher"}]})
    assert answer(load(folder), Question()).verdicts
    path = next(folder.glob("*seed=3/config.yaml"))
    path.write_text(path.read_text().replace("higher", "lower"))
    result = answer(load(folder), Question())
    assert not result.verdicts and "its text was changed after some of its runs were trained" in result.no_verdict


def test_what_is_underpowered_says_how_many_seeds_would_settle_it(tmp_path):
    rng = np.random.default_rng(0)
    scores = {NAMES[0]: [0.5] * 10, NAMES[1]: list(0.51 + 0.05 * rng.normal(size=10))}
    folder = write_sweep(tmp_path / "sweep", scores, steps=4)
    claim = {"variant": NAMES[1], "direction": "higher", "minimum_effect": 0.03}
    study_of(folder, {"name": "x", "baseline": NAMES[0], "expect": [claim]})
    (verdict,) = answer(load(folder), Question()).verdicts
    sd = np.std(np.subtract(scores[NAMES[1]], 0.5), ddof=1)
    assert verdict.verdict == "underpowered"
    assert verdict.reason.endswith(f"; about {seeds_for_effect(0.03, sd)} seeds would settle it")


def test_what_is_near_the_smallest_that_counts_says_how_many_seeds_would_tell_it_from_that(tmp_path):
    noise = np.tile([-0.01, 0.01], 6)
    scores = {NAMES[0]: [0.5] * 12, NAMES[1]: list(0.5 + 0.027 + noise)}
    folder = write_sweep(tmp_path / "sweep", scores, steps=4)
    claim = {"variant": NAMES[1], "direction": "higher", "minimum_effect": 0.03}
    study_of(folder, {"name": "x", "baseline": NAMES[0], "expect": [claim]})
    (verdict,) = answer(load(folder), Question()).verdicts
    sd = np.std(noise, ddof=1)
    assert verdict.verdict == "underpowered" and seeds_for_effect(0.03, sd) < 12
    assert verdict.reason.endswith(f"; about {seeds_for_effect(0.003, sd)} seeds would settle it")
