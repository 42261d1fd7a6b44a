"""The size ladder: forecast before the largest trains, score after it, with sizes and steps that take seconds."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import ladder

pytestmark = pytest.mark.rare  # whole ablations


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A ladder of three sizes and two parts, and a folder for its results."""
    monkeypatch.setattr(ladder, "SIZES", {"a": ("model=llama_10k",), "b": ("model=gru",), "c": ("model=llama_10k",)})
    monkeypatch.setattr(ladder, "PARTS", ("norm=center", "agg=sequence"))
    tiny = ("start=random", "steps=2", "group_size.completions=2", "eval.prompts=4", "minibatches=1", "threads=1")
    shared = [each for each in ladder.WORLD if each.partition("=")[0] not in {part.partition("=")[0] for part in tiny}]
    monkeypatch.setattr(ladder, "WORLD", (*(each for each in shared if not each.startswith("start.")), *tiny))
    monkeypatch.setattr(ladder, "DESIGN", ("--add-one", "--starts", "3", "--seeds", "1"))
    monkeypatch.setattr(ladder, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(ladder, "FORECAST", tmp_path / "results" / "forecast.json")
    monkeypatch.setattr(ladder, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["ladder", "--runs", str(tmp_path / "runs")])
    return tmp_path


def test_the_largest_waits_until_the_forecast_is_committed(small, monkeypatch):
    with pytest.raises(SystemExit, match="forecast.json: commit it, then run the same command again to train c"):
        ladder.main()
    assert not (small / "runs" / "c").exists()
    forecast = json.loads(ladder.FORECAST.read_text())
    monkeypatch.setattr(ladder, "committed", lambda file: True)
    ladder.main()
    assert json.loads(ladder.FORECAST.read_text()) == forecast
    assert "forecast" in (small / "results" / "score.txt").read_text()
    assert {"transfer.json", "transfer.svg", "score.csv"} <= {file.name for file in (small / "results").iterdir()}
    for size in "abc":
        assert list((small / "results" / size).glob("*.parquet"))
