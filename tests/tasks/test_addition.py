"""Addition: what demonstrations look like, how often each comes, and how often chance is right."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch
from policies import prompts_of
from reference_tasks import on_paper
from task_choices import addition, addition_mix

from rlexp.tasks.addition import PROCEDURES, STEP


def lines(task, tokens, mask) -> list[str]:
    return [
        task.render(row[kept].tolist()) for row, kept in zip(tokens.flatten(0, -2), mask.flatten(0, -2), strict=True)
    ]


def operands(task, prompts) -> list[list[str]]:
    """The two numbers of each prompt as texts."""
    return [task.render(row.tolist()).replace(" ", "").strip("=").split("+") for row in prompts.flatten(0, -2)]


def test_prompts_are_uniform_and_each_is_in_one_set():
    task = addition(shortest=1, longest=2)
    cells = [2, 9, 10, 9, 9]  # one draw for each: how many digits, the first number, the second's first, the class
    grid = torch.cartesian_prod(*((torch.arange(n) + 0.5) / n for n in cells)).view(1, -1, task.draws)
    training, evaluation = (Counter(map(tuple, operands(task, task.prompts(grid, held)))) for held in (False, True))
    assert not set(training) & set(evaluation)
    two = [(str(a), str(b)) for a, b in itertools.product(range(10, 100), repeat=2)]
    one = [(str(a), str(b)) for a, b in itertools.product(range(10), repeat=2)]
    digits = {pair: sum(map(int, "".join(pair))) % 10 for pair in one + two}
    assert set(evaluation) == {pair for pair, total in digits.items() if total == 0 and pair in digits} - {
        pair for pair in two if pair[1][0] == "0"
    }
    assert set(training) == {pair for pair, total in digits.items() if total}


@pytest.mark.parametrize("name", PROCEDURES)
def test_demonstrations_are_written_as_on_paper(name):
    task = addition(shortest=1, longest=4, cap=50, procedures=dict.fromkeys(PROCEDURES, 0.0) | {name: 1.0})
    prompts = prompts_of(task, (0, 1), 200)
    written = lines(task, *task.oracle(prompts))
    for (first, second), line in zip(operands(task, prompts), written, strict=True):
        total = " ".join(str(int(first) + int(second)))
        assert line == ("→ " + total if name == "direct" else on_paper(first, second, name == "full")) + " end"
        steps = len(line.split()) - len(total.split()) - 2
        assert steps == STEP[name] * len(first)


def test_what_does_not_fit_is_cut_off_in_a_corpus_and_written_shorter_by_the_oracle():
    """With room for 15 tokens, three digits fit by the sums alone, two too, one by every step."""
    task, wide = addition(longest=3, cap=15), addition(longest=3, cap=33)
    prompts = prompts_of(task, (0, 1), 500)
    never = torch.ones(prompts.shape[:2])
    read, whole = (lines(each, *each.corpus(prompts, never)) for each in (task, wide))
    assert read == [" ".join(line.split()[:15]) for line in whole] and sum("end" not in line for line in read) > 100
    completions, mask = task.oracle(prompts)
    ended = (completions == task.end).any(-1, keepdim=True)
    assert task.score(prompts, completions.unsqueeze(2), mask.unsqueeze(2), ended).correct.all()
    digits = [len(first) for first, _ in operands(task, prompts)]
    steps = [line.split("→")[0].count("=") for line in lines(task, completions, mask)]
    assert {count for count, n in zip(steps, digits, strict=True) if n > 1} == {0}
    assert {count for count, n in zip(steps, digits, strict=True) if n == 1} == {0, 1}


def test_procedures_come_in_their_shares():
    task = addition(shortest=3, longest=4, cap=50)
    found = Counter(task.shown(prompts_of(task, (0, 1, 2, 3), 2000)).flatten().tolist())
    for number, share in enumerate((0.25, 0.5, 0.25)):
        error = 4 * (share * (1 - share) / 8000) ** 0.5
        assert found[number] / 8000 == pytest.approx(share, abs=error)


def test_a_corpus_has_mistakes_in_their_share_and_one_wrong_digit_each():
    task = addition(shortest=2, longest=4, cap=50, mistakes=0.25)
    prompts = prompts_of(task, (0, 1, 2, 3), 2000)
    numbers = torch.rand(4, 2000, generator=torch.Generator().manual_seed(5))
    answers, mask = task.corpus(prompts, numbers)
    right, same = task.oracle(prompts)
    assert torch.equal(mask, same)
    wrong = (answers != right).any(-1)
    assert torch.equal(wrong, numbers < 0.25)
    scores = task.score(prompts, answers.unsqueeze(2), mask.unsqueeze(2), torch.ones(4, 2000, 1).bool())
    assert torch.equal(~wrong, scores.correct.squeeze(-1))
    behind = (answers == task.answer).cumsum(-1) > 0
    assert set((answers != right).masked_fill(~behind, False).sum(-1)[wrong].tolist()) == {1}
    # of four digits each is the wrong one equally often
    four = wrong & ((prompts != task.pad).sum(-1) == 10)
    places = [line.split("→")[1].split() for line in lines(task, answers[four], mask[four])]
    truth = [line.split("→")[1].split() for line in lines(task, right[four], mask[four])]
    found = Counter(
        next(i for i, (a, b) in enumerate(zip(x[::-1], y[::-1], strict=True)) if a != b)
        for x, y in zip(places, truth, strict=True)
    )
    expected = four.sum().item() / 4
    assert set(found) == {1, 2, 3, 4} and all(abs(n - expected) < 4 * expected**0.5 for n in found.values())


def test_chance_is_right_as_often_as_it_must_be():
    """Any k tokens but an end, then `→`, n digits and an end: Σ_k (1 − 1/V)^k / V^(n + 2)."""
    task = addition(shortest=1, longest=1, cap=16)
    generator = torch.Generator().manual_seed(2)
    count, group, vocabulary = 50, 40_000, task.vocabulary
    prompts = prompts_of(task, (0,), count)
    completions = torch.randint(vocabulary, (1, count, group, task.cap), generator=generator)
    ends = (completions == task.end).long()
    correct = task.score(prompts, completions, ends.cumsum(-1) - ends == 0, ends.any(-1)).correct
    digits = [len(str(int(a) + int(b))) for a, b in operands(task, prompts)]
    expected = sum(
        sum((1 - 1 / vocabulary) ** k for k in range(task.cap - n - 1)) / vocabulary ** (n + 2) for n in digits
    )
    assert correct.sum().item() == pytest.approx(group * expected, abs=4 * (group * expected) ** 0.5)


def test_a_mix_has_neither_right_nor_written_answers_to_the_impossible():
    """And what ``Addition`` writes of the others."""
    task = addition_mix()
    uniforms = torch.rand(1, 400, task.draws, generator=torch.Generator().manual_seed(0))
    prompts, numbers = task.prompts(uniforms, False), torch.arange(400)[None] / 400
    impossible = task.is_of(prompts, "impossible")
    plain = addition(shortest=1, longest=4, cap=task.cap, mistakes=task.mistakes, procedures=task.procedures)
    for made, known in ((task.corpus, plain.corpus), (lambda x, _: task.oracle(x), lambda x, _: plain.oracle(x))):
        (answers, mask), (wanted, seen) = made(prompts, numbers), known(prompts, numbers)
        assert (answers == wanted.masked_fill(impossible, task.pad)).all() and (mask == (seen & ~impossible)).all()
    finished = torch.ones(1, 400, 1, dtype=torch.bool)
    answers, mask = plain.oracle(prompts)
    right = task.score(prompts, answers.unsqueeze(2), mask.unsqueeze(2), finished).correct
    assert (right == ~impossible).all() and impossible.any()
