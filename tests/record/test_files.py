"""What a run leaves behind can be read back bit by bit, and after a kill at any moment."""

import json
import math
import os
import struct

import pytest
import yaml
from omegaconf import OmegaConf

from rlexp.record.disk import Recorder, collapsed
from rlexp.record.provenance import code, identity
from rlexp.runfolder.rows import score

CONFIG = {"seed": 3, "lr": 1e-05, "grad_clip": None, "clip": {"name": "symmetric", "high": 0.28}, "tags": ["1e-4", "ü"]}
FACTS = {"name": "norm=local,seed=3", "variant": "norm=local", "seed": 3}


@pytest.fixture
def recorder(tmp_path):
    return Recorder(tmp_path, CONFIG, FACTS)


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("value", [0.1 + 0.2, 5e-324, -0.0, 1e22, struct.unpack("f", b"\x12\x34\x56\x3e")[0]])
def test_a_float_keeps_every_bit(recorder, tmp_path, value):
    recorder.write_row(1, {"loss/total": value})
    assert struct.pack("d", rows(tmp_path)[0]["loss/total"]) == struct.pack("d", value)


def test_whole_numbers_stay_whole_and_the_rest_becomes_null(recorder, tmp_path):
    recorder.write_row(0, {"progress/tokens": 2**53 + 1, "reward/mean": math.nan, "ratio/max": math.inf})
    text = (tmp_path / "metrics.jsonl").read_text()
    assert text == '{"step": 0, "progress/tokens": 9007199254740993, "reward/mean": null, "ratio/max": null}\n'


def test_rows_are_in_the_file_before_the_run_ends(recorder, tmp_path):
    for step in range(3):
        recorder.write_row(step, {"reward/mean": 0.5})
        assert [row["step"] for row in rows(tmp_path)] == list(range(step + 1))


@pytest.mark.parametrize("read", [yaml.safe_load, lambda text: OmegaConf.to_container(OmegaConf.create(text))])
def test_the_config_reads_back(recorder, tmp_path, read):
    assert read((tmp_path / "config.yaml").read_text()) == {"format": 2} | CONFIG


def test_the_summary_has_the_facts_and_the_versions(recorder, tmp_path):
    recorder.finish("completed", score=0.5, collapsed=False, final={"reward/mean": math.nan})
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert set(summary.pop("versions")) == {"rlexp", "torch", "python"}
    assert summary.pop("code") == [{"step": 0, **code()}]
    assert summary.pop("format") == 2 and summary.pop("identity") == identity(CONFIG) and summary.pop("checksum")
    assert set(summary.pop("files")) == {"metrics.jsonl", "samples.jsonl", "config.yaml"}
    ending = {"status": "completed", "reason": None, "score": 0.5, "collapsed": False, "final": {"reward/mean": None}}
    assert summary == FACTS | ending


def test_a_summary_is_written_whole_or_not_at_all(recorder, tmp_path, monkeypatch):
    def killed(*paths):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        recorder.finish("completed")
    assert not (tmp_path / "summary.json").exists()


def test_a_run_that_starts_again_leaves_nothing_of_the_old_one(recorder, tmp_path):
    recorder.write_row(0, {"reward/mean": 0.5})
    recorder.finish("completed")
    Recorder(tmp_path, CONFIG, FACTS)
    assert rows(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["code.jsonl", "config.yaml", "metrics.jsonl"]


@pytest.mark.parametrize(
    ("evaluations", "share", "expected"),
    [
        ([0.0, 1.0], 0.1, 1.0),
        ([0.0] * 8 + [0.2, 0.4], 0.1, 0.4),
        ([0.0] * 9 + [0.2, 0.4], 0.1, 0.3),
        ([0.0] * 90 + [1.0] * 10, 0.1, 1.0),
        ([0.0] * 93 + [1.0] * 7, 0.07, 1.0),
        ([0.0, 0.5, 1.0], 1.0, 0.5),
        ([0.2, 0.4], 0.0, 0.4),
        ([0.5, None], 0.1, None),
        ([0.5, math.nan], 1.0, None),
        ([None, 0.5], 0.1, 0.5),
        ([], 0.1, None),
    ],
)
def test_the_score_is_the_mean_of_the_last_evaluations(evaluations, share, expected):
    logged = [row for value in evaluations for row in ({"eval/reward": value}, {"reward/mean": 9.0})]
    assert score(logged, "eval/reward", share) == (None if expected is None else pytest.approx(expected))


def test_collapsed_means_below_the_floor():
    assert [collapsed(value, 0.2) for value in (0.19, 0.2, None)] == [True, False, None]
