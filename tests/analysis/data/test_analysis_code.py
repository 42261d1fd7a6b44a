"""A comparison of runs that different code trained says so."""

import json

import pytest
from analysis_fixtures import write_sweep

from rlexp.analysis.data.load import load
from rlexp.analysis.stats.answer import Question, answer

A, B = "aaaaaaaa11111111", "bbbbbbbb22222222"
COMMIT = "c0ffee00c0ffee00"


@pytest.fixture
def sweep(tmp_path):
    return write_sweep(tmp_path, {"norm=local": [0.5, 0.6, 0.7], "norm=global": [0.6, 0.7, 0.8]}, steps=10)


def trained_by(folder, variant, *entries):
    for path in folder.glob(f"norm={variant},*/summary.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"code": list(entries)}))


def notes(folder):
    return [note for note in answer(load(folder), Question()).notes if "different code" in note]


def test_the_same_files_are_the_same_code_wherever_they_are(sweep):
    assert notes(sweep) == []  # runs that do not say
    trained_by(sweep, "local", {"step": 0, "files": A, "commit": COMMIT, "dirty": False})
    trained_by(sweep, "global", {"step": 0, "files": A, "commit": None, "dirty": None})
    assert notes(sweep) == []


def test_other_files_are_named_with_their_commits(sweep):
    trained_by(sweep, "local", {"step": 0, "files": A, "commit": COMMIT, "dirty": True})
    trained_by(sweep, "global", {"step": 0, "files": B})
    (note,) = notes(sweep)
    assert "commit c0ffee00+ (files aaaaaaaa): 3 runs; files bbbbbbbb: 3 runs." in note


def test_runs_that_other_code_went_on_with_are_named(sweep):
    for variant in ("local", "global"):
        trained_by(sweep, variant, {"step": 0, "files": A}, {"step": 5, "files": B})
    (note,) = notes(sweep)
    assert "files aaaaaaaa, then bbbbbbbb: 6 runs." in note
    assert list(load(sweep).runs["code"].unique()) == ["aaaaaaaa+bbbbbbbb"]


def test_code_that_is_not_known_any_more_is_named(sweep):
    trained_by(sweep, "local", {"step": 0, "files": A})
    trained_by(sweep, "global", {"step": 5, "files": A})
    (note,) = notes(sweep)
    assert "files aaaaaaaa: 3 runs; files unknown, then aaaaaaaa: 3 runs." in note


@pytest.mark.parametrize("code", ["text", [1], {"files": A}, [{}], None])
def test_damage_is_no_error(sweep, code):
    path = sweep / "norm=local,seed=0" / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"code": code}))
    assert load(sweep).problems == []
    answer(load(sweep), Question())
