"""What is typed stands in place of what a question says, so that it can be asked of another model or task."""

import pytest
from small_runs import compose

from rlexp.core.errors import ConfigError
from rlexp.question.ask import checked
from rlexp.question.spec import asked_elsewhere, read_question
from rlexp.question.sweep import most_spent

ASKED = {
    "question": "Does it?",
    "assertions": [{"arm": "norm=rloo", "versus": "norm=center", "kind": "superior"}],
    "conditions": {"start.accuracy": [0.1, 0.3], "inner_steps": [1, 2]},
    "moderators": ["start.accuracy"],
    "with": "task=sort+task.alphabet=10+start=sft+start.lr=1e-3+steps=100",
    "tune": "lr=1e-4,1e-3",
}


def typed(*overrides):
    return asked_elsewhere(read_question(ASKED), overrides)


def test_nothing_typed_changes_nothing():
    assert typed() == (read_question(ASKED), [])


def test_a_key_and_the_grid_replace_those_of_the_question():
    written, left = typed("steps=20", "lr=1,3,9", "kl=k3")
    assert written.shared == ["task=sort", "task.alphabet=10", "start=sft", "start.lr=1e-3"]
    assert written.tune == "lr=1,3,9" and left == ["steps=20", "kl=k3"]
    assert written.conditions == read_question(ASKED).conditions and written.moderators == ["start.accuracy"]


def test_a_choice_replaces_all_that_is_said_of_its_group():
    written, left = typed("start=random", "task=bandit", "model=tabular")
    assert written.shared == ["steps=100"] and left == ["start=random", "task=bandit", "model=tabular"]
    assert written.conditions == [["inner_steps=1"], ["inner_steps=2"]] and written.moderators == []


def test_a_key_that_conditions_vary_is_refused_as_before():
    with pytest.raises(ConfigError, match="sets the same key"):
        checked(ASKED, ["start.accuracy=0.5"])


def test_it_is_declared_with_what_was_typed():
    declared = checked(ASKED, ["task=bandit", "model=tabular", "start=random", "lr=1,3,9", "steps=20"]).declared
    assert [each["name"] for each in declared["conditions"]] == ["inner_steps=1", "inner_steps=2"]
    assert declared["tune"] == {"key": "lr", "values": "1,3,9"}
    assert {*declared["with"]} == {"task=bandit", "model=tabular", "start=random", "steps=20"}


def test_tokens_of_a_run_are_as_many_as_its_task_lets_it_write():
    config = compose("task.cap=7", "steps=3", "group_size.prompts=2", "group_size.completions=4")
    assert most_spent(config, "tokens") == 3 * 2 * 4 * 7


def test_tokens_of_a_language_model_are_as_many_as_it_may_write():
    pytest.importorskip("trl")
    config = compose("backend=trl", "model=llama", "backend.max_completion_length=16", "steps=3", "group_size=8")
    assert most_spent(config, "tokens") == 3 * 128 * 16
