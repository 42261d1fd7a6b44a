"""``task=sort_padded``: its corpus writes on behind right answers; random answers are as rarely right as is said."""

from __future__ import annotations

from math import comb

import pytest
import torch
from task_choices import FILES, padded_task, shipped

PROMPTS = 200


def corpus(task):
    """Return prompts, answers, their mask ``[1, P, T]`` and how many fillers each is to have."""
    prompts = task.prompts(torch.rand(1, PROMPTS, task.draws, generator=torch.Generator().manual_seed(0)), False)
    numbers = torch.arange(PROMPTS)[None] / PROMPTS
    return prompts, *task.corpus(prompts, numbers), (numbers * (task.most_fillers + 1)).long()


@pytest.mark.parametrize("task", [padded_task(), shipped(FILES["sort_padded"])[1]], ids=["small", "shipped"])
def test_the_corpus_is_right_and_ends_anywhere_behind_the_items(task):
    prompts, answers, mask, fillers = corpus(task)
    for prompt, answer, seen, number in zip(
        *(each[0].tolist() for each in (prompts, answers, mask, fillers)), strict=True
    ):
        items = sorted(symbol for symbol in prompt[:-1] if symbol != task.pad)
        written = [*items, *[task.separator + 1] * number, task.end]
        assert answer == written + [task.pad] * (task.cap - len(written))
        assert seen == [True] * len(written) + [False] * (task.cap - len(written))
    finished = torch.ones(1, PROMPTS, 1, dtype=torch.bool)
    assert task.score(prompts, answers.unsqueeze(2), mask.unsqueeze(2), finished).correct.all()


def test_every_number_of_fillers_is_as_likely():
    counts = torch.bincount(corpus(padded_task(most_fillers=4))[3][0], minlength=5)
    assert counts.tolist() == [PROMPTS // 5] * 5


def test_random_tokens_are_right_as_often_as_counting_says():
    """Fillers may stand anywhere before the end: n items and f fillers in C(n + f, f) orders, one token in V each."""
    task = padded_task(longest=1, alphabet=3, most_fillers=2, cap=6)
    draws, vocabulary = 60_000, task.vocabulary
    generator = torch.Generator().manual_seed(1)
    prompts = task.prompts(torch.rand(1, 1, task.draws, generator=generator), True)
    tokens = torch.randint(vocabulary, (1, 1, draws, task.cap), generator=generator)
    ended = (tokens == task.end).cumsum(-1)
    mask = (ended - (tokens == task.end).long()) == 0
    right = task.score(prompts, tokens, mask, ended[..., -1] > 0).correct.float().mean().item()
    exact = sum(comb(1 + f, f) * vocabulary ** -(f + 2) for f in range(task.cap - 1))
    assert right == pytest.approx(exact, abs=4 * (exact / draws) ** 0.5)  # four standard errors


def test_what_the_corpus_writes_beyond_the_cap_is_cut_off():
    whole, short = (corpus(padded_task(most_fillers=5, cap=cap)) for cap in (9, 5))
    for whole_of, short_of in zip(whole[1:3], short[1:3], strict=True):
        assert (whole_of[..., :5] == short_of).all()
    assert (short[2].all(-1) & (short[1][..., -1] != padded_task().end)).any()  # some do not end
