"""What benchmarks.processors makes of scores by seed and processor type, and what the documents say of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from benchmarks.processors import __main__ as command
from benchmarks.processors import variance
from benchmarks.processors.page import NORMS, page, verdict

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "statistics" / "processors.txt").read_text(encoding="utf-8")
FOUND = json.loads((ROOT / "docs" / "statistics" / "processors.json").read_text(encoding="utf-8"))
TRUE = variance.Parts(seed=0.5, processor=0.2, cross=0.3)


def drawn(sweeps: int, seeds: int, processors: int, true: variance.Parts = TRUE) -> np.ndarray:
    """Numbers `[sweeps, seeds, processors]` of the model, each source normal with its variance."""
    rng = np.random.default_rng(0)
    shapes = variance.Parts((sweeps, seeds, 1), (sweeps, 1, processors), (sweeps, seeds, processors))
    return sum(np.sqrt(one) * rng.normal(size=shape) for one, shape in zip(true, shapes, strict=True))


def test_two_seeds_on_two_processors_by_hand():
    """Means of seeds 1.5 and 4.5, of processors 2 and 4, of all 3; what is left is ±0.5."""
    values = [[1.0, 2.0], [3.0, 6.0]]
    assert variance.mean_squares(values) == pytest.approx((9, 4, 1))
    assert variance.components(values) == pytest.approx((4, 1.5, 1))
    assert variance.shares(values) == pytest.approx((4 / 6.5, 1.5 / 6.5, 1 / 6.5))
    assert variance.too_narrow(values, 2)[0] == pytest.approx(np.sqrt(1 + 2 * 1.5 / 5))
    apart = 2.0, np.sqrt(2 * ((2 + 8) / 2) / 2)  # 4 − 2; variances 2 and 8 of two seeds each
    assert variance.typical_gaps(values) == pytest.approx(apart)


def test_mean_squares_and_f_are_those_of_statsmodels():
    values = drawn(1, 7, 4)[0]
    long = pd.DataFrame(values).melt(ignore_index=False, var_name="processor").rename_axis("seed").reset_index()
    table = anova_lm(ols("value ~ C(seed) + C(processor)", long).fit())
    rows = ["C(seed)", "C(processor)", "Residual"]
    assert variance.mean_squares(values) == pytest.approx(tuple(table.loc[rows, "mean_sq"]), rel=1e-9)
    effect = variance.processor_effect(values)
    assert (effect.f, effect.p) == pytest.approx(tuple(table.loc["C(processor)", ["F", "PR(>F)"]]), rel=1e-9)


def test_known_variances_come_out_on_average():
    found = variance.components(drawn(4000, 20, 5))
    for one, true in zip(found, TRUE, strict=True):
        assert abs(one.mean() - true) < 4 * one.std() / np.sqrt(one.size)


@pytest.mark.parametrize("true", [TRUE, TRUE._replace(processor=0.0), TRUE._replace(seed=0.0, processor=0.02)])
def test_the_interval_of_the_processor_holds_as_often_as_it_says(true):
    """0.025 is four binomial deviations of 1,200 sweeps; one that is cut off at a true 0 holds in 97.5 %."""
    found = [variance.processor_effect(values) for values in drawn(1200, 20, 5, true)]
    holds = np.mean([effect.low <= true.processor / true.cross <= effect.high for effect in found])
    assert holds == pytest.approx(0.95 if true.processor else 0.975, abs=0.025)


def test_a_sweep_on_one_processor_holds_as_often_as_the_factor_says():
    """0.012 is four binomial deviations of 20,000 sweeps."""
    n = 10
    values = drawn(20_000, n, 1)[..., 0]
    half = 2.262 * values.std(-1, ddof=1) / np.sqrt(n)  # t of 9 degrees
    factor = np.sqrt(1 + n * TRUE.processor / (TRUE.seed + TRUE.cross))
    assert variance.coverage(factor, n) == pytest.approx(np.mean(np.abs(values.mean(-1)) <= half), abs=0.012)
    assert variance.coverage(1.0, n) == pytest.approx(0.95)


def test_processors_that_round_alike_have_no_part_in_the_variance():
    values = np.repeat(np.random.default_rng(0).normal(size=(6, 1)), 3, axis=1)
    assert variance.shares(values) == pytest.approx((1, 0, 0))
    assert variance.components(values)[1:] == pytest.approx((0, 0), abs=1e-30)
    assert variance.too_narrow(values, 6)[0] == pytest.approx(1)
    assert variance.typical_gaps(values)[0] == pytest.approx(0, abs=1e-15)
    assert variance.shares(np.zeros((6, 3))) == (0, 0, 0)


def test_the_bootstrap_resamples_whole_seeds(monkeypatch):
    """Its interval of the share of seeds holds somewhat less often than 95 %, as with 20 seeds it must."""
    monkeypatch.setattr(variance, "RESAMPLES", 300)
    share = TRUE.seed / sum(TRUE)
    ends = [variance.share_intervals(values).seed for values in drawn(200, 20, 10)]
    assert 0.8 < np.mean([low <= share <= high for low, high in ends]) < 0.97


def test_a_type_with_the_bits_of_another_is_named():
    assert command.repeated({"one": "a", "two": "b", "three": "a"}) == {"three": "one"}


@pytest.mark.parametrize(
    ("difference", "p", "said"), [(0.1, 0.01, "better"), (-0.1, 0.01, "worse"), (0.1, 0.05, "not told apart")]
)
def test_verdicts(difference, p, said):
    assert verdict(difference, p) == said


def test_the_tables_are_of_the_stored_scores():
    assert page(FOUND) == TEXT
    assert TEXT in (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")


def test_each_stored_type_has_bits_of_its_own_and_the_same_seeds():
    own = [found["rows"] for name, found in FOUND["types"].items() if name not in FOUND["same_bits"]]
    assert len({*own}) == len(own) >= 4
    scores = [found["scores"][norm] for found in FOUND["types"].values() for norm in NORMS]
    assert all([*one] == FOUND["seeds"] for one in scores)


def test_on_the_processor_of_the_readme_they_are_its_scores():
    """Both are by an AMD with AVX-512; a table of the one may stand beside one of the other."""
    scores = FOUND["types"]["AMD AVX512"]["scores"]
    readme = json.loads((ROOT / "docs" / "readme" / "results.json").read_text(encoding="utf-8"))["ablation"]["scores"]
    assert {f"norm={norm},seed={seed}": scores[norm][seed] for norm in NORMS for seed in map(str, range(10))} == readme


@pytest.mark.parametrize("document", ["docs/get_started.md", "docs/statistics.md"])
def test_every_number_that_the_documents_say_of_it_stands_in_a_table(document):
    said = (ROOT / document).read_text(encoding="utf-8").partition("nother processor")[2]
    numbers = re.findall(r"[−+]?\d\.\d+", re.split("\n#|\n`python -m benchmarks.readme`", said)[0])
    readme = [ROOT / "docs" / "readme" / f"{name}.txt" for name in ("confirmation", "confirmation_other_processor")]
    tables = "\n".join([TEXT, *(file.read_text(encoding="utf-8") for file in readme)])
    assert not [each for each in numbers if each not in tables]


@pytest.mark.rare  # sweeps in processes of their own
def test_it_trains_what_is_missing_and_says_what_two_types_say(tmp_path, monkeypatch, capsys):
    chosen = {name: command.TYPES[name] for name in ("AVX512", "AVX2, COMPATIBLE")}
    monkeypatch.setattr(command, "TYPES", chosen)
    monkeypatch.setattr(command, "cpu", lambda: "AMD EPYC")
    words = f"--seeds 3 --steps 1 --store {tmp_path} --results {tmp_path / 'results'}"
    monkeypatch.setattr(sys, "argv", ["processors", *words.split()])
    command.main()
    stored = json.loads((tmp_path / "results" / "processors.json").read_text(encoding="utf-8"))
    assert [*stored["types"]] == [f"AMD {name}" for name in chosen] and not stored["same_bits"]
    printed = (tmp_path / "results" / "processors.txt").read_text(encoding="utf-8")
    assert capsys.readouterr().out == printed == page(stored)
    rows = {file: file.stat().st_mtime_ns for file in tmp_path.glob("steps=1/*COMPATIBLE/*/metrics.jsonl")}
    monkeypatch.setattr(command, "cpu", lambda: "Intel Xeon")
    command.main()
    both = json.loads((tmp_path / "results" / "processors.json").read_text(encoding="utf-8"))
    assert [*both["types"]] == [f"{maker} {name}" for maker in ("AMD", "Intel") for name in chosen]
    assert both["same_bits"] == {f"Intel {name}": f"AMD {name}" for name in chosen}
    assert {file: file.stat().st_mtime_ns for file in rows} == rows and len(rows) == 9


@pytest.mark.parametrize("words", ["--seeds 2", "--steps 0", "--first -1"])
def test_a_number_that_cannot_be_is_answered_in_a_line(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["processors", *words.split()])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert "must be at least" in capsys.readouterr().err
