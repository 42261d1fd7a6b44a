"""A record cannot be shopped for: what a lucky draw of the submitter's own made is none until a second draw says so."""

import hashlib
import json
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from speedruns import LATER, TINY, drawn, invented, numbers, recipe_of_tiny, tiny  # noqa: F401 (a fixture)

from rlexp.core.exits import RunFailed
from rlexp.speedrun.__main__ import main
from rlexp.speedrun.race import check_committed, draw_again, recipe_of
from rlexp.speedrun.records import build, compare, current_record, draw_seeds, records_of, table, write

pytestmark = pytest.mark.slow  # much is composed

WORSE = [300] * 10


def chance(recipe, seeds, folder=None, threads=None):
    """Completions that no recipe has an effect on."""
    texts = [f"{recipe.changes} {seed}" for seed in seeds]
    completions = [int(hashlib.sha256(text.encode()).hexdigest(), 16) % 1000 for text in texts]
    return completions, ["0"] * len(seeds)


@pytest.fixture
def first(tiny, monkeypatch, tmp_path):
    """A confirmed record in a folder, in a world in which nothing but chance decides."""
    monkeypatch.setattr("rlexp.speedrun.race.train", chance)
    monkeypatch.setattr("rlexp.speedrun.race.token_hex", lambda _: "a text that nobody could know")
    for module in ("recipe", "race"):  # read once, so that the tests are fast
        monkeypatch.setattr(f"rlexp.speedrun.{module}.read_recipe", lambda _, words: recipe_of_tiny(*words))
    monkeypatch.chdir(tmp_path)
    record = drawn(invented("lr=0.1"))
    write(record, tmp_path / "records")
    return record


def lucky_hyperparameter(record):
    """Turn a bound that nothing reaches until ten seeds of the submission are lucky."""
    before = recipe_of(record)
    recipe = recipe_of_tiny("lr=0.2", "advantage_clip=1000.0")
    for turn in range(5000):
        changes = recipe.changes | {"advantage_clip": 1000.0 + turn}
        seeds = draw_seeds("tiny", changes, record.mark)
        if compare(*(chance(each, seeds)[0] for each in (recipe._replace(changes=changes), before))).beats:
            return f"advantage_clip={1000.0 + turn}"
    raise AssertionError("never lucky")


def test_a_hyperparameter_that_does_nothing_turned_until_it_is_lucky_makes_no_record(first, capsys):
    hyperparameter = lucky_hyperparameter(first)
    assert main(["tiny", "lr=0.2", hyperparameter, "--record", "--records", "records"]) == 0
    known = records_of(TINY, Path("records"))
    assert known[-1].p < 0.01 and current_record(known).name == "tiny-1"
    shown = "\n".join(table(TINY, known))
    assert shown.index("| tiny-1 |") < shown.index("Not confirmed, and so no records") < shown.index("| tiny-2 |")
    assert main(["--confirm", "tiny-2", "--by", "somebody", "--records", "records"]) == 10
    assert "is not shown to beat tiny-1 on 1 second draw: p = " in capsys.readouterr().out
    assert current_record(records_of(TINY, Path("records"))).name == "tiny-1"
    with pytest.raises(SystemExit):
        main(["tiny", hyperparameter, "lr=0.2", "--records", "records"])
    assert f"{hyperparameter} lr=0.2: is the recipe of tiny-2" in capsys.readouterr().err


def test_an_idle_entry_in_the_changes_of_a_file_gives_seeds_that_are_found_out(first):
    """Its seeds follow from its changes and its numbers come out again; only the recipe does not change that."""
    changes = {"lr": 0.2, "luck": 7}
    honest = invented("lr=0.2", known=[first])
    seeds = draw_seeds("tiny", changes, first.mark)
    write(replace(honest, changes=changes, **vars(numbers(seeds, before=LATER))), Path("records"))
    for question in (["--verify", "tiny-2"], ["--confirm", "tiny-2", "--by", "somebody"]):
        with pytest.raises(SystemExit) as end:
            main([*question, "--records", "records"])
        assert end.value.code == 1
    with pytest.raises(RunFailed, match=r"tiny-2: its recipe changes .* but its seeds are of .*'luck': 7"):
        recipe_of(records_of(TINY, Path("records"))[-1])


