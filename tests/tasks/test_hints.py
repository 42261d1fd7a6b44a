"""Prompts with room for a hint: the task is the same without it, and a hint is the end of an answer."""

from __future__ import annotations

import pytest
import torch
from policies import prompts_of
from task_choices import addition, countdown, two_habits

PAIRS = {make.__name__: (make(), make(hint=room)) for make, room in ((addition, 5), (countdown, 2), (two_habits, 9))}
every_pair = pytest.mark.parametrize(("plain", "hinted"), PAIRS.values(), ids=PAIRS.keys())


def both(plain, hinted, number=200):
    return prompts_of(plain, (0, 1), number), prompts_of(hinted, (0, 1), number)


@every_pair
def test_room_is_padding_on_the_left_and_changes_nothing(plain, hinted):
    bare, roomy = both(plain, hinted)
    room = hinted.hint
    assert hinted.prompt_length == plain.prompt_length + room and hinted.draws == plain.draws
    assert (roomy[..., :room] == plain.pad).all() and roomy[..., room:].equal(bare)
    completions, mask = (each.unsqueeze(2) for each in plain.oracle(bare))
    one, other = (
        each.score(asked, completions, mask, mask.any(-1)) for each, asked in ((plain, bare), (hinted, roomy))
    )
    assert one.correct.equal(other.correct) and one.correct.all()
    assert all(one.components[name].equal(other.components[name]) for name in one.components)
    for name in ("oracle", "wrong_answers", "corpus"):
        if hasattr(plain, name):
            more = [torch.rand(bare.shape[:2], generator=torch.Generator().manual_seed(1))] if name == "corpus" else []
            pairs = zip(getattr(plain, name)(bare, *more), getattr(hinted, name)(roomy, *more), strict=True)
            assert all(one.equal(other) for one, other in pairs), name


@every_pair
def test_a_hint_is_the_end_of_an_answer(plain, hinted):
    bare, roomy = both(plain, hinted)
    answers, mask = hinted.oracle(roomy)
    answers, mask = answers.clone(), mask.clone()
    mask[0, 0] = False  # nothing to show
    shown = hinted.hinted(roomy, answers.masked_fill(~mask, 0), mask)
    assert shown.shape == roomy.shape
    for prompt, answer, kept, line in zip(
        *(each.flatten(0, 1).tolist() for each in (bare, answers, mask, shown)), strict=True
    ):
        written = [token for token, is_kept in zip(answer, kept, strict=True) if is_kept][-hinted.hint :]
        text = [token for token in written + prompt if token != plain.pad]
        assert line == [plain.pad] * (hinted.prompt_length - len(text)) + text


def test_each_completion_can_have_a_hint_of_its_own():
    task = addition(hint=4)
    prompts = prompts_of(task, (0, 1), 3)
    answers, mask = task.oracle(prompts)
    several = prompts.unsqueeze(2).expand(-1, -1, 2, -1)
    wrong, wrong_mask = task.wrong_answers(prompts)
    shown = task.hinted(several, torch.stack([answers, wrong], 2), torch.stack([mask, wrong_mask], 2))
    assert shown[:, :, 0].equal(task.hinted(prompts, answers, mask))
    assert shown[:, :, 1].equal(task.hinted(prompts, wrong, wrong_mask))


def test_a_hinted_prompt_is_read_by_a_person():
    task = addition(hint=4)
    prompts = torch.tensor([[[task.pad] * 4 + [1, 2, 10, 3, 9, 11]]])
    assert task.render(prompts[0, 0].tolist()) == "1 2 + 3 9 ="
    line = task.hinted(prompts, *task.oracle(prompts))[0, 0].tolist()
    assert task.render(line) == "→ 5 1 end 1 2 + 3 9 ="
