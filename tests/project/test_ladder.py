"""The size ladder: forecast before the largest trains, score after it, with sizes and steps that take seconds."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import ladder

pytest.importorskip("transformers")  # in whose folders starts are kept
pytestmark = pytest.mark.rare  # whole ablations


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A ladder of three sizes and two parts, the last two from starts that are made first, in a folder of its own."""
    starts = ("backend=replicas", "model=llama_10k", "task=sort", "start=random")
    read = ("model=llama_10k", "start=pretrained", "start.path={starts}/b/${{start.seed}}")
    design = ("--starts", "3", "--seeds", "1")
    sizes = {
        "a": ladder.Size(("model=gru",), design),
        "b": ladder.Size(read, design, starts),
        "c": ladder.Size((*read, "lr=2e-3"), design),
    }
    world = ("steps=2", "group_size.prompts=4", "group_size.completions=2", "eval.prompts=4", "logger=none")
    chosen = ladder.Ladder(tmp_path / "results", sizes, ("norm=center", "agg=sequence"), world)
    monkeypatch.setattr(ladder, "LADDERS", {"small": chosen})
    monkeypatch.setattr(ladder, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["ladder", "small", "--runs", str(tmp_path / "runs")])
    return tmp_path


def test_the_largest_waits_until_the_forecast_is_committed(small, monkeypatch):
    with pytest.raises(SystemExit, match="forecast.json: commit it, then run the same command again to train c"):
        ladder.main()
    assert not (small / "runs" / "c").exists()
    forecast = json.loads((small / "results" / "forecast.json").read_text())
    monkeypatch.setattr(ladder, "committed", lambda file: True)
    ladder.main()
    assert json.loads((small / "results" / "forecast.json").read_text()) == forecast
    assert "forecast" in (small / "results" / "score.txt").read_text()
    assert {"transfer.json", "transfer.svg", "score.csv"} <= {file.name for file in (small / "results").iterdir()}
    for size in "abc":
        assert list((small / "results" / size).glob("*.parquet"))
