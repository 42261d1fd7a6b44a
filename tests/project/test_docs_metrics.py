"""docs/metrics.md has the keys that runs write, in the section that says when, and no others."""

import json
import math
import re
from pathlib import Path

import pytest
from command import command  # noqa: F401 (a fixture)
from small_runs import SHORT, SMALL, rows, values

from rlexp.axes.clip import dpo, ipo
from rlexp.axes.entropy_control import adaptive
from rlexp.config.schema import read
from rlexp.core.facts import ControlFacts, LossFacts, facts_of
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

pytestmark = pytest.mark.slow  # whole runs

DOC = Path(__file__).parents[2] / "docs" / "metrics.md"
SECTIONS = {"Run", "Rollout", "Updates", "Critic", "Choices", "Evaluation", "Corpus", "Judged runs", "Worlds"}
SECTIONS |= {"Hinted teachers"}
KS = [1, 3]
COMPONENTS = {
    "task=sort": ("exact", "graded", "lecture", "multiset", "format"),
    "task=token_preference": ("ternary", "share"),
    "task=addition": ("exact", "digits", "format", "scratchpad"),
    "task=bandit": ("easy", "hard", "impossible"),
}
CRITIC = "critic=value norm=gae_whitened"
WORLDS = [COMPONENTS["task=bandit"]]
STEPS, LOG_EVERY, EVAL_EVERY = 5, 2, 4
# A mean is not exactly what its parts, rounded to float32 each, add up to.
ROUNDING = 1e-6


def documented() -> dict[str, list[list[str]]]:
    """Return the rows of each section's table, as cells."""
    found, section = {}, None
    for line in DOC.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| `") and section in SECTIONS:
            found.setdefault(section, []).append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def keys(section: str, components=()) -> set[str]:
    """Return the keys of a section, patterns spelled out."""
    names = [cells[0].strip(" |`") for cells in documented()[section]]
    assert len(names) == len(set(names))
    spelled = {name.replace("<component>", component) for name in names for component in components or [""]}
    numbered = {name.replace("<q>", str(q)) for name in spelled for q in range(1, 5)}
    return {name.replace("<k>", str(k)) for name in numbered for k in KS}


@pytest.fixture(params=[*COMPONENTS, CRITIC])
def lines(request, command, tmp_path):  # noqa: F811
    """Return the components of a task and the lines of a short run of it."""
    result = command(
        "preset=tiny",
        *request.param.split(),
        f"steps={STEPS}",
        f"log_every={LOG_EVERY}",
        f"eval={{every: {EVAL_EVERY}, prompts: 4, samples: 3, ks: {KS}}}",
        "logger=none",
        "hydra.run.dir=run",
    )
    assert result.code == 0, result.err
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    return request.param, [json.loads(line) for line in text.splitlines()]


def test_keys_and_numbers_of_every_line_are_those_of_the_page(lines):
    keys_are_those_documented(*lines)
    numbers_are_what_the_page_says(lines[1])


def keys_are_those_documented(chosen, rows):
    components = COMPONENTS.get(chosen, COMPONENTS["task=sort"])
    run, rollout, updates, evaluation = (keys(s, components) for s in ("Run", "Rollout", "Updates", "Evaluation"))
    updates |= keys("Critic") if chosen == CRITIC else set()
    evaluation |= keys("Corpus") if chosen == "task=addition" else set()
    evaluation |= keys("Worlds", components) if components in WORLDS else set()
    expected = {
        0: run | evaluation,
        2: run | rollout | updates,
        4: run | rollout | updates | evaluation,
        5: run | rollout | updates | evaluation,
    }
    assert {row["step"]: set(row) for row in rows} == expected


AGES = {f"data/{name}" for name in ("age", "age_max", "drift", "ess_tokens", "ess_completions")}
CHOICES = {
    "default": (),
    "clip=dpo": set(facts_of(dpo, LossFacts).metrics),
    "clip=ipo": set(facts_of(ipo, LossFacts).metrics),
    "entropy_control=adaptive": set(facts_of(adaptive, ControlFacts).metrics),
    "kl_stop=0.1": {"kl/stopped"},
    "distillation=jsd teacher.network=reference": {"loss/distillation"},
    "imitation=sft": {"loss/imitation", "imitation/mu"},
    "positive_nll_coef=0.1": {"loss/positive_nll"},
    "sampler=top_p_trained": {"ratio/outside"},
    "temperature_final=0.5": {"policy/temperature"},
    "log_ratio_bound=1e-6": {"ratio/bounded"},
    "data=stale": AGES,
    "data=replay": AGES,
    "data=replay_variance": AGES | {"data/replayed"},
    "data=offline": AGES,
    "data=pipeline": AGES,
    "data=pipeline data.max_age=2": AGES | {"data/dropped"},
}