def test_a_recipe_that_is_no_better_is_confirmed_once_in_a_hundred_times_however_often_it_is_drawn():
    """Half of it by the first draw (5 of 1,024), a quarter at most by the second, and so on."""
    trials, draws = 10_000, 5
    differences = np.random.default_rng(0).integers(-(10**9), 10**9, (trials, 10 * draws))
    found = np.zeros((trials, draws), bool)
    for draw in range(draws):
        seeds = 10 * (draw + 1)
        part = differences[:, :seeds]
        ranks = np.sign(part) * (np.abs(part).argsort(axis=1).argsort(axis=1) + 1)
        far = ranks.sum(axis=1) > 2 * (seeds * (seeds + 1) * (2 * seeds + 1) / 6) ** 0.5  # others are at p > .04
        for trial in np.flatnonzero(far):
            found[trial, draw] = compare([0] * seeds, part[trial].tolist(), draw + 1).beats
    ever = np.logical_or.accumulate(found, axis=1).mean(axis=0)
    error = 3 * (0.01 / trials) ** 0.5  # three standard errors of a share of .01
    assert abs(ever[0] - 5 / 1024) < error and ever[0] < ever[-1] < 0.01 + error


def test_all_second_draws_count_and_each_makes_the_next_stricter(first):
    good = drawn(invented("lr=0.2", known=[first]))
    assert good.comparison == (True, pytest.approx(2 / 1024))
    mixed = drawn(good, completions=WORSE)
    assert not mixed.comparison.beats and mixed.second[0] == [100] * 10 + WORSE
    again = drawn(good)
    assert again.comparison == (True, pytest.approx(2 * 2 / 2**20))
    slight = [number - 1 for number in LATER[:9]] + [LATER[9] + 1]
    assert compare(slight, LATER).p * 2 == pytest.approx(compare(slight, LATER, 2).p)


def test_a_draw_counts_from_when_its_seeds_are_known_and_none_can_be_taken_away(first):
    good = drawn(invented("lr=0.2", known=[first]))
    begun = draw_again(good, "somebody")
    assert not begun.comparison.beats and current_record([first, begun]) is first
    folder = Path("records")
    write(drawn(drawn(good, WORSE)), folder)
    values = json.loads((folder / "tiny-2.json").read_text())
    (folder / "tiny-2.json").write_text(json.dumps(values | {"draws": values["draws"][::2]}))
    with pytest.raises(RunFailed, match="tiny-2.json: second draw 2 has other seeds than its submission gives"):
        records_of(TINY, folder)


def test_a_draw_that_was_interrupted_goes_on_with_its_seeds(first, monkeypatch, capsys):
    write(invented("lr=0.2", known=[first]), Path("records"))

    def killed(*_):
        raise RunFailed("killed")

    monkeypatch.setattr("rlexp.speedrun.race.train", killed)
    command = ["--confirm", "tiny-2", "--by", "somebody", "--records", "records"]
    with pytest.raises(SystemExit):
        main(command)
    (begun,) = records_of(TINY, Path("records"))[-1].draws
    assert begun.completions == [] and begun.entropy and begun.by == "somebody"
    monkeypatch.setattr("rlexp.speedrun.race.train", chance)
    monkeypatch.setattr("rlexp.speedrun.race.token_hex", lambda _: "other chance")
    main(command)
    (ended,) = records_of(TINY, Path("records"))[-1].draws
    assert asdict(ended) | {"completions": [], "rows": []} != asdict(begun) and ended.seeds == begun.seeds
    assert ended.build == build() and "on 1 second draw" in capsys.readouterr().out


def test_what_is_not_committed_yet_takes_no_second_draw(tmp_path):
    def git(*words):
        user = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", tmp_path, *user, *words], check=True, capture_output=True)

    file = write(invented("lr=0.1"), tmp_path)
    git("init")
    for step in (["add", "."], ["commit", "-m", "a"]):
        with pytest.raises(RunFailed, match="tiny-1.json: is not as committed; a second draw comes after"):
            check_committed(file)
        git(*step)
    check_committed(file)
    file.write_text(file.read_text().replace("2026", "2025"))
    with pytest.raises(RunFailed, match="is not as committed"):
        check_committed(file)
