"""A choice with a wrong name, key or number is refused before anything is computed."""

from __future__ import annotations

import pytest
import torch
from axis_choices import AXES
from pydantic import TypeAdapter, ValidationError

from rlexp.core.registry import bind_choice, hyperparameters, schema

LOCAL = {"name": "local", "eps": 1e-6, "ddof": 1}
PPO = {"name": "ppo", "low": 0.2, "high": 0.28}
OVERLONG = {"name": "overlong", "cap": 8, "cache": 2, "factor": 1.0}


def read(axis: str, node: dict, **extra):
    return TypeAdapter(schema(AXES[axis], **extra)).validate_python(node)


@pytest.mark.parametrize(
    ("axis", "node", "complaint"),
    [
        ("norm", {"name": "grupo"}, "union_tag_invalid"),
        ("norm", {"eps": 1e-6}, "union_tag_not_found"),
        ("norm", LOCAL | {"epss": 1e-6}, "extra_forbidden"),
        ("norm", {"name": "center", "eps": 1e-6}, "extra_forbidden"),
        ("norm", {"name": "local", "eps": 1e-6}, "missing"),
        ("norm", LOCAL | {"eps": 0.0}, "greater_than"),
        ("norm", LOCAL | {"eps": "1e-6"}, "float_type"),
        ("norm", LOCAL | {"ddof": 2}, "less_than_equal"),
        ("norm", LOCAL | {"ddof": -1}, "greater_than_equal"),
        ("norm", LOCAL | {"ddof": 1.0}, "int_type"),
        ("norm", LOCAL | {"ddof": True}, "int_type"),
        ("clip", PPO | {"low": -0.1}, "greater_than_equal"),
        ("clip", {"name": "ppo", "low": 0.2}, "missing"),
        ("clip", {"name": "naive", "low": 0.2}, "extra_forbidden"),
        ("agg", {"name": "dr_grpo", "length": 0}, "greater_than_equal"),
        ("agg", {"name": "dr_grpo"}, "missing"),
        ("shaping", OVERLONG | {"cache": 0}, "greater_than_equal"),
        ("shaping", OVERLONG | {"factor": -1.0}, "greater_than_equal"),
        ("kl", {"name": "k4"}, "union_tag_invalid"),
        ("filter", {"name": "none", "cap": 8}, "extra_forbidden"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(axis, node, complaint):
    with pytest.raises(ValidationError) as caught:
        read(axis, node)
    assert [error["type"] for error in caught.value.errors()] == [complaint]


def test_an_unknown_name_is_answered_with_the_names_there_are():
    with pytest.raises(ValidationError, match="'center'.*'local'.*'rloo'"):
        read("norm", {"name": "grupo"})


@pytest.mark.parametrize(("axis", "node", "hyperparameter"), [("norm", LOCAL, "eps"), ("clip", PPO, "high")], ids=str)
def test_a_hyperparameter_is_a_number(axis, node, hyperparameter):
    with pytest.raises(ValidationError):
        read(axis, node | {hyperparameter: float("nan")})


def test_extra_fields_belong_to_every_choice():
    assert read("kl", {"name": "k2", "coef": 0.1}, coef=float).coef == 0.1
    with pytest.raises(ValidationError):
        read("kl", {"name": "k2"}, coef=float)


def test_settings_do_not_change_after_they_were_read():
    settings = read("clip", PPO)
    with pytest.raises(ValidationError):
        settings.low = 0.3


def test_hyperparameters_are_the_keyword_only_parameters():
    assert set(hyperparameters(AXES["clip"]["ppo"])) == {"low", "high"} and hyperparameters(AXES["clip"]["naive"]) == {}


def test_a_chosen_function_has_its_hyperparameters_and_not_the_extra_fields():
    settings = read("clip", PPO | {"coef": 0.1}, coef=float)
    assert bind_choice(AXES["clip"], settings).keywords == {"low": 0.2, "high": 0.28}


def test_a_schema_of_one_choice_is_read_without_a_union():
    only = {"none": AXES["norm"]["none"]}
    settings = TypeAdapter(schema(only)).validate_python({"name": "none"})
    rewards = torch.ones(1, 2)
    assert bind_choice(only, settings)(rewards, rewards > 0) is rewards
