"""Scores: against plain loops over lists, by hand, and what ``total_reward`` leaves out."""

from __future__ import annotations

import itertools
import math
import random

import pytest
import reference_tasks
import torch
from policies import preference_task, prompts_of, sort_task
from task_choices import SEEDS, every_task, lecture_task
from torch.testing import assert_close

from rlexp.tasks import TASKS, total_reward
from rlexp.tasks.sort import NO_TOKEN, SortLecture, pack

# Rounding of float32 numbers of order one.
ROUNDED = dict(rtol=1e-6, atol=1e-6)
# Nobody can solve the impossible; with 64 actions nobody may hit, and with all of them right nobody can miss.
ALIKE = {("bandit", key) for key in ("impossible", "easy", "hard", "correct")} | {
    (name, "impossible") for name in ("difficulty_mix", "addition_mix")
}


def written(task, answer: list[int], rng: random.Random) -> list[int]:
    """Any tokens, or the right answer with up to two tokens put in, left out or replaced; anything behind the end."""
    anything = [rng.randrange(task.vocabulary) for _ in range(2 * task.cap)]
    if rng.random() < 0.3:
        return anything[: task.cap]
    tokens = list(answer)
    for token in anything[: rng.randrange(3)]:
        place = rng.randrange(len(tokens) + 1)
        tokens[place : place + rng.randrange(2)] = [token] * rng.randrange(2)
    return (tokens + anything)[: task.cap]


def answered(task, group: int = 40, prompts: int = 12):
    """Prompts ``[R P L]`` and completions ``[R P G T]`` with their mask and finished, as a rollout gives them."""
    rng, questions = random.Random(6), prompts_of(task, SEEDS, prompts)
    answers, present = task.oracle(questions)
    right = [
        answer[here].tolist() or answer.tolist()
        for answer, here in zip(answers.flatten(0, 1), present.flatten(0, 1), strict=True)
    ]
    rows = [[written(task, answer, rng) for _ in range(group)] for answer in right]
    completions = torch.tensor(rows).view(len(SEEDS), prompts, group, task.cap)
    masks = [reference_tasks.mask(c, task.end) for c in completions.flatten(0, 2).tolist()]
    finished = (completions == task.end).any(-1) if task.end >= 0 else torch.ones(completions.shape[:3]).bool()
    return questions, completions, torch.tensor(masks).view(completions.shape), finished


@pytest.mark.holds("S3.2")
def test_s3_2_format_is_paid_whatever_the_answer_is():
    """[2, 0, 1]: 1 where it ended after three symbols, right or wrong; 0 where one is missing, or the end."""
    task = sort_task()
    prompt = torch.tensor([[[task.pad, 2, 0, 1, task.separator]]])
    answers = [[0, 1, 2, task.end], [2, 2, 2, task.end], [0, 1, task.end], [0, 1, 2, 2, 2, 2, 2]]
    completions = torch.tensor([[[*answer, *[task.pad] * 7][:7] for answer in answers]]).unsqueeze(0)
    finished = (completions == task.end).any(-1)
    mask = (completions == task.end).cumsum(-1) - (completions == task.end).long() == 0
    found = task.score(prompt, completions, mask, finished)
    assert found.components["format"].flatten().tolist() == [1, 1, 0, 0]
    assert found.correct.flatten().tolist() == [True, False, False, False]


@every_task
def test_scores_equal_plain_loops(name, task):
    questions, completions, mask, finished = answered(task)
    scores = task.score(questions, completions, mask, finished)
    actual = scores.components | {"correct": scores.correct}
    cells = itertools.product(*map(range, completions.shape[:3]))
    expected = [reference_tasks.SCORES[name](task, questions[c[:2]].tolist(), completions[c].tolist()) for c in cells]
    assert actual.keys() == expected[0].keys()
    for key, numbers in actual.items():
        wanted = torch.tensor([row[key] for row in expected], dtype=numbers.dtype).view(numbers.shape)
        assert_close(numbers, wanted, **ROUNDED, equal_nan=True)
        alike = len(set(wanted[~wanted.isnan()].tolist())) < 2
        assert not alike or (name, key) in ALIKE, f"{key} is the same for all completions of this test"


@every_task
def test_rewards_are_within_their_range(name, task):
    scores = task.score(*answered(task))
    least, most = task.reward_range
    rewards = total_reward(scores.components, task.weights)
    assert rewards.min() >= least - 1e-6 and rewards.max() <= most + 1e-6
    if name != "enumerable" or task.features == 3:  # elsewhere the best by the proxy is not the right one
        assert rewards[scores.correct].max() == pytest.approx(most)


@every_task
def test_what_is_behind_the_end_does_not_count(name, task):
    questions, completions, mask, finished = answered(task)
    one = task.score(questions, completions, mask, finished)
    other = task.score(questions, completions.where(mask, max(task.pad, 0)), mask, finished)
    assert torch.equal(one.correct, other.correct)
    assert_close(one.components, other.components, rtol=0, atol=0, equal_nan=True)


def judge(task, prompt, completion) -> dict[str, float]:
    """Score one completion of a sorting task, given without what follows its end."""
    tokens = torch.tensor(completion + [task.pad] * (task.cap - len(completion)))
    mask = torch.arange(task.cap) < len(completion)
    items = torch.tensor([task.pad] * (task.longest - len(prompt)) + prompt + [task.separator])
    finished = torch.tensor(completion[-1:] == [task.end]).view(1, 1, 1)
    scores = task.score(*(x.view(1, 1, -1) for x in [items]), *(x.view(1, 1, 1, -1) for x in [tokens, mask]), finished)
    return {key: numbers.item() for key, numbers in (scores.components | {"correct": scores.correct}).items()}


