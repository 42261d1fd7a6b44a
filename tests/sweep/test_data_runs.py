"""Runs whose data are not fresh: the same bits alone, together and resumed; what cannot be is one line; DPO learns."""

from __future__ import annotations

import pytest
from interrupted import jobs, stop_at  # noqa: F401 (a fixture)
from small_runs import SHORT, SMALL, rows, values, with_choice

from rlexp.config.schema import read
from rlexp.core.errors import ConfigError
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

DATA = {
    "stale": ["data=stale", "data.age=3"],
    "replay": ["data=replay", "data.capacity=3"],
    "offline": ["data=offline", "data.batches=5", "data.oracle=1"],
    "refilled": ["data=replay", "data.capacity=2", "filter=dynamic"],
}
VARIANTS = ("local", "running")


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_alone_together_and_resumed_are_the_same_bits(tmp_path, stop_at, name):  # noqa: F811
    together, alone, parts = (
        jobs(tmp_path / place, *DATA[name], variants=VARIANTS) for place in ("together", "alone", "parts")
    )
    scores = train_jobs(together)
    for job in alone:
        train_jobs([job])
    stop_at(8)
    with pytest.raises(KeyboardInterrupt):
        train_jobs(parts)
    assert train_jobs(parts) == scores
    for one, other, third in zip(together, alone, parts, strict=True):
        assert rows(one.folder) == rows(other.folder) == rows(third.folder)


@pytest.mark.slow
def test_stale_by_nothing_is_fresh_and_every_age_is_in_the_file(tmp_path):
    found = {}
    for name in ("fresh", "stale", "replay", "offline"):
        more = ["minibatches=2", "inner_steps=2", *(["data.age=0"] if name == "stale" else [])]
        config = read(values(*SHORT, *SMALL, f"data={name}", *more))
        folder = tmp_path / name
        folder.mkdir()
        train_jobs([Job(config, folder, name, name)])
        found[name] = rows(folder)
    assert found["fresh"] == found["stale"]
    assert [row.get("data/age") for row in found["fresh"]] == [None] * 3
    assert [row.get("data/age") for row in found["offline"]] == [None, 0.0, 4.0]
    prompts, group = 4, 4
    counts = {name: [row["progress/completions"] / group for row in lines] for name, lines in found.items()}
    assert counts["fresh"] == [0, prompts, 2 * prompts]
    assert counts["offline"] == [64 * prompts] * 3
    assert counts["replay"] == [16 * 2, 17 * 2, 18 * 2]


PROBLEMS = {
    ("data=offline", "data.oracle=9"): "data.oracle=9: must be at most group_size.completions=8",
    ("data=replay", "data.fresh=0.01"): "data.fresh=0.01: is 0 of group_size.prompts=16, and must leave new and old",
    ("data=replay", "data.fresh=0.99"): "data.fresh=0.99: is 16 of group_size.prompts=16, and must leave new and old",
    ("data=replay", "data.fresh=0.1", "data.capacity=6"): "data.capacity=6: holds 12 groups, and a step draws 14; ta",
    ("data=stale", "filter=top_entropy"): "filter.loss=top_entropy data=stale: asks for distributions of the policy t",
    ("data=stale", "data.age=257"): "data.age=257: must be at most 256",
}


@pytest.mark.parametrize("overrides", PROBLEMS, ids=" ".join)
def test_what_cannot_be_is_one_line(overrides):
    with pytest.raises(ConfigError) as error:
        read(values(*overrides))
    (line,) = error.value.problems
    assert line.startswith(PROBLEMS[overrides])


def test_with_old_data_ratios_are_not_idle():
    from rlexp.config.remarks import remarks

    assert not list(remarks(with_choice("data", "stale", "minibatches=1")))
