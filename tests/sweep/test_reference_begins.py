"""Where the reference begins: the start, the random weights, half-way to the start, another run's policy."""

from __future__ import annotations

import pytest
import torch
from small_runs import SHORT, SMALL, compose, values

from rlexp.config.schema import read
from rlexp.core.errors import ConfigError
from rlexp.sweep import starts as begin
from rlexp.sweep.build import build
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

TASK = ["task=token_preference", "task.vocabulary=9", "task.prompt_length=3", "task.cap=6", "task.low=3", "model=gru"]
START = ["start=sft", "start.accuracy=0.8", "start.lr=3e-3", "start.prompts=16", "start.every=2", "start.checked=64"]
COMMON = [*SHORT, *SMALL, *TASK, "model.hidden=8", "minibatches=2", *START]


def config(*overrides, seed=0):
    return compose(*COMMON, f"seed={seed}", *overrides)


def begun(configs, folder=None):
    state = build(configs)
    assert begin.apply_starts(state, configs, folder) == [""] * len(configs)
    return state


def same(one, other, replica=0, of=0) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a[replica], b[of]) for a, b in pairs)


@pytest.mark.holds("S4.17")
@pytest.mark.slow
def test_each_reference_begins_where_its_run_says(tmp_path):
    """Side by side, the policy of all at the start."""
    folder = tmp_path / "other"
    folder.mkdir()
    train_jobs([Job(config(), folder, "other", "other")])
    choices = ["frozen", "random", "halfway", "run"]
    more = {"run": [f"reference.run={folder}"]}
    configs = [config(f"reference={name}", *more.get(name, [])) for name in choices]
    state, fresh = begun(configs, tmp_path / "starts"), build(configs[:1])
    half = begun([config("start.accuracy=0.4")])
    start = begun([config()])
    for replica in range(len(choices)):
        assert same(state.policy, start.policy, replica)
    assert same(state.reference, start.policy, 0)
    assert same(state.reference, fresh.policy, 1) and not same(fresh.policy, start.policy)
    assert same(state.reference, half.policy, 2) and not same(half.policy, start.policy)
    trained = torch.load(folder / "checkpoint.pt", weights_only=True)["networks"]["policy"]["parameters"]
    assert all(parameter[3].equal(trained[name]) for name, parameter in state.reference.named_parameters())
    assert not same(state.reference, start.policy, 3)
    again = begun(configs, tmp_path / "starts")
    assert all(same(state.reference, again.reference, r, r) for r in range(len(choices)))


PROBLEMS = {
    ("reference=halfway",): "reference.begin=halfway: start=random is not trained; take start=sft",
    ("reference=run",): "reference.run=null: must be the folder of a run, with its config.yaml and checkpoint.pt",
    ("reference.begin=middle",): "reference.begin=middle: must be 'start', 'random', 'halfway' or 'run'",
}


@pytest.mark.parametrize("overrides", PROBLEMS, ids=" ".join)
def test_what_cannot_be_is_one_line(overrides):
    with pytest.raises(ConfigError) as error:
        read(values(*overrides))
    (line,) = error.value.problems
    assert line.startswith(PROBLEMS[overrides])


def test_a_reference_that_moves_for_dpo_needs_no_penalty():
    from rlexp.config.checks import remarks

    quiet = ["clip=dpo", "agg=sequence", "norm=none", "reference=polyak"]
    assert not list(remarks(read(values(*quiet))))
