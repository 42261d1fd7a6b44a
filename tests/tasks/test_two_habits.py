"""Two habits: how often each is right, what is held out, and what a corpus has of them."""

from __future__ import annotations

import pytest
import torch
from reference_tasks import truth_of_habits
from task_choices import FILES, shipped, two_habits

COUNT = 40000
TASKS = {
    "small": two_habits(),
    "shipped": shipped(FILES["two_habits"])[1],
    "best": two_habits(right_a=1.0, right_b=1.0),
}
TASKS["never"] = two_habits(right_b=0.0)
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def drawn(task, held_out: bool) -> list[list[int]]:
    """Items of prompts."""
    draws = torch.rand(1, COUNT, task.draws, generator=torch.Generator().manual_seed(7))
    return [row[:-1] for row in task.prompts(draws, held_out)[0].tolist()]


def close(found: int, share: float, spread: float = 4.0) -> bool:
    """Whether so many of all are a share, within ``spread`` standard errors and what a few prompts bring."""
    return abs(found / COUNT - share) <= spread * (share * (1 - share) / COUNT) ** 0.5


@every_task
@pytest.mark.parametrize("held_out", [False, True])
def test_each_habit_is_right_in_its_share_of_the_prompts(task, held_out):
    prompts = drawn(task, held_out)
    right = [truth_of_habits(task, items) for items in prompts]
    # a prompt comes several times, and a hash of it decides: the standard error is that of different prompts
    spread = 4 * max(1.0, (COUNT / len(set(map(tuple, prompts)))) ** 0.5)
    sums = sum(sum(items) % task.alphabet == truth for items, truth in zip(prompts, right, strict=True))
    guesses = sum(items[0] == truth for items, truth in zip(prompts, right, strict=True))
    assert close(sums, task.right_a, spread) and close(guesses, task.right_b, spread)


@every_task
def test_held_out_are_those_of_one_class_and_no_answer_tells(task):
    for held_out in (False, True):
        prompts = drawn(task, held_out)
        classes = {sum(i * x for i, x in enumerate(items, 1)) % task.alphabet for items in prompts}
        assert classes == ({0} if held_out else set(range(1, task.alphabet)))
        for place in range(task.items):
            for symbol in range(task.alphabet):
                assert close(sum(items[place] == symbol for items in prompts), 1 / task.alphabet)
        for total in range(task.alphabet):
            assert close(sum(sum(items) % task.alphabet == total for items in prompts), 1 / task.alphabet)


@every_task
def test_a_corpus_has_both_habits_right_or_wrong(task):
    generator = torch.Generator().manual_seed(8)
    prompts = task.prompts(torch.rand(1, COUNT, task.draws, generator=generator), False)
    numbers = torch.rand(1, COUNT, generator=generator)
    answers, mask = task.corpus(prompts, numbers)
    scores = task.score(prompts, answers.unsqueeze(2), mask.unsqueeze(2), mask.any(-1, keepdim=True))
    assert torch.equal(scores.components["habit_a"][..., 0] == 1, numbers < task.share_a)
    assert (scores.components["format"] == 1).all()
    for items, answer, there, by_a in zip(
        *(x[0].tolist() for x in (prompts, answers, mask, numbers < task.share_a)), strict=True
    ):
        tokens = [token for token, here in zip(answer, there, strict=True) if here]
        sums = [sum(items[: n + 1]) % task.alphabet for n in range(task.items)]
        assert tokens == ([task.name_a, *sums, task.end] if by_a else [task.name_b, items[0], task.end])
    accuracy = task.share_a * task.right_a + (1 - task.share_a) * task.right_b
    distinct = len({tuple(row) for row in prompts[0].tolist()})
    assert scores.correct.float().mean().item() == pytest.approx(accuracy, abs=4 * (0.25 / distinct) ** 0.5)


@pytest.mark.parametrize(
    ("written", "right", "formed", "habit_a"),
    [
        (["steps", 2, 3, 2, 1, "end"], 1, 1, 1),
        (["guess", 1, "end"], 1, 1, 0),
        (["guess", 2, "end"], 0, 1, 0),
        (["guess", 2, 1, "end"], 1, 0, 0),
        (["steps", 1, "end"], 1, 0, 1),
        (["steps", 0, 0, 0, 1, "end"], 1, 1, 1),  # the steps themselves are not judged
        (["steps", 2, 3, "→", 1, "end"], 1, 0, 1),
        (["steps", 2, 3, 2, "→", "end"], 0, 0, 1),
        (["steps", 2, 3, 2, 1], 0, 0, 1),  # cut off
        ([1, "end"], 0, 0, 0),
        (["guess", "end"], 0, 0, 0),
        (["end"], 0, 0, 0),
    ],
)
def test_habits_by_hand(written, right, formed, habit_a):
    task = two_habits(right_a=1.0)
    words = {"steps": task.name_a, "guess": task.name_b, "end": task.end, "→": task.separator}
    tokens = [words.get(word, word) for word in written]
    completion = torch.tensor(tokens + [task.pad] * (task.cap - len(tokens))).view(1, 1, 1, -1)
    mask = torch.arange(task.cap).view(1, 1, 1, -1) < len(tokens)
    prompt = torch.tensor([2, 1, 4, 4, task.separator]).view(1, 1, -1)  # the sum is 1 modulo 5
    scores = task.score(prompt, completion, mask, torch.tensor([[[written[-1] == "end"]]]))
    assert scores.correct.item() == right
    found = {name: values.item() for name, values in scores.components.items()}
    assert found == {"right": right, "format": formed, "habit_a": habit_a}
    assert task.render(tokens) == " ".join(map(str, written))


def test_wrong_answers_are_never_right():
    task = two_habits()
    prompts = torch.tensor([drawn(task, True)])
    prompts = torch.nn.functional.pad(prompts, (0, 1), value=task.separator)
    answers, mask = task.wrong_answers(prompts)
    scores = task.score(prompts, answers.unsqueeze(2), mask.unsqueeze(2), mask.any(-1, keepdim=True))
    assert not scores.correct.any() and (scores.components["format"] == 1).all()
