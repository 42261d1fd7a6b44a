"""Countdown: games counted by another solver, policies by sums over all right answers, a corpus by its shares."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations, product
from pathlib import Path

import pytest
import torch
from policies import policy_of, prompts_of, shaken
from reference_tasks import popped, splitmix64
from task_choices import FILES, countdown, shipped

from rlexp.loop.rollout import sample

PAGE = Path(__file__).parents[2] / "docs" / "countdown.md"
SEEDS = range(6)


def written(numbers: tuple[int, ...], top: int, tidy: bool) -> dict[tuple[int, ...], int]:
    """All expressions of some of the numbers as their tokens, with their values: of all numbers and tidy, or any."""
    found = {}

    def combine(pool: list[tuple[tuple[int, ...], int]]) -> None:
        if len(pool) == 1 or not tidy:
            found.update(pool)
        for i, j in combinations(range(len(pool)), 2):
            rest = [each for place, each in enumerate(pool) if place not in (i, j)]
            for (left, x), (right, y) in ((pool[i], pool[j]), (pool[j], pool[i])):
                for operator, value in enumerate((x + y, x - y, x * y, x / y if y else 0.5)):
                    if value == int(value) and not (tidy and (x < y or value < 1)):
                        combine([*rest, ((*left, *right, top + 1 + operator), int(value))])

    combine([((number,), number) for number in numbers])
    return found


def numbers_of(prompt: list[int]) -> tuple[int, ...]:
    return tuple(prompt[:-2])


def prompts_drawn(task, held_out: bool, count: int = 3000) -> list[list[int]]:
    draws = torch.rand(1, count, 2, generator=torch.Generator().manual_seed(4))
    return task.prompts(draws, held_out)[0].tolist()


@pytest.mark.parametrize("sizes", [dict(numbers=2, largest=5, cap=4), dict(numbers=3, largest=4, cap=6)], ids=str)
def test_games_are_all_that_a_tidy_expression_makes_and_are_in_one_part_each(sizes):
    task = countdown(target=9, **sizes)
    parts = [Counter(map(tuple, prompts_drawn(task, held, 20000))) for held in (False, True)]
    every = set()
    for numbers in product(range(task.largest, 0, -1), repeat=task.numbers):
        if sorted(numbers, reverse=True) == list(numbers):
            values = set(written(numbers, task.top, tidy=True).values())
            every |= {(*numbers, task.separator, value) for value in values - {*numbers} if 1 <= value <= task.target}
    assert set(parts[0]) | set(parts[1]) == every and not set(parts[0]) & set(parts[1])
    for prompt in every:
        key = sum(number * (task.largest + 1) ** place for place, number in enumerate(reversed(numbers_of(prompt))))
        assert (prompt in parts[1]) == (splitmix64(key * (task.target + 1) + prompt[-1]) % 8 == 0)


def test_a_target_comes_as_often_as_tidy_expressions_make_it():
    task = countdown()
    drawn = Counter(prompt[-1] for prompt in prompts_drawn(task, False, 60000) if numbers_of(prompt) == (5, 4, 2))
    known = {prompt[-1] for prompt in prompts_drawn(task, False, 60000) if numbers_of(prompt) == (5, 4, 2)}
    made = Counter(value for value in written((5, 4, 2), task.top, tidy=True).values() if value in known)
    for value, times in made.items():
        share = times / made.total()
        assert drawn[value] / drawn.total() == pytest.approx(share, abs=4 * (share / drawn.total()) ** 0.5), value


def test_one_pair_of_eight_is_held_out():
    _, task = shipped(FILES["countdown"])
    training, evaluation = (part.counts.sum().item() for part in task.games().parts)
    assert evaluation / (training + evaluation) == pytest.approx(1 / 8, abs=0.005)


def test_the_verifier_finds_every_right_answer_and_no_other():
    task = countdown(numbers=2, largest=3, target=6, cap=4)
    every = torch.cartesian_prod(*[torch.arange(task.vocabulary)] * task.cap)
    ends = every == task.end
    mask, finished = ends.cumsum(-1) == ends, ends.any(-1)
    for prompt in {tuple(p) for held in (False, True) for p in prompts_drawn(task, held, 200)}:
        scores = task.score(torch.tensor([[prompt]]), *(x.unsqueeze(0).unsqueeze(0) for x in (every, mask, finished)))
        any_of = written(numbers_of(prompt), task.top, tidy=False)
        for found, wanted in (
            (scores.components["format"][0, 0] == 1, set(any_of)),
            (scores.correct[0, 0], {tokens for tokens, value in any_of.items() if value == prompt[-1]}),
        ):
            rows = every[found].tolist()
            assert {tuple(row[: row.index(task.end)]) for row in rows} == wanted and wanted


@pytest.mark.parametrize("model", ["gru", pytest.param("transformer", marks=pytest.mark.rare)])
def test_the_accuracy_of_a_random_policy_is_the_sum_over_all_right_answers(model):
    task, count, samples = countdown(numbers=2, largest=3, target=6, cap=4), 6, 20000
    policy, prompts = shaken(policy_of(model, SEEDS, task)), prompts_of(task, SEEDS, count)
    temperature = torch.full((len(SEEDS),), 1.5)
    noise = torch.rand(len(SEEDS), count, samples, task.cap, generator=torch.Generator().manual_seed(5))
    rollout = sample(policy, task, prompts, noise, temperature)
    scores = task.score(prompts, rollout.completions, rollout.mask, rollout.completions.eq(task.end).any(-1))
    exact = 0.0  # summed over prompts and policies: an answer is rare
    for replica in range(len(SEEDS)):
        for p, prompt in enumerate(prompts[replica].tolist()):
            any_of = written(numbers_of(prompt), task.top, tidy=False)
            right = [(*tokens, task.end) for tokens, value in any_of.items() if value == prompt[-1]]
            rows = torch.tensor([[*row, *[task.pad] * (task.cap - len(row))] for row in right])
            counted = torch.arange(task.cap) < torch.tensor([[len(row)] for row in right])
            both = rows.expand(len(SEEDS), 1, *rows.shape)
            log_probs = policy.log_probs(prompts[:, p : p + 1], both, temperature.double()).log_probs[replica, 0]
            exact += log_probs.where(counted, 0).sum(-1).exp().sum().item()
    found = scores.correct.double().mean(-1).sum().item()
    assert exact * samples > 20 and found == pytest.approx(exact, abs=4 * (exact / samples) ** 0.5)


def test_how_many_answers_are_right_is_what_the_page_says():
    _, task = shipped(FILES["countdown"])
    counts, tidy, shares = [], [], []
    for prompt in prompts_drawn(task, True, 400):
        of_all, neat = (written(numbers_of(prompt), task.top, tidy) for tidy in (False, True))
        counts.append(sum(value == prompt[-1] for value in of_all.values()))
        tidy.append(sum(value == prompt[-1] for value in neat.values()))
        shares.append(tidy[-1] / len(neat))
    told = [float(number) for number in re.findall(r"\*\*([\d.]+)\*\*", PAGE.read_text(encoding="utf-8"))]
    assert told[:2] == [round(sum(each) / 400, 1) for each in (counts, tidy)]
    assert told[2] == round(100 * sum(shares) / 400, 1)


def corpus_of(task, count: int = 6000):
    """Prompts, answers and masks as lists, of 6,000 prompts."""
    generator = torch.Generator().manual_seed(6)
    prompts = task.prompts(torch.rand(1, count, 2, generator=generator), False)
    answers, mask = task.corpus(prompts, torch.rand(1, count, generator=generator))
    rows = zip(prompts[0].tolist(), answers[0].tolist(), mask[0].tolist(), strict=True)
    return [(prompt, tuple(x for x, here in zip(answer, there, strict=True) if here)) for prompt, answer, there in rows]


@pytest.mark.parametrize(
    "changes", [dict(), dict(mistakes=0.0, times=1.0), dict(mistakes=1.0), dict(times=0.0)], ids=str
)
def test_a_corpus_has_its_shares_of_mistakes_and_of_times(changes):
    task = countdown(**changes)
    times, kinds, distinct = task.top + 3, Counter(), {}
    for prompt, answer in corpus_of(task):
        neat = written(numbers_of(prompt), task.top, tidy=True)
        right = [tokens for tokens, value in neat.items() if value == prompt[-1]]
        by_times, alone = any(times in tokens for tokens in right), all(times in tokens for tokens in right)
        if not answer:
            assert alone
            kinds["not shown", by_times] += 1
            continue
        *tokens, end = answer
        assert end == task.end and popped(tokens, task.top) == (neat[tuple(tokens)], [])
        correct = neat[tuple(tokens)] == prompt[-1]
        kinds["by times" if times in tokens else "plain", by_times] += correct
        kinds["mistakes", by_times] += not correct
        if correct:
            distinct.setdefault(tuple(prompt), set()).add(tuple(tokens))
    total = kinds.total()
    assert kinds["mistakes", True] + kinds["mistakes", False] == pytest.approx(
        task.mistakes * total, abs=4 * (total / 4) ** 0.5
    )
    solved = sum(kinds[kind, True] for kind in ("by times", "plain", "not shown"))
    assert kinds["by times", True] == pytest.approx(task.times * solved, abs=4 * (solved / 4) ** 0.5)
    assert not kinds["by times", False] and (task.mistakes == 1 or max(map(len, distinct.values())) > 2)


def test_the_numbers_of_a_corpus_choose_each_answer_of_a_kind_equally_often():
    task, count = countdown(), 24000
    prompts = torch.tensor([5, 3, 1, task.separator, 2]).expand(1, count, -1)
    answers, mask = task.corpus(prompts, ((torch.arange(count) + 0.5) / count).unsqueeze(0))
    found = Counter(tuple(row[: there.sum()][:-1].tolist()) for row, there in zip(answers[0], mask[0], strict=True))
    kinds = {"mistakes": Counter(), "by times": Counter(), "plain": Counter()}
    for tokens, value in written((5, 3, 1), task.top, tidy=True).items():
        kind = "mistakes" if value != 2 else "by times" if task.top + 3 in tokens else "plain"
        kinds[kind][tokens] = found.pop(tokens, 0)
    assert not found and min(map(len, kinds.values())) > 0
    shares = dict(zip(kinds, (task.mistakes, 0.7 * task.times, 0.7 * (1 - task.times)), strict=True))
    for kind, counts in kinds.items():
        each = shares[kind] * count / len(counts)
        assert all(abs(times - each) <= 3 for times in counts.values()), kind


@pytest.mark.parametrize("sizes", [dict(), dict(numbers=2, largest=30, target=60, cap=4)], ids=str)
def test_wrong_answers_are_expressions_and_never_right(sizes):
    task = countdown(**sizes)
    prompts = torch.tensor([[list(p) for p in {tuple(p) for held in (False, True) for p in prompts_drawn(task, held)}]])
    answers, mask = task.wrong_answers(prompts)
    scores = task.score(prompts, answers.unsqueeze(2), mask.unsqueeze(2), mask.any(-1, keepdim=True))
    assert mask.any(-1).all() and not scores.correct.any() and (scores.components["format"] == 1).all()


PLUS, MINUS, TIMES, OVER, PAD, END = range(13, 19)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ([3, 4, PLUS, 2, TIMES, END], "(3 + 4) × 2 end"),
        ([3, 4, 2, TIMES, PLUS, END], "3 + 4 × 2 end"),
        ([3, 4, PLUS, 2, PLUS], "3 + 4 + 2"),
        ([3, 4, 2, PLUS, PLUS], "3 + (4 + 2)"),
        ([3, 4, 2, MINUS, MINUS], "3 − (4 − 2)"),
        ([8, 4, 2, OVER, OVER], "8 ÷ (4 ÷ 2)"),
        ([8, 4, MINUS, 2, OVER], "(8 − 4) ÷ 2"),
        ([3, 4, END], "3 4 end"),
        ([3, PLUS, 4], "3 + 4"),
        ([3, 4, PLUS, PAD], "3 4 + pad"),
        ([5, END], "5 end"),
        ([PLUS], "+"),
        ([], ""),
        ([4, 3, 2, 19, 12], "4 3 2 → 12"),
    ],
)
def test_expressions_are_read_as_they_are_written_by_hand(tokens, text):
    assert countdown().render(tokens) == text


def test_two_expressions_are_never_read_alike():
    task = countdown()
    every = written((5, 3, 2), task.top, tidy=False)
    assert len({task.render(list(tokens)) for tokens in every}) == len(every)
    for tokens, value in every.items():
        assert eval(task.render(list(tokens)).translate(str.maketrans("−×÷", "-*/"))) == value