def test_the_keys_of_choices_are_those_documented(tmp_path):
    """Runs of one batch have their own keys each."""
    jobs = [
        Job(read(values(*SHORT, *SMALL, *name.replace("default", "").split())), tmp_path / name, name, name)
        for name in CHOICES
    ]
    for job in jobs:
        job.folder.mkdir()
    train_jobs(jobs[:10])
    for job in jobs[10:]:
        train_jobs([job])
    found = {job.name: rows(job.folder)[-1].keys() for job in jobs}
    assert {name: each - found["default"] for name, each in found.items()} == {name: {*CHOICES[name]} for name in found}
    assert set().union(*CHOICES.values()) == keys("Choices")


def numbers_are_what_the_page_says(rows):
    """What can be checked from the file alone; the formulas themselves are checked in test_metrics."""
    for row in rows[1:]:
        assert row["loss/total"] == pytest.approx(
            row["loss/policy"] + row["loss/kl"] + row["loss/entropy"], abs=ROUNDING
        )
        parts = row["groups/all_worst"] + row["groups/all_best"] + row["groups/zero_other"]
        assert row["groups/zero_variance"] == pytest.approx(parts, abs=ROUNDING)
        assert row["time/step"] == row["time/total"] / row["step"]
        assert row["ratio/min"] <= row["ratio/mean"] <= row["ratio/max"]
        assert 0 <= row["clip/low"] + row["clip/high"] <= 1
        tokens = row["progress/tokens"] / row["progress/completions"]
        assert math.isfinite(tokens) and tokens > 0


SHORT_TRAINING = ["reward.model.members=2", "reward.model.pairs=32", "reward.model.updates=2"]


@pytest.mark.parametrize("choice", [["reward=prm"], ["reward=ensemble_mean", *SHORT_TRAINING]], ids=" ".join)
def test_a_judged_run_has_the_keys_of_its_section_too(command, tmp_path, choice):  # noqa: F811
    result = command(
        "preset=tiny",
        *choice,
        "steps=2",
        "log_every=1",
        f"eval={{every: 2, prompts: 4, samples: 3, ks: {KS}}}",
        "logger=none",
        "hydra.run.dir=run",
    )
    assert result.code == 0, result.err
    rows = [set(json.loads(line)) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    others = [keys(s, COMPONENTS["task=sort"]) for s in ("Run", "Rollout", "Updates", "Evaluation")]
    run, rollout, updates, evaluation = others
    own = keys("Judged runs") - ({"judge/disagreement"} if len(choice) == 1 else set())
    of_evaluation = {key for key in own if key.startswith("eval/")}
    of_rollout = own - of_evaluation - {key for key in own if key.startswith("progress/")}
    assert rows[0] == run | evaluation | own - of_rollout
    assert rows[1] == run | rollout | updates | own - of_evaluation
    assert rows[2] == run | rollout | updates | evaluation | own


def test_a_run_with_a_hinted_teacher_has_the_key_of_its_section_too(tmp_path):
    beside = ["task=two_habits", "task.hint=4", "teacher.network=reference", "distillation=jsd", *SHORT, *SMALL]
    jobs = [
        Job(read(values(*beside, f"teacher.hint={hint}")), tmp_path / hint, hint, hint) for hint in ("null", "answer")
    ]
    for job in jobs:
        job.folder.mkdir()
    train_jobs(jobs)  # side by side: the other has no such key
    plain, hinted = ([set(row) for row in rows(job.folder)] for job in jobs)
    assert [mine - theirs for mine, theirs in zip(hinted, plain, strict=True)] == [
        keys("Hinted teachers") if "eval/reward" in row else set() for row in plain
    ]


def test_every_row_is_complete():
    """A meaning, a unit and a name, or –, for each of the three frameworks."""
    tables = documented()
    assert set(tables) == SECTIONS
    for cells in (cells for table in tables.values() for cells in table):
        assert len(cells) == 6 and all(cells), cells
        assert all(cell == "–" or re.match(r"`[^`]+`", cell) for cell in cells[3:]), cells
