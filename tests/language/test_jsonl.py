"""Problems from a file: who sees which prompt when, rewards of one's own, and one line for what is wrong."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from pydantic import TypeAdapter
from task_choices import FILES

from rlexp.core.exits import RunFailed
from rlexp.core.registry import schema
from rlexp.core.streams import Purpose
from rlexp.language import TEXT_TASKS, TextTask, text_task
from rlexp.language.text_task import is_held_out

PROBLEMS = [{"prompt": f"{i} + {i} =", "answer": 2 * i, "level": i % 3} for i in range(60)]


def write(path, rows):
    path.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n", encoding="utf-8"
    )
    return str(path)


@pytest.fixture
def make(tmp_path):
    """Make the shipped task of a file with these rows."""

    def made(rows=PROBLEMS, weights=None, **changes):
        values = FILES["jsonl"] | {"path": write(tmp_path / "problems.jsonl", rows)} | changes
        values["weights"] = FILES["jsonl"]["weights"] | (weights or {})
        return text_task(TypeAdapter(schema(TEXT_TASKS)).validate_python(values))

    return made


def prompts_of(task, seed, step, count, held_out=False):
    purpose = Purpose.EVALUATION_PROMPTS if held_out else Purpose.PROMPTS
    return [each.prompt for each in task.examples(seed, purpose, step, count, held_out)]


def test_it_is_a_task_of_text(make):
    task = make()
    assert isinstance(task, TextTask) and task.reward_range == (0.0, 1.0)
    assert task.characters == " +0123456789="


def test_each_prompt_comes_once_in_an_epoch_whatever_the_size_of_a_step(make):
    task = make()
    trained = [row["prompt"] for row in PROBLEMS if not is_held_out(row["prompt"], 0.1)]
    count, size = len(trained), 7
    stream = [prompt for step in range(count) for prompt in prompts_of(task, 5, step, size)]
    epochs = [stream[at : at + count] for at in range(0, count * size, count)]
    assert len(epochs) == size
    for epoch in epochs:
        assert sorted(epoch) == sorted(trained)
    assert len({tuple(epoch) for epoch in epochs}) == size
    assert stream[:size] == prompts_of(task, 5, 0, size) != prompts_of(task, 6, 0, size)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_training_and_held_out_share_no_prompt_whatever_the_seed(make, share):
    twice = [*PROBLEMS, *PROBLEMS[::2]]
    task = make(twice, held_out_share=share)
    sides = [Counter(), Counter()]
    for held_out in (False, True):
        for seed in (0, 1, 2):
            sides[held_out].update(prompts_of(task, seed, 0, 200, held_out))
    assert not sides[0].keys() & sides[1].keys()
    assert sides[0].keys() | sides[1].keys() == {row["prompt"] for row in PROBLEMS}


def test_a_share_of_prompts_is_about_that_share():
    held = sum(is_held_out(f"problem {number}", 0.1) for number in range(10_000))
    assert abs(held - 1000) < 4 * math.sqrt(10_000 * 0.1 * 0.9)


def test_a_file_of_held_out_prompts_takes_them_from_training(make, tmp_path):
    task = make(held_out=write(tmp_path / "test.jsonl", PROBLEMS[:10]))
    assert set(prompts_of(task, 0, 0, 50)) == {row["prompt"] for row in PROBLEMS[10:]}
    assert set(prompts_of(task, 0, 0, 10, held_out=True)) == {row["prompt"] for row in PROBLEMS[:10]}


@pytest.mark.parametrize(
    ("match", "right", "wrong", "cut_off"),
    [
        ("exact", "{}", "it is {}", False),
        ("numeric", "it is {}.00", "{} and then 7777", False),
        ("boxed", r"so \boxed{{{}}} is it", "{}", True),
    ],
)
def test_completions_are_matched_with_the_answer(make, match, right, wrong, cut_off):
    task = make(match=match)
    examples = task.examples(0, Purpose.PROMPTS, 1, 12, False)
    answers = [example.entry["answer"] for example in examples]
    for form, done, expected in ((right, True, True), (wrong, True, False), (right, False, cut_off)):
        scores = task.score(examples, [form.format(answer) for answer in answers], [done] * 12)
        assert [each.correct for each in scores] == [expected] * 12
        assert [each.components["match"] for each in scores] == [float(expected)] * 12
        assert all(math.isnan(each.components["reward"]) for each in scores)


@pytest.mark.parametrize("match", ["exact", "numeric", "boxed"])
def test_solutions_are_right_and_wrong_ones_are_not(make, match):
    task = make([*PROBLEMS, {"prompt": "of many words", "answer": "a chain of 3 + 4 = 7 #### 7"}], match=match)
    for example in task.examples(0, Purpose.PROMPTS, 0, 50, False):
        right, wrong = task.solution(example), task.wrong_solution(example)
        assert [each.correct for each in task.score([example] * 2, [right, wrong], [True] * 2)] == [True, False]
        assert len(right) == len(wrong)


FUNCTIONS = """
seen = []

def level(prompts, completions, level, **more):
    seen.append((prompts, completions, sorted(more)))
    return [None if each == 0 else each * len(text) for each, text in zip(level, completions)]

def short(completions, **_):
    return [1.0]

def broken(**_):
    raise KeyError("gone")

