"""The parts of a recipe: what they are, that together they are the recipe, and what is refused."""

import pytest

from rlexp.ablation.parts import check_parts, composition, overrides_of, parse_parts, parts_between
from rlexp.core.errors import ConfigError


def names(parts):
    return [part.name for part in parts]


def test_dapo_against_grpo():
    found = parts_between(["preset=dapo"], ["preset=grpo"])
    assert names(found) == ["shaping=overlong", "clip=higher", "agg=token", "kl=none"]


def test_keys_of_a_choice_go_with_it_and_others_are_parts_of_their_own():
    recipe = ["clip=higher", "clip.high=0.3", "norm.eps=1e-4", "inner_steps=2"]
    assert names(parts_between(recipe, [])) == ["norm.eps=0.0001", "clip=higher+clip.high=0.3", "inner_steps=2"]


@pytest.mark.slow  # many compositions
@pytest.mark.parametrize(
    ("recipe", "against"), [("scale_rl", "grpo"), ("ppo", "dapo"), ("prime_rl", "verl"), ("dpo", "grpo")]
)
def test_all_parts_together_are_the_recipe(recipe, against):
    against = [f"preset={against}"]
    found = parts_between([f"preset={recipe}"], against)
    assert composition(overrides_of(found, against))[1] == composition([f"preset={recipe}"])[1]
    check_parts(found, against)  # each changes something


def test_parts_that_are_joined_are_one():
    found = parse_parts("critic=ppo+norm=gae,agg=token,eval.ks=[1,2]")
    assert [part.overrides for part in found] == [("critic=ppo", "norm=gae"), ("agg=token",), ("eval.ks=[1,2]",)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clip", "--parts clip: is no override; write key=value, as clip=higher or entropy_coef=0"),
        (",", "--parts: there are none; write them as clip=higher,agg=token"),
    ],
)
def test_what_is_no_part(text, said):
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        parse_parts(text)


def test_the_same_run_twice_has_no_parts():
    with pytest.raises(ConfigError, match="preset=grpo: is the same run as clip=symmetric preset=grpo"):
        parts_between(["preset=grpo"], ["clip=symmetric", "preset=grpo"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agg=sequence,clip=symmetric", "clip=symmetric: changes nothing, as the default has it already"),
        ("agg=sequence,agg=prompt", r"agg=prompt: agg=sequence sets the same key; .* unless each is alone"),
    ],
)
def test_parts_that_say_nothing(text, said):
    with pytest.raises(ConfigError, match=said):
        check_parts(parse_parts(text), [])


def test_alternatives_are_parts_where_each_is_alone():
    check_parts(parse_parts("norm=none,norm=center"), [], alone=True)
    with pytest.raises(ConfigError, match="clip.high=0.3: clip.high=0.2 sets the same key"):
        check_parts(parse_parts("clip.high=0.2+clip.high=0.3"), [], alone=True)
