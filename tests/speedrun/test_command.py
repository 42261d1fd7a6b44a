"""The command from a first record to one that beats it, its verification, and how it ends."""

import json
from importlib import import_module
from pathlib import Path

import pytest
from speedruns import tiny  # noqa: F401 (a fixture)

from rlexp.speedrun import race
from rlexp.speedrun.__main__ import main
from rlexp.speedrun.records import build, machine

# apart enough for any ten seeds (1,000 draws out of 120 were tried): which are drawn depends on the commit
FAST, SLOW = "lr=5.0", "lr=0.2"


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


@pytest.mark.rare  # trains records
def test_a_recipe_becomes_a_record_and_another_beats_it(run):
    code, out, _ = run("tiny", SLOW)
    assert code == 0 and out[-1] == f"yes: {SLOW}: it is the first of its world; --record submits it"
    assert not Path("records").exists()
    trained = {file: file.stat().st_mtime_ns for file in Path("runs/speedrun").rglob("metrics.jsonl")}
    code, out, _ = run("tiny", SLOW, "--record")
    assert code == 0 and out[-1].endswith(" somebody else has confirmed it: records/tiny-1.json")
    assert trained == {file: file.stat().st_mtime_ns for file in Path("runs/speedrun").rglob("metrics.jsonl")}
    assert run("tiny", SLOW)[::2] == (2, [f"{SLOW}: is the recipe of tiny-1"])
    first = ["tiny-1 comes first: rlexp speedrun --confirm tiny-1 --by NAME"]
    assert run("tiny", FAST, "--record")[::2] == (2, first)
    code, out, _ = run("--confirm", "tiny-1", "--by", "somebody")
    assert code == 0 and out[-1].startswith(f"yes: {SLOW}: it is the first of its world on 1 second draw; written: ")
    code, out, _ = run("tiny", FAST, "--record")
    assert code == 0 and out[-1].startswith(f"yes: {FAST} beats tiny-1: p = 0.00")
    assert out[-1].endswith("; a record once somebody else has confirmed it: records/tiny-2.json")
    followed = ["tiny-1: tiny-2 has followed it; only the last takes another draw"]
    assert run("--confirm", "tiny-1", "--by", "somebody")[::2] == (2, followed)
    code, out, _ = run("--confirm", "tiny-2", "--by", "somebody")
    assert code == 0 and out[0].split() == ["seed", "recipe", "tiny-1"], (code, out)
    assert out[-1].startswith(f"yes: {FAST} beats tiny-1 on 1 second draw: p = 0.00")
    assert out[-1].endswith("; written: records/tiny-2.json")
    assert not {*stored("tiny-2")["seeds"]} & {*stored("tiny-2")["draws"][0]["seeds"]}


@pytest.mark.rare  # trains records
def test_a_recipe_that_is_no_better_is_no_record_and_a_record_is_trained_again_bit_by_bit(run):
    assert run("tiny", SLOW, "--record")[0] == run("--confirm", "tiny-1", "--by", "somebody")[0] == 0
    code, out, _ = run("tiny", SLOW, "grad_clip=1.1", "--record")
    assert code == 10 and " is not shown to beat tiny-1: p = " in out[-1] and not Path("records/tiny-2.json").exists()
    here = machine(build())
    code, out, _ = run("--verify", "tiny-1")
    assert code == 0 and out == [
        f"own seeds: the same bit by bit; it was trained on {here}",
        f"second draw 1: the same bit by bit; it was trained on {here}",
        f"yes: tiny-1 comes out again; this is {here}",
    ]
    change_record(rows=lambda rows: ["0" * 64, *rows[1:]], draws=lambda _: [])
    code, out, _ = run("--verify", "tiny-1")
    assert code == 10 and "as many completions, but not the same metrics bit by bit" in out[0]
    assert out[-1].startswith("no: tiny-1 does not come out again; this is ")
    change_record(build=lambda build: build | {"cpu": "another"})
    code, out, _ = run("--verify", "tiny-1")
    assert code == 11 and out[0].startswith("own seeds: note: cpu another before and ")
    assert out[-1].startswith("open: tiny-1 differs, but so do code or machine; its code is ")
    change_record(config=lambda config: config | {"grad_clip": 2.0})
    code, out, _ = run("--verify", "tiny-1")
    assert code == 11 and "another configuration by now: grad_clip was 2.0 and is 1.0" in out[0]


def stored(name):
    return json.loads(Path(f"records/{name}.json").read_text())


def change_record(**changes):
    values = stored("tiny-1")
    changed = {key: change(values[key]) for key, change in changes.items()}
    Path("records/tiny-1.json").write_text(json.dumps(values | changed))


@pytest.mark.slow
def test_runs_that_diverge_never_arrive_and_discarded_completions_count(run):
    code, out, _ = run("tiny", "filter=dynamic", "lr=1e38")
    assert code == 10 and out[-2].split() == ["arrived", "0/10"]
    assert out[-1].endswith(": half of its runs or more never arrive")
    (folder,) = Path("runs/speedrun").iterdir()
    rows = [json.loads(file.read_text().splitlines()[1]) for file in folder.rglob("metrics.jsonl")]
    assert all(row["progress/completions"] == row["filter/sampled"] * 4 for row in rows)
    assert any(row["progress/completions"] > 32 for row in rows)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["tny"], "tny: no such world; did you mean tiny?"),
        (["tiny", "seed=1"], "seed=1: the world tiny fixes seed; "),
        (["--verify", "tiny-7"], "tiny-7: no such record; tiny has none"),
        (["--verify", "tiny-7", "lr=1"], "--verify: takes no world, no recipe, no --record and no other question"),
        (["--confirm", "tiny-7"], "--confirm and --by: a second draw says who made it"),
        (["--confirm", "tiny-7", "--by", "me", "--table"], "--confirm: takes no world"),
        (["tiny", "--threads", "0"], "--threads 0: must be at least 1"),
        (["tiny", "--frobnicate"], "unrecognized arguments: --frobnicate (rlexp speedrun --help)"),
    ],
)
def test_a_wrong_question_ends_in_a_line(run, words, line):
    code, out, err = run(*words)
    assert (code, out, len(err)) == (2, [], 1) and err[0].startswith(line)


def test_what_others_could_not_train_sets_no_record(monkeypatch):
    code = {"commit": "c0", "dirty": True}
    monkeypatch.setattr(race.provenance, "code", lambda: code)
    with pytest.raises(race.RunFailed, match="the code is not as committed"):
        race.check_repeatable()
    code |= {"commit": None}
    with pytest.raises(race.RunFailed, match="in a git checkout"):
        race.check_repeatable()
    code |= {"commit": "c0", "dirty": False}
    race.check_repeatable()
    monkeypatch.setenv("MKL_ENABLE_INSTRUCTIONS", "AVX2")
    with pytest.raises(race.RunFailed, match="with the usual settings; MKL_ENABLE_INSTRUCTIONS=AVX2 is set"):
        race.check_repeatable()


def test_without_words_it_prints_the_worlds(run):
    code, out, err = run()
    assert (code, err) == (0, []) and "### `tiny`" in out and "No record yet." in out
