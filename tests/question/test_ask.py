"""A question is trained once, goes on where it stopped, and its answer is that of the runs' scores."""

import json
import shlex
import shutil
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_runs import SHORT, SMALL

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import load
from rlexp.analysis.report.question import findings, publish
from rlexp.analysis.report.question_files import run_table
from rlexp.analysis.stats.pooling import pool
from rlexp.analysis.stats.question import QUESTION_FILE, answer
from rlexp.analysis.stats.validity import drift
from rlexp.core.errors import ConfigError
from rlexp.question import ask as asking
from rlexp.question import sweep
from rlexp.question.__main__ import main
from rlexp.question.ask import add_seeds, ask
from rlexp.runfolder.variants import run_name

pytestmark = pytest.mark.slow  # whole sweeps
TINY = [*SHORT, *SMALL, "lr=0.01"]
SEQUENCE = {"arm": "agg=sequence", "kind": "superior"}
WRITTEN = {
    "question": "Does it help to count each completion alike?",
    "source": "DAPO (arXiv 2503.14476), section 3.3",
    "assertions": [SEQUENCE, {"arm": "agg=sequence", "kind": "equivalent", "metric": "policy/entropy"}],
    "conditions": {"inner_steps": [1, 2], "temperature": [0.5, 0.8]},
    "moderators": ["inner_steps"],
    "with": TINY,
    "metric": "eval/sampled_accuracy",
    "seeds": 3,
    "secondary": ["eval/length"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("question") / "x"
    ask(WRITTEN, folder=place)
    return place


def entropies(folder, place, *overrides):
    """Of the last step of each seed, from the rows of the runs; each condition has seeds of its own."""
    seeds = range(1000 * place, 1000 * place + 3)
    files = [folder / run_name([*TINY, *overrides, f"seed={seed}"]) / "metrics.jsonl" for seed in seeds]
    return np.array([json.loads(path.read_text().splitlines()[-1])["policy/entropy"] for path in files])


def test_each_arm_is_trained_once_in_each_condition(folder):
    assert len([*folder.glob("*/summary.json")]) == 4 * 2 * 3
    written = json.loads((folder / QUESTION_FILE).read_text())
    assert written["hash"] and written["declared_at"] and len(written["cells"]) == 8


def test_effects_are_those_of_the_runs_and_the_word_is_of_the_pooled_one(folder):
    found = answer(folder)
    effects, errors = [], []
    for place, effect in enumerate(found.assertions[1].effects):
        condition = effect.condition.split(",")
        ratio = np.log(entropies(folder, place, *condition, "agg=sequence") / entropies(folder, place, *condition))
        effects.append(ratio.mean())
        errors.append(ratio.std(ddof=1) / np.sqrt(3))
        assert (effect.found.value, effect.found.error) == pytest.approx((effects[-1], errors[-1]), rel=1e-6)
    judgment = found.assertions[1].judgment
    assert judgment.pooled.estimate == pytest.approx(pool(np.array(effects), np.array(errors), 2.0).estimate)
    assert [each.name for each in judgment.moderators] == ["inner_steps"]
    assert found.secondary["metric"].tolist() == ["collapsed", "eval/length"]


def test_the_same_call_trains_nothing_again_and_another_question_is_refused(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/summary.json")}
    ask(WRITTEN, "logger=none", folder=folder)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/summary.json")} == before
    with pytest.raises(ConfigError, match="asks another question [(]seeds was"):
        ask(WRITTEN | {"seeds": 4}, folder=folder)


def test_runs_that_are_older_than_the_question_are_none_of_its(folder, tmp_path):
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copied / QUESTION_FILE).unlink()
    with pytest.raises(ConfigError, match="has runs that are older than the question; name another --folder"):
        ask(WRITTEN, folder=copied)


def test_an_arm_without_runs_ends_in_a_line(folder, tmp_path):
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    text = (copied / QUESTION_FILE).read_text()
    written = json.loads(text)
    del written["checksum"]
    written["cells"][1]["points"][0][-1] = "agg=other"
    (copied / QUESTION_FILE).write_text(json.dumps(written))
    with pytest.raises(AnalysisError, match="no run of agg=sequence in inner_steps=1,temperature=0.5 is there"):
        answer(copied)


def declared_as(folder, tmp_path, **changes):
    """The same runs with another declaration: as if they had been trained for it."""
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    written = json.loads((copied / QUESTION_FILE).read_text())
    del written["checksum"]
    written["declared"] |= changes
    (copied / QUESTION_FILE).write_text(json.dumps(written))
    return answer(copied)


def test_conditions_that_fail_a_check_are_dropped_and_named(folder, tmp_path):
    check = {"metric": "length/mean", "arm": None, "above": 1e9, "below": None}
    found = declared_as(folder, tmp_path, checks=[check], attainable=1.0)
    judgment = found.assertions[1].judgment
    assert judgment.word == "cannot answer" and len(judgment.dropped) == 4
    assert all("not manipulated: length/mean of agg=sequence is" in why for why in judgment.dropped.values())
    assert any("fail a check" in line for line in findings(found))


def test_a_metric_that_no_run_logged_drops_the_condition(folder, tmp_path):
    check = {"metric": "clip/hihg", "arm": None, "above": 0.1, "below": None}
    found = declared_as(folder, tmp_path, checks=[check])
    assert set(found.assertions[1].judgment.dropped.values()) == {"no run logged clip/hihg"}


def test_a_secondary_metric_that_no_run_logged_is_a_note(folder, tmp_path):
    found = declared_as(folder, tmp_path, secondary=["policy/entropyy", "eval/length"])
    assert set(found.secondary["metric"]) == {"collapsed", "eval/length"}
    assert "inner_steps=1,temperature=0.5: no run logged 'policy/entropyy'." in found.notes


def test_a_control_that_moved_drops_the_condition(tmp_path):
    """An entropy falls from where it began at a large learning rate, and not at one of nearly 0."""
    written = WRITTEN | {
        "conditions": {"inner_steps": [1]},
        "moderators": [],
        "assertions": [{"arm": "agg=sequence", "kind": "equivalent"}],
        "with": [each for each in TINY if not each.startswith(("lr=", "steps="))] + ["steps=8"],
        "metric": "policy/entropy",
        "controls": [{"arm": "lr=1e-9"}, {"arm": "lr=1e-9", "versus": "lr=2e-9"}],
        "seeds": 6,
        "secondary": [],
    }
    still = ask(written, folder=tmp_path / "still")
    assert not still.assertions[0].effects[0].fails
    moved = ask(written | {"controls": [{"arm": "lr=0.02"}]}, folder=tmp_path / "moved")
    (why,) = moved.assertions[0].judgment.dropped.values()
    assert why.startswith("control: lr=0.02 moved from where it began (p = ")
    condition = moved.conditions[0]
    runs = moved.data.metrics[moved.data.metrics["name"].isin(condition.names[("lr=0.02", None)][0])]
    firsts, lasts = (runs.groupby("name")["policy/entropy"].agg(place) for place in ("first", "last"))
    assert drift(condition, ("lr=0.02", None)).value == pytest.approx(np.log(np.maximum(lasts, 1e-3) / firsts).mean())


def test_a_grid_grows_by_condition_and_seeds_are_added_where_the_interval_is_wide(tmp_path, monkeypatch, folder):
    real, trained = answer(folder), []
    written = WRITTEN | {"conditions": {"inner_steps": [1, 2]}, "tune": "lr=1,2", "most_seeds": 5, "secondary": []}
    written["with"] = TINY[:-1]

    def scored(file, of_sweep, wanted, *rest):
        trained.append([*Counter(arm for arm, _ in wanted).values()])

    def found(place):
        """The first condition is best at any rate, the second at 2; errors of the second are wide."""
        state = json.loads((place / QUESTION_FILE).read_text())
        conditions, effects = [], []
        for condition, most, error in zip(state["declared"]["conditions"], (8.0, 2.0), (0.01, 0.2), strict=True):
            name, values = condition["name"], state["values"][condition["name"]]
            score = np.minimum(values, most) - 0.2 * np.maximum(np.array(values) - most, 0)
            grids = {
                arm: grid._replace(rates=np.array(values), values=np.outer(score, np.ones(3)), read=None)
                for arm, grid in real.conditions[0].grids.items()
            }
            conditions.append(real.conditions[0]._replace(name=name, values=values, grids=grids, smallest=0.1))
            effect = real.assertions[0].effects[0]
            effects.append(effect._replace(condition=name, found=effect.found._replace(error=error), fails=""))
        return real._replace(
            conditions=conditions, assertions=[real.assertions[0]._replace(effects=effects, smallest=0.3)]
        )

    monkeypatch.setattr(asking, "train_arms", scored)
    monkeypatch.setattr(asking, "answer", found)
    monkeypatch.setattr(asking, "add_seeds", lambda *given: len(trained) < 6 and add_seeds(*given))
    ask(written, folder=tmp_path / "x")
    state = json.loads((tmp_path / "x" / QUESTION_FILE).read_text())
    assert state["values"] == {"inner_steps=1": [1, 2, 4, 8, 16], "inner_steps=2": [1, 2, 4]}
    assert state["seeds"] == {"inner_steps=1": [0, 1, 2], "inner_steps=2": [1000, 1001, 1002, 1003, 1004]}
    assert trained[0] == [3] * 8 and trained[-1] == [3] * 10 + [5] * 6


def test_the_command_prints_the_answer_and_writes_the_page(folder, capsys):
    main(["--folder", str(folder)])
    out = " ".join(capsys.readouterr().out.split())
    assert "What was asked: Does it help to count each completion alike?" in out
    assert "2. agg=sequence and default have the same policy/entropy, within 25 %:" in out
    names = {path.name for path in (folder / "answer").iterdir()}
    assert {"answer.json", "answer.md", "answer.html", "secondary.csv", "assertion_1.svg", "assertion_2.png"} <= names
    words = [each["word"] for each in json.loads((folder / "answer" / "answer.json").read_text())["assertions"]]
    assert words == [each.judgment.word for each in answer(folder).assertions]


def test_the_files_are_the_same_when_they_are_written_again(folder):
    first = {path.name: path.read_bytes() for path in publish(answer(folder))}
    assert {path.name: path.read_bytes() for path in publish(answer(folder))} == first


def test_a_check_trains_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["clip_higher", "--check"])
    assert (
        "6 conditions, 2 arms (clip=symmetric, clip=higher), 8 seeds, at 3 values of lr: 288 runs"
        in capsys.readouterr().out
    )
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "error: name a question, as a YAML file, or the --folder of one that was asked (rlexp ask --help)\n"),
        (["nothing.yaml"], "nothing.yaml: cannot be read (No such file or directory); name a YAML file, or one of "),
        (
            ["covariance_clp"],
            "covariance_clp: cannot be read (No such file or directory); did you mean covariance_clip?",
        ),
        (["--folder", "nowhere"], "nowhere"),
        (["clip_higher", "steps=0"], "steps=0"),
    ],
)
def test_the_command_ends_in_one_line(tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(words)
    err = capsys.readouterr().err
    assert end.value.code == 2 and err.startswith(said) and err.count("\n") == 1
    assert not [*tmp_path.iterdir()]


def test_ctrl_c_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(asking, "train_arms", stopped)
    with pytest.raises(SystemExit) as end:
        main(["clip_higher"])
    (folder,) = (tmp_path / "runs").iterdir()
    said = shlex.split(capsys.readouterr().err.strip().removeprefix("interrupted; go on with: rlexp ask "))
    assert end.value.code == 130 and said == ["clip_higher", "--folder", f"runs/{folder.name}"]


def test_a_question_counts_starts_and_conditions_share_none(tmp_path):
    written = WRITTEN | {"conditions": {"inner_steps": [1, 2]}, "starts": 2, "seeds": 2, "secondary": []}
    written |= {"with": TINY, "moderators": []}
    found = ask(written, folder=tmp_path / "x")
    assert {effect.found.n for each in found.assertions for effect in each.effects} == {2}
    starts = {
        name.rpartition("=")[2] for each in found.conditions for points in each.names.values() for name in points[0]
    }
    assert starts == {"0", "1", "1000", "1001"} and "2 paired starts" in findings(found)[0]
    jobs = [json.loads(line) for line in (tmp_path / "x" / "jobs.jsonl").read_text().splitlines()]
    assert len({job["name"] for job in jobs}) == len(list((tmp_path / "x").glob("*/summary.json")))


def test_what_was_trained_is_not_planned_again(tmp_path, monkeypatch):
    """All that is left is one sweep; where not every arm has every seed, arms name their own."""
    swept, trained = [], set()
    monkeypatch.setattr(sweep, "run_sweep", lambda overrides, _: swept.append(overrides[1:3]))
    monkeypatch.setattr(sweep, "unfinished", lambda folder: [])
    file = tmp_path / QUESTION_FILE
    for wanted in (product(["lr=1", "lr=2"], [0, 1]), product(["lr=1"], [0, 1, 2]), product(["lr=1", "lr=4"], [2, 3])):
        sweep.train_arms(file, [], wanted, trained, "")
    sweep.train_arms(file, [], product(["lr=1"], [0, 1, 2]), trained, "")
    arms = ('["lr=1", "lr=2"]', '["lr=1"]', '["lr=1,seed=3", "lr=4,seed=2", "lr=4,seed=3"]')
    seeds = ("0,1", "2", "0")
    assert swept == [[f"hydra.sweeper.arms={a}", f"seed={s}"] for a, s in zip(arms, seeds, strict=True)]


LACKING = "agg=sequence: 1 of 3 runs have no policy/entropy, which cannot count as 0"


def test_a_condition_in_which_a_completed_run_lacks_the_number_is_dropped(folder, monkeypatch):
    data = load(folder)
    run = run_name([*TINY, "inner_steps=1", "temperature=0.5", "agg=sequence", "seed=1"])
    data.metrics.loc[data.metrics["name"].eq(run), "policy/entropy"] = np.nan
    monkeypatch.setattr("rlexp.analysis.stats.question.load", lambda _: data)
    accuracy, entropy = answer(folder).assertions
    assert entropy.judgment.dropped["inner_steps=1,temperature=0.5"] == LACKING
    assert LACKING not in accuracy.judgment.dropped.values()
    assert [each.fails for each in entropy.effects[1:]] == ["", "", ""]


@pytest.mark.parametrize("endpoint", ["auc:steps", "matched:progress/completions=5"])
def test_a_share_that_a_run_lacks_counts_as_0_unless_it_is_matched(folder, tmp_path, monkeypatch, endpoint):
    """A run that never gets to where shares are compared, or that begins beyond it, says nothing of them."""
    data = load(folder)
    run = run_name([*TINY, "inner_steps=1", "temperature=0.5", "agg=sequence", "seed=1"])
    data.metrics.loc[data.metrics["name"].eq(run), ["eval/sampled_accuracy", "progress/completions"]] = np.nan
    monkeypatch.setattr("rlexp.analysis.stats.question.load", lambda _: data)
    asked = {"arm": ["agg=sequence"], "versus": [], "kind": "superior", "direction": "higher", "metric": None}
    asked |= {"endpoint": endpoint, "smallest": 0.25, "budget": None, "moderators": []}
    found = declared_as(folder, tmp_path, assertions=[asked], endpoint=endpoint)
    (answered,) = found.assertions
    dropped = answered.judgment.dropped.get("inner_steps=1,temperature=0.5", "")
    assert ("have no eval/sampled_accuracy" in dropped) == endpoint.startswith("matched")
    runs = run_table(found).rows
    lacking = runs[runs["condition"].eq("inner_steps=1,temperature=0.5") & runs["number"].isna()]
    assert lacking["folder"].tolist() == [run]  # it is kept with the others of its condition


def test_a_run_that_is_not_there_is_not_dropped_in_silence(folder, tmp_path):
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    shutil.rmtree(copied / run_name([*TINY, "inner_steps=1", "temperature=0.5", "agg=sequence", "seed=1"]))
    with pytest.raises(AnalysisError, match=LACKING):
        answer(copied)


def test_a_condition_in_which_no_run_has_the_number_is_dropped(folder, tmp_path):
    """Twice as many updates are made with two inner steps: nobody gets so far in the first."""
    asked = {"arm": ["agg=sequence"], "versus": [], "kind": "superior", "direction": "lower", "metric": None}
    asked |= {"endpoint": "cost:eval/length>=0.1:updates=5", "smallest": 0.1, "budget": None, "moderators": []}
    found = declared_as(folder, tmp_path, assertions=[asked])
    (answered,) = found.assertions
    lacking = {f"inner_steps=1,temperature={each}" for each in (0.5, 0.8)}
    assert {each.name for each in found.conditions if each.lacks} == lacking
    assert lacking <= {*answered.judgment.dropped}
    condition = next(each for each in found.conditions if each.lacks)
    nowhere = condition.main._replace(metric=condition.main.metric._replace(values=pd.Series(dtype=float)))
    assert (condition._replace(main=nowhere).scores(("agg=sequence", None)) == nowhere.floor).all()
    assert answered.judgment.word == "cannot answer"
    assert any("come to 5 updates" in why for why in answered.judgment.dropped.values())
    assert publish(found)
