"""Runs whose data are not fresh: the same bits alone, together and resumed; what cannot be is one line; DPO learns."""

from __future__ import annotations

import pytest
from interrupted import jobs, same_alone_together_and_resumed, stop_at  # noqa: F401 (a fixture)
from small_runs import SHORT, SMALL, compose, rows, values

from rlexp.config.schema import read
from rlexp.core.errors import ConfigError
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

DATA = {
    "stale": ["data=stale", "data.age=3"],
    "replay": ["data=replay", "data.capacity=3"],
    "offline": ["data=offline", "data.batches=5", "data.oracle=1"],
    "pipeline": ["data=pipeline", "data.rollouts=2", "data.tokens=2", "data.max_age=3", "sampler=noisy"],
    "anchored": ["data=stale", "data.age=2", "anchor=proximal", "mismatch=token_truncate", "minibatches=2"],
    "loglinear": ["task=tool", "data=pipeline", "data.rollouts=3", "data.tokens=1", "anchor=loglinear"],
    "replay_variance": ["data=replay_variance", "data.capacity=3"],
    "refilled": ["data=replay", "data.capacity=2", "filter=dynamic"],
}
RARE = {"stale", "replay", "replay_variance", "refilled", "loglinear", "offline"}


@pytest.mark.bits
@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.rare] * (name in RARE)) for name in DATA])
def test_alone_together_and_resumed_are_the_same_bits(tmp_path, stop_at, name):  # noqa: F811
    same_alone_together_and_resumed(tmp_path, stop_at, *DATA[name])


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
    (
        "data=pipeline",
        "filter=dynamic",
    ): "filter.refill=zero_variance data=pipeline: a step waits for no other groups",
    ("data=pipeline", "data.tokens=0"): "data.tokens=0: must be at least 1",
    ("data=stale", "data.age=257"): "data.age=257: must be at most 256",
}


@pytest.mark.parametrize("overrides", PROBLEMS, ids=" ".join)
def test_what_cannot_be_is_one_line(overrides):
    with pytest.raises(ConfigError) as error:
        read(values(*overrides))
    (line,) = error.value.problems
    assert line.startswith(PROBLEMS[overrides])


def test_with_old_data_ratios_are_not_idle():
    from rlexp.config.checks import remarks

    assert not list(remarks(compose("data=stale", "minibatches=1")))


@pytest.mark.slow
def test_dpo_on_pairs_of_the_start_improves_what_is_sampled(tmp_path):
    """Two seeds of a task that is learnt in seconds; ten of the default one are for who changes a formula."""
    task = ["task=token_preference", "task.vocabulary=9", "task.prompt_length=3", "task.cap=6", "task.low=3"]
    start = ["start.accuracy=0.6", "start.lr=3e-3", "start.prompts=16", "start.every=2", "start.checked=64"]
    sizes = ["model=gru", "model.hidden=8", "group_size.completions=4", "group_size.prompts=8", "data.batches=8"]
    length = ["steps=60", "lr=1e-2", "eval.every=60", "eval.prompts=32", "log_every=60", "logger=none"]
    config = compose("preset=dpo", *task, *start, *sizes, *length)
    found = []
    for seed in (0, 1):
        job = Job(config.model_copy(update={"seed": seed}), tmp_path / str(seed), str(seed), "dpo")
        job.folder.mkdir()
        found.append(job)
    train_jobs(found)
    for job in found:
        first, last = rows(job.folder)[0], rows(job.folder)[-1]
        assert last["eval/reward"] > first["eval/reward"] + 0.1
        assert (
            last["pairs/accuracy"] > 0.7 and last["progress/completions"] == first["progress/completions"] == 8 * 8 * 4
        )