word = "no function"
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    (tmp_path / "own_rewards.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "own_rewards", raising=False)


def test_a_function_of_ones_own_is_called_as_trl_calls_it(make, functions):
    import sys

    task = make(reward="own_rewards:level", weights={"reward": 0.5}, reward_low=-1.0, reward_high=4.0)
    assert task.reward_range == (-0.5, 3.0)
    examples = task.examples(0, Purpose.PROMPTS, 1, 9, False)
    scores = task.score(examples, ["ab"] * 9, [True] * 9)
    levels = [example.entry["level"] for example in examples]
    found = [each.components["reward"] for each in scores]
    assert set(levels) == {0, 1, 2}
    assert all(math.isnan(a) if b == 0 else a == 2 * b for a, b in zip(found, levels, strict=True))
    assert sys.modules["own_rewards"].seen == [([each.prompt for each in examples], ["ab"] * 9, ["answer"])]
    assert not any(each.correct for each in scores)


def test_without_answers_the_highest_reward_is_right(make, functions):
    rows = [{"prompt": f"say {n}", "level": 1 + n % 2} for n in range(40)]
    task = make(rows, match="none", reward="own_rewards:level", weights={"match": 0.0, "reward": 1.0}, reward_high=4.0)
    examples = task.examples(0, Purpose.PROMPTS, 0, 10, False)
    for example, score in zip(examples, task.score(examples, ["ab"] * 10, [True] * 10), strict=True):
        assert score.correct == (example.entry["level"] == 2) and math.isnan(score.components["match"])
        assert task.solution(example) is task.wrong_solution(example) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("short", "task.reward=own_rewards:short: gave 1 rewards for 3 completions"),
        ("broken", "task.reward=own_rewards:broken: KeyError: 'gone'"),
    ],
)
def test_a_function_that_fails_ends_its_run_in_one_line(make, functions, name, message):
    task = make(reward=f"own_rewards:{name}")
    with pytest.raises(RunFailed) as failed:
        task.score(task.examples(0, Purpose.PROMPTS, 0, 3, False), ["x"] * 3, [True] * 3)
    assert str(failed.value) == message


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        (PROBLEMS, {"path": None}, "path=null: must name a file"),
        (PROBLEMS, {"path": "nowhere.jsonl"}, "path=nowhere.jsonl: No such file"),
        (PROBLEMS, {"held_out": "nowhere.jsonl"}, "held_out=nowhere.jsonl: No such file"),
        ([*PROBLEMS, "{oops"], {}, r"path=\S*: line 61 is no JSON: "),
        ([*PROBLEMS, "", "[1, 2]"], {}, r"path=\S*: line 62 is no JSON object"),
        (["[" * 100_000], {}, r"path=\S*: line 1 is no JSON: "),
        ([{"prompt": "a"}], {}, r"path=\S*: line 1 has no column answer; there are prompt"),
        ([{"q": "a"}], {}, r"path=\S*: line 1 has no column prompt; there are q"),
        ([{"prompt": ["a"], "answer": 1}], {}, r"path=\S*: line 1 has a prompt that is no text"),
        ([{"prompt": "a", "answer": [1]}], {}, r"path=\S*: line 1 has a value of answer that is no text and no number"),
        ([{"prompt": "a", "answer": " "}], {}, r"path=\S*: line 1 has no text in answer"),
        ([{"prompt": "a", "answer": "b"}], {"match": "numeric"}, r"path=\S*: line 1 has no number in answer"),
        ([], {}, r"path=\S*: held_out_share=0.1 leaves none of 0 prompts for training"),
        (PROBLEMS[:1] * 9, {"held_out_share": 1e-9}, "held_out_share=1e-09 leaves none of 9 prompts for evaluation"),
        (PROBLEMS[:1] * 9, {"held_out_share": 1 - 1e-9}, "leaves none of 9 prompts for training"),
        (PROBLEMS, {"match": "none"}, "match=none judges nothing"),
        (PROBLEMS, {"weights": {"reward": 1.0}}, "weights.reward must be 0 unless reward names a function"),
        (PROBLEMS, {"weights": {"match": 0.0}}, "weights must name match, reward, at least one of them above 0"),
        (PROBLEMS, {"reward_low": 1.0}, "reward_low=1.0 must be below reward_high=1.0"),
        (PROBLEMS, {"reward": "own_rewards"}, "reward=own_rewards: must be written as package.module:function"),
        (PROBLEMS, {"reward": "no_such:f"}, "reward=no_such:f: cannot be imported: ModuleNotFoundError"),
        (PROBLEMS, {"reward": "own_rewards:typo"}, "reward=own_rewards:typo: own_rewards has no typo"),
        (PROBLEMS, {"reward": "own_rewards:word"}, "reward=own_rewards:word: is no function"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(make, functions, rows, changes, message):
    with pytest.raises(ValueError, match=message) as refused:
        make(rows, **changes)
    assert "\n" not in str(refused.value)


def test_a_file_in_another_encoding_is_refused(make, tmp_path):
    path = tmp_path / "latin.jsonl"
    path.write_bytes('{"prompt": "caf\u00e9", "answer": 1}'.encode("latin-1"))
    with pytest.raises(ValueError, match="is no text in UTF-8, from byte 15 on"):
        make(path=str(path))


def test_a_file_of_one_prompt_many_times_is_on_one_side(make):
    with pytest.raises(ValueError, match="leaves none of 30 prompts"):
        make([PROBLEMS[0]] * 30, held_out_share=0.5)