PAD, END, SEPARATOR, FILLER = 5, 6, 7, 8


@pytest.mark.parametrize(
    ("completion", "correct", "graded", "form"),
    [
        ([1, 2, 4, END], 1, 1, 1),
        ([1, 2, 4], 0, 1, 0),  # cut off
        ([FILLER, 1, FILLER, 2, 4, FILLER, END], 1, 1, 1),
        ([1, 4, 2, END], 0, 1 / 3, 1),
        ([1, 2, END], 0, 2 / 3, 0),
        ([1, 2, 4, 4, END], 0, 3 / 4, 0),
        ([1, 2, SEPARATOR, 4, END], 0, 2 / 4, 0),
        ([PAD, 1, 2, 4, END], 0, 0, 0),
        ([END], 0, 0, 0),
        ([FILLER] * 7, 0, 0, 0),
    ],
)
def test_sort_by_hand(completion, correct, graded, form):
    score = judge(sort_task(), [4, 1, 2], completion)
    assert (score["exact"], score["correct"], score["format"]) == (correct, correct, form)
    assert score["graded"] == pytest.approx(graded)


@pytest.mark.parametrize(("component", "hacked"), [("lecture", 1.0), ("multiset", 4 / 5)])
def test_1b_33_a_duplicate_in_place_of_another_pays_unless_counted(component, hacked):
    task = sort_task()
    assert judge(task, [1, 1, 2], [1, 2, 2, END])[component] == pytest.approx(hacked)
    assert judge(task, [1, 1, 2], [1, 1, 2, END])[component] == 1


@pytest.mark.parametrize("component", ["lecture", "multiset"])
def test_writing_on_in_order_is_not_paid(component):
    task = sort_task()
    assert judge(task, [1, 2], [0, 0, 0, 0, 0, END])[component] == pytest.approx(1 / 3)
    assert judge(task, [1, 2], [0, 0, 1, 2, END])[component] == pytest.approx(1 / 3)


def test_s2_10_points_of_a_repeated_symbol():
    """The local optimum of the lecture: [0, 0, 0] is in order whatever was asked (also 1B-33)."""
    completions = torch.zeros(1, 3, 1, 3, dtype=torch.long)
    mask = torch.ones_like(completions, dtype=torch.bool)
    scores = lecture_task().score(torch.tensor([SortLecture.lecture_prompts]), completions, mask, mask.all(-1))
    assert scores.components["inclusion_ordering"].flatten().tolist() == [3, 2, 2]
    assert scores.components["distance"].flatten().tolist() == [1, 0, 0]


@pytest.mark.holds("S1.20")
@pytest.mark.parametrize(("low", "ternary"), [(0, 1), (2, 1), (3, 0), (4, 0), (5, 0), (6, -1), (10, -1)])
def test_s1_20_thresholds_are_not_reached_at_equality(low, ternary):
    task = preference_task(cap=10)
    completions = torch.tensor([0] * low + [3] * (10 - low)).view(1, 1, 1, 10)
    mask = torch.ones_like(completions, dtype=torch.bool)
    scores = task.score(torch.zeros(1, 1, 3, dtype=torch.long), completions, mask, mask.all(-1))
    assert scores.components["ternary"].item() == ternary
    assert scores.correct.item() == (ternary == 1)


def test_pack_keeps_the_order():
    tokens = torch.tensor([[4, 3, 9, 1], [1, 2, 3, 4]])
    keep = torch.tensor([[False, True, False, True], [False] * 4])
    assert pack(tokens, keep).tolist() == [[3, 1, NO_TOKEN, NO_TOKEN], [NO_TOKEN] * 4]


NAN = math.nan


@pytest.mark.holds("S3.1")
@pytest.mark.parametrize(
    ("components", "weights", "expected"),
    [
        ([[1, 0.8], [1, 0.7], [0, -0.2]], [0.7, 0.3], [0.94, 0.91, -0.06]),  # S3.4
        ([[NAN, 0.8], [1, NAN], [NAN, NAN]], [0.7, 0.3], [0.24, 0.7, NAN]),
        ([[NAN, 0.8], [2, 0.8]], [0.7, 0.0], [NAN, 1.4]),
    ],
)
def test_total_reward_skips_what_does_not_apply(components, weights, expected):
    first, second = torch.tensor([components], dtype=torch.float64).unbind(-1)
    actual = total_reward({"b": second, "unused": first, "a": first}, dict(zip("ab", weights, strict=True)))
    assert_close(actual[0], torch.tensor(expected, dtype=torch.float64), equal_nan=True, rtol=1e-12, atol=1e-12)


def test_a_dense_preference_pays_each_token_what_its_completion_earns():
    dense = TASKS["token_preference_dense"]
    task = dense(**vars(preference_task(weights={"ternary": 2.0, "share": 0.5}, cap=10)))
    questions, completions, mask, finished = answered(task)
    scores = task.score(questions, completions, mask, finished)
    expected = torch.zeros(completions.shape)
    for cell in itertools.product(*map(range, completions.shape)):
        expected[cell] = 0.05 if completions[cell] >= task.low else 0.0
    expected[..., -1] += 2.0 * scores.components["ternary"]
    assert_close(scores.token_rewards, expected, **ROUNDED)
    assert_close(scores.token_rewards.sum(-1), total_reward(scores.components, task.weights), **ROUNDED)
    assert expected[..., -1].unique().numel() > 3
