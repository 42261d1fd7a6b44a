"""docs/metrics.md has the keys that runs write, in the section that says when, and no others."""

import json
import math
import re
from pathlib import Path

import pytest
from command import command  # noqa: F401 (a fixture)
from small_runs import SHORT, SMALL, rows, with_choice

from rlexp.axes import clip, entropy_control
from rlexp.core.facts import facts_of
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

pytestmark = pytest.mark.slow  # whole runs

DOC = Path(__file__).parents[2] / "docs" / "metrics.md"
SECTIONS = {"Run", "Rollout", "Updates", "Choices", "Evaluation"}
KS = [1, 3]
COMPONENTS = {
    "task=sort": ("exact", "graded", "lecture", "multiset", "format"),
    "task=token_preference": ("ternary", "share"),
}
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
    return {name.replace("<k>", str(k)) for name in spelled for k in KS}


@pytest.fixture(params=COMPONENTS)
def lines(request, command, tmp_path):  # noqa: F811
    """Return the components of a task and the lines of a short run of it."""
    result = command(
        "preset=tiny",
        request.param,
        f"steps={STEPS}",
        f"log_every={LOG_EVERY}",
        f"eval={{every: {EVAL_EVERY}, prompts: 4, samples: 3, ks: {KS}}}",
        "logger=none",
        "hydra.run.dir=run",
    )
    assert result.code == 0, result.err
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    return COMPONENTS[request.param], [json.loads(line) for line in text.splitlines()]


def test_the_keys_of_every_line_are_those_documented_for_it(lines):
    components, rows = lines
    run, rollout, updates, evaluation = (keys(s, components) for s in ("Run", "Rollout", "Updates", "Evaluation"))
    expected = {
        0: run | evaluation,
        2: run | rollout | updates,
        4: run | rollout | updates | evaluation,
        5: run | rollout | updates | evaluation,
    }
    assert {row["step"]: set(row) for row in rows} == expected


def own_keys(config) -> set[str]:
    """Return the keys that runs of a config have beside those of the default run."""
    chosen = clip.FUNCTIONS[config.clip.name], entropy_control.FUNCTIONS[config.entropy_control.name]
    stopped = {"kl/stopped"} if config.kl_stop else set()
    return {name for function in chosen for name in facts_of(function).measures} | stopped


def test_the_keys_of_choices_are_those_documented(tmp_path):
    """Runs of one batch have their own keys each."""
    configs = {name: with_choice("clip", name, *SHORT, *SMALL) for name in ("symmetric", "dpo", "ipo")}
    configs["stopped"] = with_choice("clip", "symmetric", *SHORT, *SMALL, "kl_stop=0.1")
    configs["adaptive"] = with_choice("entropy_control", "adaptive", *SHORT, *SMALL)
    jobs = [Job(config, tmp_path / name, name, name) for name, config in configs.items()]
    for job in jobs:
        job.folder.mkdir()
    train_jobs(jobs)
    found = {job.name: rows(job.folder)[-1].keys() for job in jobs}
    for name, config in configs.items():
        assert found[name] - found["symmetric"] == own_keys(config)
    assert set().union(*map(own_keys, configs.values())) == keys("Choices")


def test_the_numbers_are_what_the_page_says_of_them(lines):
    """What can be checked from the file alone; the formulas themselves are checked in test_metrics."""
    _, rows = lines
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


def test_every_row_is_complete():
    """A meaning, a unit and a name, or –, for each of the three frameworks."""
    tables = documented()
    assert set(tables) == SECTIONS
    for cells in (cells for table in tables.values() for cells in table):
        assert len(cells) == 6 and all(cells), cells
        assert all(cell == "–" or re.match(r"`[^`]+`", cell) for cell in cells[3:]), cells
