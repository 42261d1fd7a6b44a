"""The command from a first record to one that beats it, its verification, and how it ends."""

import json
from importlib import import_module
from pathlib import Path

import pytest
from speedruns import tiny  # noqa: F401 (a fixture)

from rlexp.speedrun import records
from rlexp.speedrun.__main__ import main

# apart enough for any ten seeds: which are drawn depends on the commit
FAST, SLOW = "lr=5.0", "lr=0.4"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, tiny):
    """Return a function that runs the command: exit code, what it prints, what it says beside it."""
    monkeypatch.chdir(tmp_path)
    sweep = import_module("rlexp.speedrun.race").sweep
    in_this_process = "hydra.launcher.workers=1"
    monkeypatch.setattr("rlexp.speedrun.race.sweep", lambda *words, **rest: sweep(*words, in_this_process, **rest))

    def command(*words):
        try:
            code = main([*words, "--records", "records"])
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        return code, out.splitlines(), err.splitlines()

    return command


@pytest.mark.slow
def test_a_recipe_becomes_a_record_and_another_beats_it(run):
    code, out, _ = run("tiny", SLOW)
    assert code == 0 and out[-1] == f"yes: {SLOW}: it is the first of its world; --record writes it down"
    assert not Path("records").exists()
    trained = {file: file.stat().st_mtime_ns for file in Path("runs/speedrun").rglob("metrics.jsonl")}
    code, out, _ = run("tiny", SLOW, "--record")
    assert code == 0 and out[-1].endswith("; written: records/tiny-1.json")
    assert trained == {file: file.stat().st_mtime_ns for file in Path("runs/speedrun").rglob("metrics.jsonl")}
    assert run("tiny", SLOW)[::2] == (2, [f"{SLOW}: is the recipe of tiny-1, which stands"])
    code, out, _ = run("tiny", FAST, "--record")
    assert code == 0 and out[-1].startswith(f"yes: {FAST} beats tiny-1: p = 0.00")
    assert out[-1].endswith("; written: records/tiny-2.json")
    code, out, _ = run("--verify", "tiny-2", "--draw", "any text")
    assert code in (0, 10) and out[0].split() == ["seed", "recipe", "tiny-1"] and " tiny-1: p = " in out[-1]


@pytest.mark.slow
def test_a_recipe_that_is_no_better_is_no_record(run):
    assert run("tiny", SLOW, "--record")[0] == 0
    code, out, _ = run("tiny", SLOW, "grad_clip=1.1", "--record")
    assert code == 10 and " is not shown to beat tiny-1: p = " in out[-1] and not Path("records/tiny-2.json").exists()


@pytest.mark.slow
def test_a_record_is_trained_again_bit_by_bit(run):
    assert run("tiny", SLOW, "--record")[0] == 0
    assert run("--verify", "tiny-1")[:2] == (0, ["yes: tiny-1 is the same bit by bit on its 10 seeds"])
    change_record(rows=lambda rows: ["0" * 64, *rows[1:]])
    code, out, _ = run("--verify", "tiny-1")
    assert code == 10 and "as many completions, but not the same metrics bit by bit" in out[0]
    assert out[-1] == "no: tiny-1 does not come out again"
    change_record(build=lambda build: build | {"torch": "1.0"})
    code, out, _ = run("--verify", "tiny-1")
    assert code == 11 and out[0].startswith("note: torch 1.0 before") and out[-1].startswith("open: tiny-1 is not the")
    change_record(config=lambda config: config | {"grad_clip": 2.0})
    code, out, _ = run("--verify", "tiny-1")
    assert code == 11 and "another configuration by now: grad_clip was 2.0 and is 1.0" in out[0]


def change_record(**changes):
    path = Path("records/tiny-1.json")
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {key: change(values[key]) for key, change in changes.items()}))


@pytest.mark.slow
def test_runs_that_diverge_never_arrive_and_discarded_completions_count(run):
    code, out, _ = run("tiny", "filter=dynamic", "lr=1e38")
    assert code == 10 and out[-2].split() == ["arrived", "0/10"]
    assert out[-1].endswith(": half of its runs or more never arrive")
    (folder,) = Path("runs/speedrun").iterdir()
    rows = [json.loads(line) for line in next(folder.rglob("metrics.jsonl")).read_text().splitlines()]
    assert rows[1]["progress/completions"] == rows[1]["filter/sampled"] * 4 > 32


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["tny"], "tny: no such world; did you mean tiny?"),
        (["tiny", "seed=1"], "seed=1: the world tiny fixes seed; "),
        (["--verify", "tiny-7"], "tiny-7: no such record; tiny has none"),
        (["--verify", "tiny-7", "lr=1"], "--verify: takes no world, no recipe and no --record"),
        (["tiny", "--draw", "x"], "--draw: is for --verify"),
        (["tiny", "--threads", "0"], "--threads 0: must be at least 1"),
        (["tiny", "--frobnicate"], "unrecognized arguments: --frobnicate (rlexp speedrun --help)"),
    ],
)
def test_a_wrong_question_ends_in_a_line(run, words, line):
    code, out, err = run(*words)
    assert (code, out, len(err)) == (2, [], 1) and err[0].startswith(line)


def test_what_is_not_committed_sets_no_record(run, monkeypatch):
    monkeypatch.undo()
    code = {"commit": "c0", "dirty": True}
    monkeypatch.setattr(records.provenance, "code", lambda: code)
    with pytest.raises(records.RunFailed, match="the code is not as committed"):
        records.check_committed()
    code |= {"commit": None}
    with pytest.raises(records.RunFailed, match="in a git checkout"):
        records.check_committed()


def test_without_words_it_prints_the_worlds(run):
    code, out, err = run()
    assert (code, err) == (0, []) and "### `tiny`" in out and "No record yet." in out
