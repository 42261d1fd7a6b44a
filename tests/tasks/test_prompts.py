"""Prompts: counted exactly, and made of any number in [0, 1)."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch
from policies import sort_task
from task_choices import (
    addition_mix,
    difficulty_mix,
    every_sort,
    every_task,
    functions,
    lecture_task,
    multi_solution,
    parity,
    tool,
)

from rlexp.tasks.sort import SortLecture

BELOW_ONE = 1 - 2**-24


def counted(task, held_out: bool) -> dict[int, Counter]:
    """How often each prompt comes, by length, when every cell of the uniform numbers is met once."""
    lengths = task.longest - task.shortest + 1
    cells = [lengths, task.alphabet - 1, *[task.alphabet] * (task.longest - 1)]
    grid = torch.cartesian_prod(*((torch.arange(n) + 0.5) / n for n in cells)).view(1, -1, task.draws)
    found = {}
    for row in task.prompts(grid, held_out)[0].tolist():
        assert row[-1] == task.separator
        items = tuple(row[:-1])
        while items[0] == task.pad:
            items = items[1:]
        found.setdefault(len(items), Counter())[items] += 1
    return found


@pytest.mark.parametrize(("alphabet", "shortest", "longest"), [(3, 1, 3), (2, 2, 4), (4, 3, 3)])
def test_prompts_are_uniform_and_no_permutation_is_in_both_sets(alphabet, shortest, longest):
    task = sort_task(alphabet=alphabet, shortest=shortest, longest=longest)
    training, evaluation = counted(task, held_out=False), counted(task, held_out=True)
    assert set(training) == set(evaluation) == set(range(shortest, longest + 1))
    for length, prompts in training.items():
        every = set(itertools.product(range(alphabet), repeat=length))
        assert set(prompts) | set(evaluation[length]) == every
        assert len(set(prompts.values())) == len(set(evaluation[length].values())) == 1
        assert not {tuple(sorted(p)) for p in prompts} & {tuple(sorted(p)) for p in evaluation[length]}
    assert len({counts.total() for counts in training.values()}) == 1


@every_task
@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("number", [0.0, 0.5, BELOW_ONE])
def test_prompts_are_tokens_even_at_the_ends_of_the_range(name, task, held_out, number):
    prompts = task.prompts(torch.full((2, 3, task.draws), number), held_out)
    assert prompts.shape == (2, 3, task.prompt_length)
    assert 0 <= prompts.min() and prompts.max() < task.vocabulary
    if name == "sort":
        shown = (prompts < task.alphabet).sum(-1)
        assert ((task.shortest <= shown) & (shown <= task.longest)).all()


@pytest.mark.parametrize("alphabet", range(2, 67))
def test_the_largest_number_below_one_is_not_rounded_up(alphabet):
    task = sort_task(alphabet=alphabet)
    uniforms = torch.full((1, 1, task.draws), BELOW_ONE)
    assert task.prompts(uniforms, False)[..., :-2].tolist() == [[[alphabet - 1] * 3]]
    assert task.prompts(uniforms, False)[..., :-1].sum() % alphabet == alphabet - 1


@every_sort
def test_separator_pad_end_and_filler_are_tokens_of_their_own(task):
    special = {task.pad, task.end, task.separator, task.vocabulary - 1} - {-1}
    assert len(special) == 2 + (task.end >= 0) + task.filler and min(special) == task.alphabet
    assert max(special) == task.vocabulary - 1


def test_lecture_prompts_come_in_turn():
    prompts = lecture_task().prompts(torch.rand(2, 7, 1), held_out=True)
    assert prompts.tolist() == [[list(SortLecture.lecture_prompts[p % 3]) for p in range(7)]] * 2


def made(task, held_out: bool, count: int = 4000) -> list[list[int]]:
    return task.prompts(torch.rand(1, count, task.draws, generator=torch.Generator().manual_seed(3)), held_out)[
        0
    ].tolist()


def items_of(task, prompt: list[int]) -> tuple[int, ...]:
    return tuple(sorted(x for x in prompt if x < task.alphabet))


def digits_of(task, prompt: list[int]) -> list[int]:
    """The digits of the first number of a sum."""
    return [token for token in prompt[: prompt.index(task.plus)] if token != task.pad]


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize(("make", "told"), [(difficulty_mix, items_of), (addition_mix, digits_of)])
def test_difficulties_come_in_their_shares(make, told, held_out):
    task = make()
    found = Counter(len(told(task, prompt)) for prompt in made(task, held_out))
    total = sum(task.shares.values())
    for name, share in task.shares.items():
        wanted = share / total
        error = 4 * (wanted * (1 - wanted) / 4000) ** 0.5
        assert found[task.lengths[name]] / 4000 == pytest.approx(wanted, abs=error), name
    lacking = make(shares=task.shares | {"impossible": 0.0})
    assert task.lengths["impossible"] not in {len(told(task, prompt)) for prompt in made(lacking, held_out)}


def test_a_mix_holds_out_what_sort_does():
    task = difficulty_mix()
    training, evaluation = ({items_of(task, prompt) for prompt in made(task, held)} for held in (False, True))
    assert evaluation and not training & evaluation
    assert all(sum(items) % task.alphabet == 0 for items in evaluation)


def test_sets_of_numbers_have_enough_progressions_and_are_in_one_part_each():
    task = multi_solution()
    training, evaluation = ({tuple(p) for p in made(task, held)} for held in (False, True))

    def progressions(chosen):
        return sum(b - a == c - b for a, b, c in itertools.combinations(chosen, 3))

    every = {c for c in itertools.combinations(range(8), 5) if progressions(c) >= 2}
    assert training | evaluation == every and not training & evaluation
    assert len(training) == 3 * len(every) // 4


@pytest.mark.parametrize("bits", [6, 7, 10])
def test_bits_are_in_one_part_each_and_a_share_of_them_has_a_chain(bits):
    task = parity(bits=bits, cap=bits + 2, chains=0.25)
    training, evaluation = ({tuple(p) for p in made(task, held, 20000)} for held in (False, True))
    assert evaluation and not training & evaluation
    assert len(training | evaluation) == 2**bits and len(evaluation) / 2**bits == pytest.approx(1 / 8, abs=0.07)
    chains = task.has_chain(torch.tensor([made(task, False, 20000)])).float().mean()
    assert chains.item() == pytest.approx(0.25, abs=0.12)  # of the few prompts of the smallest
    assert not parity(chains=0.0).has_chain(torch.tensor([made(parity(), False)])).any()


def test_compositions_and_strings_that_are_evaluated_are_never_trained_on():
    task = functions()
    training, evaluation = made(task, False), made(task, True)
    same = 4 + 6
    composed = [{(p[0], p[1]) for p in each if same not in p[:2]} for each in (training, evaluation)]
    assert len(composed[0]) == 30 and len(composed[1]) == 6 and not composed[0] & composed[1]
    assert all(len({pair[place] for pair in composed[1]}) == 6 for place in (0, 1))
    strings = [{tuple(p[2:-1]) for p in each} for each in (training, evaluation)]
    assert not strings[0] & strings[1] and len(strings[0] | strings[1]) == 4**4
    for each in (training, evaluation):
        for place in (0, 1):
            assert sum(p[place] == same for p in each) / len(each) == pytest.approx(task.atoms / 2, abs=0.03)
            assert {p[place] for p in each} == set(range(4, 11))
        assert not [p for p in each if p[0] == p[1] == same]


def test_tables_are_in_one_part_each_and_keys_and_operations_come_alike():
    task = tool(symbols=3, table=3, keys=2, operations=3)
    training, evaluation = made(task, False), made(task, True)
    tables = [{tuple(p[:3]) for p in each} for each in (training, evaluation)]
    assert not tables[0] & tables[1] and len(tables[0]) == 18 and len(tables[1]) == 9
    for each in (training, evaluation):
        assert {p[-1] for p in each} == {task.separator}
        shares = Counter((p[3], p[4]) for p in each)
        assert set(shares) == {(3 + key, 5 + operation) for key in range(2) for operation in range(3)}
        assert all(number / 4000 == pytest.approx(1 / 6, abs=0.03) for number in shares.values())
