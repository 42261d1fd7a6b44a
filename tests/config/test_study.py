"""An expectation that could not be judged is refused before the sweep; one that can is saved as it was written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command import command  # noqa: F401 (a fixture)
from small_runs import values as values_of

from rlexp.config.choices import studies
from rlexp.config.schema import read
from rlexp.core.errors import ConfigError
from rlexp.runfolder.files import to_yaml
from rlexp.sweep import engine

pytestmark = pytest.mark.slow  # whole runs

LECTURE = {"name": "lecture17"} | yaml.safe_load(studies()["lecture17"])["study"]
ROOT = Path(__file__).parents[2]
VARIANTS = "there are norm=none; norm=center; norm=local; norm=max"


def lecture(change=lambda study: None):
    """Return the config of the lecture's study, with a change of it, as plain values."""
    values = values_of("study=lecture17")
    change(values["study"])
    return values


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    monkeypatch.setattr(engine, "train_jobs", lambda jobs, title="rlexp": pytest.fail("training started"))


def test_a_study_is_saved_as_it_was_written():
    saved = yaml.safe_load(to_yaml(read(lecture()).model_dump(mode="json")))["study"]
    assert saved == LECTURE
    assert list(saved) == list(LECTURE)
    assert [list(expectation) for expectation in saved["expect"]] == [list(each) for each in LECTURE["expect"]]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda study: study["expect"][0].update(direction="hgher"),
            "study.expect[0].direction=hgher: must be one of higher, lower, equal, above, below, flips, identical",
        ),
        (lambda study: study["expect"][3].pop("value"), "study.expect[3].value: is missing"),
        (lambda study: study["expect"][3].update(value="much"), "study.expect[3].value=much: must be a number"),
        (lambda study: study["expect"][3].pop("direction"), "study.expect[3]: has no 'direction'"),
        (lambda study: study["expect"][1].pop("variant"), "study.expect[1].variant: is missing"),
        (lambda study: study.update(minimum_effect=-1), "study.minimum_effect=-1: must be at least 0"),
        (lambda study: study.update(questoin="?"), "study.questoin=?: no such key; did you mean question?"),
        (lambda study: study.pop("expect"), "study.expect: is missing"),
        (  # keys that the study might have, not those that it has
            lambda study: study["expect"][0].update(minimum_efect=1),
            "study.expect[0].minimum_efect=1: no such key; did you mean minimum_effect?",
        ),
        (
            lambda study: study.update(zzz={"a": 1}),
            "study.zzz: no such key; there are at, baseline, best_of, choose_first, choose_seeds, expect, matched, "
            "metric, minimum_effect, name, question, source, within, worked",
        ),
    ],
)
def test_a_study_is_read_strictly(change, line):
    with pytest.raises(ConfigError) as error:
        read(lecture(change))
    assert str(error.value) == line


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["norm=center,local,max"], "study.baseline=norm=none: is no variant of this sweep; there are norm=center; "),
        (["study.baseline='norm=typo'"], f"study.baseline=norm=typo: is no variant of this sweep; {VARIANTS}"),
        (["study.metric=eval/pass@3"], "study.metric=eval/pass@3: is not evaluated; there are eval/greedy_accuracy, "),
        (["baseline='norm=lokal'"], f"baseline=norm=lokal: is no variant of this sweep; {VARIANTS}"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_could_not_be_judged_is_refused(command, tmp_path, arguments, line):  # noqa: F811
    result = command("study=lecture17", "seed=0", *(argument for argument in arguments))
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[0].startswith(line)
    assert not any(tmp_path.iterdir())


def test_a_study_that_is_changed_says_so_before_it_trains(command, monkeypatch):  # noqa: F811
    monkeypatch.setattr(engine, "train_jobs", lambda jobs, title="rlexp": [0.5] * len(jobs))
    note = "note: study lecture17 is changed by norm=none,center seed=3 steps=7, so none of its claims is judged\n"
    changed = "norm=none,center", "seed=3", "steps=7"
    assert note in command("study=lecture17", *changed, "device=cpu", "hydra.sweep.dir=x").err  # a device is no change


def test_a_new_process_finds_the_studies_of_claims(tmp_path):
    """In this one they are found by whoever has imported ``rlexp.config.compose``."""
    words = [sys.executable, "-m", "rlexp.train", "study=lecture17", "study.metric=nonsense"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    said = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert said.returncode == 2 and said.stderr.startswith("study.metric=nonsense: is not evaluated; there are ")
