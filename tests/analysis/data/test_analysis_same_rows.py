"""Runs that should coincide: bit by bit, but for the clock."""

import json

import pytest
from analysis_fixtures import write_sweep
from command import command, no_comparison  # noqa: F401 (fixtures)
from small_runs import SHORT

from rlexp.analysis import load
from rlexp.analysis.stats.verdicts import first_unlike, twins

SCORES = {f"norm={norm},lr={rate}": [0.5, 0.6] for norm in "ab" for rate in "12"}


@pytest.fixture
def sweep(tmp_path):
    return write_sweep(tmp_path / "sweep", SCORES, steps=20)


def rewrite(folder, change):
    """Change a run's rows."""
    path = folder / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    change(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def unlike(folder, *names):
    return [(pair[0], first_unlike(*pair)) for pair in twins(load(folder), *names)]


def test_runs_are_paired_by_seed_and_by_what_is_not_named(sweep):
    found = [*twins(load(sweep), "norm=b", "norm=a")]
    places = [(seed, *(folder.rpartition("/")[2] for folder in folders)) for seed, *folders in found]
    assert sorted(places) == [
        (seed, f"norm=b,lr={rate},seed={seed}", f"norm=a,lr={rate},seed={seed}") for seed in (0, 1) for rate in "12"
    ]
    assert len([*twins(load(sweep), "norm=b,lr=1", "norm=a,lr=1")]) == 2
    assert [*twins(load(sweep), "norm=z", "norm=a")] == []


def test_the_first_difference_is_named(sweep):
    for name in ("norm=a,lr=1", "norm=b,lr=1"):
        rewrite(sweep / f"{name},seed=0", lambda rows: [row.update({"eval/reward": 0.25}) for row in rows])
    rewrite(sweep / "norm=b,lr=1,seed=0", lambda rows: rows[0].update({"time/total": 99.0}))
    first, second = ((seed, text) for seed, text in unlike(sweep, "norm=b,lr=1", "norm=a,lr=1"))
    assert first[0] == 0
    rewrite(sweep / "norm=b,lr=1,seed=0", lambda rows: rows[1].update({"eval/reward": 0.25 + 1e-17}))
    assert unlike(sweep, "norm=b,lr=1", "norm=a,lr=1")[0] == first  # that is no other number
    rewrite(sweep / "norm=b,lr=1,seed=0", lambda rows: rows[1].update({"eval/reward": 0.25 + 1e-15}))
    ((seed, text), _) = unlike(sweep, "norm=b,lr=1", "norm=a,lr=1")
    assert seed == 0 and text.startswith("seed 0: step ") and text.endswith("eval/reward")
    rewrite(sweep / "norm=b,lr=1,seed=0", lambda rows: rows.pop())
    assert second


@pytest.mark.slow
@pytest.mark.parametrize(("passes", "same"), [(1, True), (2, False)])
def test_a_clip_acts_where_a_rollout_is_used_again(command, tmp_path, no_comparison, passes, same):  # noqa: F811
    """With one update a rollout every ratio is 1, so all clips are one: an identity, not a finding."""
    arguments = ["clip=symmetric,higher", "clip.low=0.0001", f"inner_steps={passes}", "minibatches=1", "seed=0,1"]
    assert command("-m", *arguments, *SHORT, "hydra.sweep.dir=x").code == 0
    found = unlike(tmp_path / "x", "clip=higher", "clip=symmetric")
    assert len(found) == 2 and all((text is None) is same for _, text in found)
