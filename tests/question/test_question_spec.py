"""A question is completed from what it says, and a wrong one ends in a line before anything is trained."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from rlexp.core.errors import ConfigError
from rlexp.question.declare import declare
from rlexp.question.spec import SHIPPED, read_question

HIGHER = {"arm": "clip=higher", "versus": "clip=symmetric", "kind": "superior"}
WRITTEN = {"question": "Does it help?", "assertions": [HIGHER]}


def test_conditions_are_all_combinations_or_those_that_are_listed():
    by_key = read_question(WRITTEN | {"conditions": {"inner_steps": [2, 4], "lr": [1e-3, 2e-3]}})
    pairs = [[f"inner_steps={steps}", f"lr={rate}"] for steps in (2, 4) for rate in ("0.001", "0.002")]
    assert by_key.conditions == pairs
    by_hand = read_question(WRITTEN | {"conditions": ["inner_steps=2+lr=0.001", ["inner_steps=4", "lr=0.002"]]})
    assert by_hand.conditions == [pairs[0], pairs[3]]
    assert read_question(WRITTEN).conditions == [[]]


def test_an_assertion_has_what_the_question_says_for_all():
    second = HIGHER | {"kind": "equivalent", "metric": "policy/entropy", "smallest": 0.1, "budget": "steps=50"}
    written = WRITTEN | {"assertions": [HIGHER, second], "smallest": 0.3, "budget": "completions=12800"}
    asked = declare(read_question(written | {"with": "task=bandit+model=tabular"}), ["lr=0.01", "logger=none"])
    first, other = asked.declared["assertions"]
    assert (first["smallest"], first["direction"], first["budget"]) == (0.3, "higher", "completions=12800")
    assert (other["smallest"], other["direction"], other["budget"]) == (0.1, None, "steps=50")
    assert asked.declared["with"] == ["task=bandit", "model=tabular", "lr=0.01"] and asked.of_sweep == ["logger=none"]
    budgets = {(cell.arm, cell.budget): cell.overrides[-1] for cell in asked.cells}
    assert budgets == {
        (f"clip={name}", budget): steps
        for name in ("symmetric", "higher")
        for budget, steps in (("completions=12800", "steps=100"), ("steps=50", "steps=50"))
    }


def test_the_smallest_effect_of_the_question_is_not_that_of_another_number():
    other = HIGHER | {"metric": "eval/length", "direction": "lower"}
    asked = declare(read_question(WRITTEN | {"assertions": [other], "smallest": 0.3}))
    assert asked.declared["assertions"][0]["smallest"] is None


def test_a_grid_starts_at_each_conditions_own_value():
    asked = declare(read_question(WRITTEN | {"conditions": ["task=sort", "task=bandit+model=tabular"], "tune": "lr"}))
    assert asked.grids["task=sort"] == [5e-4, 1e-3, 2e-3] and len(asked.grids) == 2


ANSWERED = Path(__file__).parents[2] / "docs" / "asked"


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(
            file, id=file.stem, marks=pytest.mark.rare if (ANSWERED / file.stem).is_dir() else pytest.mark.slow
        )
        for file in sorted(SHIPPED.glob("*.yaml"))
    ],
)
def test_questions_that_come_with_the_program_can_be_asked(file):
    if "backend=trl" in file.read_text() and find_spec("trl") is None:
        with pytest.raises(ConfigError, match="backend=trl: needs the extra trl: pip install 'rlexp\\[trl\\]'"):
            declare(read_question(file.stem))
        return
    asked = declare(read_question(file.stem))
    assert asked.declared["question"] == yaml.safe_load(file.read_text())["question"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"asertions": []}, "asertions=[]: no such key; did you mean assertions?"),
        ({"question": " "}, "must say what is asked, in a sentence"),
        ({"endpoint": "cost:eval/greedy_accuracy>=1.2"}, "eval/greedy_accuracy is a share; its target is above 0"),
        ({"assertions": []}, "assertions=[]: must have at least 1 of them"),
        ({"assertions": [HIGHER] * 3}, ": must have at most 2 of them"),
        ({"assertions": [HIGHER | {"kind": "better"}]}, "kind=better: must be 'superior', 'equivalent' or 'not inf"),
        ({"assertions": [{"kind": "superior"}]}, "assertions[0].arm: is missing"),
        (
            {"assertions": [HIGHER | {"arm": "higher"}]},
            "must be overrides, as clip=higher or clip=higher+inner_steps=2",
        ),
        ({"assertions": [HIGHER | {"versus": "clip=higher"}]}, "assertion 1: clip=higher and clip=higher are the same"),
        (
            {"assertions": [HIGHER | {"metric": "reward/mean"}]},
            "assertion 1: reward/mean, final: which effect counts is",
        ),
        ({"assertions": [HIGHER | {"metric": "policy/entropy"}]}, "policy/entropy has no better end; say direction"),
        ({"assertions": [HIGHER | {"smallest": 0.0}]}, "smallest=0: must be above 0"),
        ({"metric": "accurcy"}, "metric accurcy: is not evaluated; there are eval/greedy_accuracy"),
        ({"endpoint": "last"}, "endpoint 'last' is no endpoint; allowed: final[:BUDGET]  auc"),
        (
            {"endpoint": "auc:completions=1e9"},
            "auc:completions=1e9: no run gets to 1e+09 completions; the most is 51,200",
        ),
        (
            {"conditions": {"inner_steps": [2]}, "moderators": ["inner_steps"]},
            "inner_steps: does not vary, it is 2 in all",
        ),
        (
            {"conditions": {"inner_steps": [2, 4]}, "moderators": ["task"]},
            "moderator task: not every condition sets it",
        ),
        ({"conditions": {"inner_steps": []}}, ": must be keys, each with a list of values, or a list of"),
        ({"conditions": ["lr=0.1", "lr=0.1"]}, "conditions: lr=0.1 is there twice"),
        ({"conditions": ["clip.high=0.3"], "with": "clip.high=0.2"}, "clip.high=0.3: clip.high=0.2 sets the same key"),
        (
            {"conditions": ["task=sort", "task=token_preference"], "smallest": 0.1},
            "eval/reward in task=token_preference (start SD); name one metric",
        ),
        ({"conditions": ["lr=0.1"], "tune": "lr"}, "tune lr: lr=0.1 fixes it"),
        ({"tune": "lr=1"}, "tune lr=1: must be at least two numbers above 0"),
        ({"seeds": 1}, "seeds=[0]: must be at least 2; one has no interval"),
        ({"starts": 1, "seeds": 4}, "starts=1: must have at least 2 of them"),
        ({"starts": [3, 3], "seeds": 4}, "starts=[3,3]: a start is there twice"),
        ({"starts": 4, "seeds": 2, "with": ["start.seed=3"]}, "start.seed=3: starts says which are trained; leave it"),
        ({"seeds": [1, 1]}, "seeds=[1,1]: a seed is there twice"),
        (
            {"seeds": [1, 1000], "conditions": {"lr": [0.1, 0.2]}},
            "seeds: 1000 is too large; must be below 1000, of which",
        ),
        ({"conditions": ["lr=0.1", "steps=0"]}, "steps=0: must be at least 1"),
        ({"most_seeds": 4}, "most_seeds=4: must be at least the 10 seeds"),
        ({"budget": "completions=3"}, "budget completions=3: a step has 128 completions; must be at least that many"),
        ({"attainable": 1.5}, "attainable=1.5: must be at most 1"),
        ({"checks": [{"metric": "clip/high"}]}, "check 1: says no bound, as above: 0.01"),
        (
            {"checks": [{"metric": "clip/high", "above": 0.2, "below": 0.1}]},
            "check 1: nothing is above 0.2 and below 0.1",
        ),
        ({"checks": [{"metric": "eval/typo", "above": 0.2}]}, "checks: metric eval/typo: is not evaluated; there are"),
        ({"secondary": ["eval/typo"]}, "secondary: metric eval/typo: is not evaluated; there are eval/greedy_accuracy"),
        ({"with": ["seed=3"]}, "seed=3: seeds says which are trained; leave it out of with"),
        ({"assertions": [WRITTEN["assertions"][0]] * 2}, "assertion 2: is the same as assertion 1"),
        (
            {"assertions": [WRITTEN["assertions"][0] | {"kind": "equivalent", "direction": "lower"}]},
            "assertion 1: equivalent has no direction; leave it out",
        ),
        ({"moderators": ["inner_steps", "inner_steps"]}, "moderator inner_steps: is there twice"),
        (
            {"checks": [{"metric": "a/b", "above": 0.1, "arm": "agg=token"}]},
            "check 1: agg=token is no arm of an assertion",
        ),
        ({"controls": [{"arm": "clip=naive", "versus": "clip=naive"}]}, "control 1: clip=naive and clip=naive are the"),
    ],
)
def test_a_wrong_question_ends_in_a_line(change, said):
    with pytest.raises(ConfigError) as error:
        declare(read_question(WRITTEN | change))
    (line,) = error.value.problems
    assert said in line


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: [", "is no YAML"), ("- a", "must hold keys, as question and assertions"), (None, "cannot be read")],
)
def test_a_file_that_is_no_question_ends_in_a_line(tmp_path, text, said):
    file = Path(tmp_path / "q.yaml")
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_question(file)
