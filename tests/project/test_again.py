"""Stored questions are asked again: words decide, bits are counted."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from benchmarks import again

NAME, STORED = "prompt_mean", again.ROOT / "docs" / "asked" / "prompt_mean"


@pytest.fixture
def ask(monkeypatch):
    """Answer as stored, after `change(folder)`."""

    def answers(change=lambda folder: None):
        def run(command, **_):
            folder = Path(command[command.index("--folder") + 1]) / "answer"
            shutil.copytree(STORED, folder)
            change(folder)
            return SimpleNamespace(returncode=0)

        monkeypatch.setattr(again.subprocess, "run", run)

    return answers


def test_the_same_answer_has_the_stored_words_and_bits(ask, tmp_path, capsys):
    ask()
    assert again.main([NAME, "--runs", str(tmp_path)]) == 0
    said, runs = capsys.readouterr().out, len(pd.read_parquet(STORED / "runs.parquet"))
    assert f"{runs} of {runs} runs have the stored scores, bit by bit" in said and said.count("as stored") == 2


def test_other_bits_are_counted_and_do_not_fail(ask, tmp_path, capsys):
    def change(folder):
        runs = pd.read_parquet(folder / "runs.parquet")
        runs.loc[0, "number"] += 1e-9
        runs.to_parquet(folder / "runs.parquet")

    ask(change)
    assert again.main([NAME, "--runs", str(tmp_path)]) == 0
    runs = len(pd.read_parquet(STORED / "runs.parquet"))
    assert f"{runs - 1} of {runs} runs have the stored scores" in capsys.readouterr().out


def test_another_word_is_said_and_fails(ask, tmp_path, capsys):
    def change(folder):
        answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
        answer["assertions"][0]["word"] = "contradicted"
        (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")

    ask(change)
    assert again.main([NAME, "--runs", str(tmp_path)]) == 1
    assert "assertion 1: contradicted (stored: supported)" in capsys.readouterr().out


def test_a_name_without_an_answer_is_one_line(capsys):
    assert again.main(["no_such"]) == 2
    assert capsys.readouterr().err.startswith("no_such: has no stored answer; must be one of ")
