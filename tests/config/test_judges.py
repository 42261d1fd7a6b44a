"""Judges that cannot be, each refused in one line."""

from __future__ import annotations

import pytest
from small_runs import values

from rlexp.config.schema import read
from rlexp.core.errors import ConfigError


def problems(*overrides: str) -> tuple[str, ...]:
    """Return the lines about a config."""
    with pytest.raises(ConfigError) as error:
        read(values(*overrides))
    return error.value.problems


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["reward=prm", "reward.votes=0"], "reward.votes=0: must be at least 1"),
        (["reward=prm", "reward.votes=31"], "reward.votes=31: must be at most 30"),
        (["reward=prm", "reward.ties=last"], "reward.ties=last: must be 'first', 'random' or 'neutral'"),
        (["reward=prm_weighted", "reward.accuracies=[]"], "reward.accuracies=[]: must have at least 1 of them"),
        (["reward=prm_weighted", "reward.accuracies=[1.0]"], "reward.accuracies[0]=1: must be below 1"),
        (
            ["reward=prm", "norm=gdpo"],
            "reward=prm norm=gdpo: asks the task for its `components`, which are not the judge's; take reward=verifier",
        ),
        (
            ["reward=prm", "norm=psr"],
            "reward=prm norm=w_reinforce: asks the task for its `correct`, which are not the judge's",
        ),
        (["reward=majority", "norm=remax"], "norm=remax reward=majority: a greedy completion is alone, so always the"),
        (
            ["reward=majority", "group_size.completions=1", "norm=none"],
            "reward=majority: compares the completions of a group, and group_size.completions=1 leaves it one",
        ),
    ],
)
def test_a_judge_without_votes_or_beside_the_tasks_own_verdict_is_refused(overrides, line):
    (found,) = problems(*overrides)
    assert found.startswith(line)


NEEDS = "needs one, its settings are in conf/reward/learned.yaml"


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["reward.model=null"], f"reward.model=null: reward=learned {NEEDS}"),
        (["reward.model.members=2"], "reward.model.members=2: reward=learned has one model; take reward=ensemble_mean"),
        (["reward=ensemble_mean", "reward.model.members=1"], "reward.model.members=1: reward=ensemble_mean needs at"),
        (["reward.model.members=0"], "reward.model.members=0: must be at least 1"),
        (["reward.model.flips=1.5"], "reward.model.flips=1.5: must be at most 1"),
        (["reward.model.largest_gap=0.0"], "reward.model.smallest_gap=0: must be below reward.model.largest_gap=0"),
        (["reward.model.weights={exact: 1.0}"], "reward.model.weights must name exact, graded"),
        (["reward.model.refresh=500"], "reward.model.refresh=500: must be at most steps=400; 0 never refreshes"),
        (["reward.model.network={name: gru, hidden: 0, layers: 1}"], "reward.model.network.hidden=0: must be"),
        (["reward.model.network={name: positional, width: 4}"], "model=positional reads no completions"),
        (["norm=gdpo"], "reward=learned norm=gdpo: asks the task for its `components`"),
    ],
)  # fmt: skip
def test_a_reward_model_that_cannot_be_is_refused(overrides, line):
    (found,) = problems("reward=learned", *overrides)
    assert found.startswith(line)


def test_a_model_under_a_judge_that_does_not_ask_for_one_is_refused():
    given = values("reward=learned")
    given["reward"] = {**values("reward=prm")["reward"], "model": given["reward"]["model"]}
    with pytest.raises(ConfigError) as error:
        read(given)
    assert error.value.problems == ("reward.model=bradley_terry: reward=prm asks no model; take null",)
