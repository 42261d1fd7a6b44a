"""The tool: what it writes by plain loops, what nobody knows without it, and what policies are worth, counted out."""

from __future__ import annotations

import itertools
import math
import random

import pytest
import reference_tasks
import torch
from policies import Fixed, prompts_of
from small_runs import SHORT, compose
from task_choices import tool

from rlexp.core.errors import ConfigError
from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rewards import score_with
from rlexp.loop.rollout import response_mask, sample

TASKS = {"small": tool(), "smallest": tool(symbols=2, table=1, keys=1, value=1, operations=1, cap=6)}
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


@every_task
def test_the_tool_writes_what_plain_loops_say(task):
    """Of completions of any tokens, calls in most of them: the first call alone, and nothing behind an end."""
    rng, prompts = random.Random(4), prompts_of(task, [3], 30)
    likely = [task.call] * 3 + list(range(task.symbols, task.operation)) * 2 + [task.end]
    rows = [[[rng.choice([*likely, rng.randrange(task.vocabulary)]) for _ in range(task.cap)] for _ in range(20)]]
    rows = [row for _ in range(30) for row in rows]
    written, kinds = task.environment(prompts, torch.tensor([rows])), set()
    for p, g in itertools.product(range(30), range(20)):
        tokens, expected = rows[p][g], []
        for place in range(task.cap):
            said = reference_tasks.tool_writes(task, prompts[0, p].tolist(), tokens[:place])
            begun = place - tokens.index(task.call) - 2 if said else len(said)
            expected.append(said[begun] if begun < len(said) else -1)
        assert written[0, p, g].tolist() == expected
        kinds |= {*expected}
    rows = {
        x
        for prompt in prompts[0].tolist()
        for key in range(task.keys)
        for x in reference_tasks.row_of(task, prompt, key)
    }
    assert {-1, task.result, task.error, *rows} == kinds


def test_rows_are_alike_in_all_keys_tables_and_symbols():
    """By chi-square over all tables of 5 symbols; what the prompt says tells nothing of the row."""
    task = tool(symbols=5, table=4, keys=3)
    names = torch.cartesian_prod(*[torch.arange(5)] * 4)
    prompts = torch.cat([names, torch.zeros(len(names), 3, dtype=torch.long)], -1).unsqueeze(0)
    rows = task.rows(prompts, torch.arange(3).expand(1, len(names), 3))[0]
    for classes in (names.unsqueeze(1).expand(-1, 3, -1), torch.arange(3).view(1, 3, 1).expand(len(names), 3, 1)):
        for each, place in itertools.product(classes.unbind(-1), range(task.value)):
            pairs = (each * 5 + rows[..., place]).flatten().bincount(minlength=int(each.max() + 1) * 5).double()
            expected = pairs.sum() / len(pairs)
            statistic = ((pairs - expected) ** 2 / expected).sum().item()
            freedom = (int(each.max()) + 1) * 4
            assert statistic < freedom + 4 * math.sqrt(2 * freedom)
    distinct = (rows[:, :, None] != rows[:, None]).any(-1)[:, *torch.triu_indices(3, 3, 1)].float().mean().item()
    assert distinct == pytest.approx(1 - 1 / 25, abs=0.02)  # a wrong key gives another row


def test_who_does_not_ask_is_right_by_luck_alone():
    """The best answer that a policy could know for each operation, over all held-out tables: about symbols^−value."""
    task = tool(symbols=4, table=6, keys=2, value=2)
    prompts = task.prompts(torch.rand(1, 8000, task.draws, generator=torch.Generator().manual_seed(2)), held_out=True)
    _, right = task.answers(prompts)
    numbers = right[0] @ torch.tensor([4, 1])
    for operation in range(4):
        chosen = numbers[prompts[0, :, -2] == task.operation + operation]
        best = chosen.bincount(minlength=16).max().item() / len(chosen)
        assert best < 1 / 16 + 4 * math.sqrt(1 / 16 / len(chosen))


# ---- a right conversation, and others


B = 3 + 1
CASES = {
    "call b result v v a a end": (1, 1, 1),
    "0 call b result v v a a end": (1, 1, 0),  # a word before the call
    "call b result v v a a": (0, 1, 0),  # cut off
    "call b result v v a w end": (0, 1, 1),
    "call b result v v a end": (0, 1, 0),
    "call b result v v call a a end": (0, 1, 0),  # a second call
    "call a result u u w a end": (0, 0, 1),  # another key
    "call a result u u a a end": (1, 0, 1),  # which did not matter
    "call 0 result error error a a end": (1, 0, 0),  # no key
    "a a end": (1, 0, 0),  # a lucky guess
    "call end": (0, 0, 0),
    "end": (0, 0, 0),
}


@pytest.mark.parametrize("text", CASES)
def test_by_hand(text):
    """`v` and `u` are the rows of the keys b and a, `a` behind a result is the right answer, `w` a wrong symbol."""
    task, prompt = tool(), [0, 1, 2, B, 3 + 2 + 1, 3 + 2 + 4 + 5]  # the next symbols of the row of b
    row, other = (reference_tasks.row_of(task, prompt, key) for key in (1, 0))
    answer, tokens, behind = [(x + 1) % 3 for x in row], [], not text.startswith("call") and "call" not in text
    counts = {"v": iter(row), "u": iter(other), "a": iter(answer)}
    words = ["0", "1", "2", "", "b", *["same", "next", "mirror", "reverse"], "call", "result", "error", "end"]
    for word in text.split():
        if word == "a" and not behind:
            tokens.append(3)
        elif word == "w":
            tokens.append((next(counts["a"]) + 1) % 3)
        elif word in counts:
            tokens.append(next(counts[word]))
        else:
            tokens.append(words.index(word))
        behind |= word == "result"
    finished = tokens[-1] == task.end
    mask = torch.arange(task.cap) < len(tokens)
    padded = torch.tensor(tokens + [task.pad] * (task.cap - len(tokens)))
    scores = task.score(
        torch.tensor([[prompt]]), padded[None, None, None], mask[None, None, None], torch.tensor([[[finished]]])
    )
    assert tuple(scores.components[name].item() for name in task.components) == CASES[text]


@every_task
def test_wrong_answers_have_the_form_of_right_ones_and_are_never_right(task):
    prompts = prompts_of(task, [1, 2], 50)
    (right, mask), (wrong, same) = task.oracle(prompts), task.wrong_answers(prompts)
    assert torch.equal(mask, same) and ((right != wrong).sum(-1) == 1).all()
    scores = task.score(prompts, wrong.unsqueeze(2), mask.unsqueeze(2), torch.ones_like(mask[..., :1]))
    assert not scores.correct.any() and scores.components["format"].all() and scores.components["called"].all()


def test_a_conversation_is_written_in_words():
    task = tool(symbols=5, table=6, keys=4, cap=8)
    assert task.render([3, 1, 4, 0, 2, 2, 6, 11, task.separator]) == "3 1 4 0 2 2 b mirror →"
    tokens = [task.call, 6, task.result, 2, 4, 2, 0, task.end]
    assert task.render(tokens) == "call b result 2 4 2 0 end"


# ---- what a policy is worth, counted out


def worth(task, prompt: list[int], odds: torch.Tensor) -> dict[str, float]:
    """Expected components of a policy with these probabilities of tokens ``[T, V]``: over all that can be said."""
    found = dict.fromkeys((*task.components, "length", "whole"), 0.0)

    def go_on(tokens: list[int], chance: float) -> None:
        if tokens[-1:] == [task.end] or len(tokens) == task.cap:
            scores = reference_tasks.tool(task, prompt, tokens)
            for name in task.components:
                found[name] += chance * scores[name]
            found["length"] += chance * len(tokens)
            found["whole"] += chance
            return
        said = reference_tasks.tool_writes(task, prompt, tokens)
        begun = len(tokens) - tokens.index(task.call) - 2 if said else 0
        if begun < len(said):
            go_on([*tokens, said[begun]], chance)
            return
        for token, p in enumerate(odds[len(tokens)].tolist()):
            if p:
                go_on([*tokens, token], chance * p)

    go_on([], 1.0)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_random_policies_are_worth_what_counting_out_says(seed):
    """Sampled means of every component, and of lengths, are within four standard errors of the exact ones.

    The policy has five tokens, others but rarely: `0`, `1`, the key, `call` and the end.
    """
    task, count = TASKS["smallest"], 20000
    generator = torch.Generator().manual_seed(seed)
    logits = torch.full((1, task.cap, task.vocabulary), -math.inf)
    likely = [0, 1, 2, task.call, task.end]
    logits[:, :, likely] = torch.randn(1, task.cap, 5, generator=generator)
    logits[:, 0, task.call] += 2
    logits[:, 1, 2] += 2
    for held_out in (False, True):
        prompt = task.prompts(torch.full((1, 1, task.draws), 0.3), held_out)
        exact = worth(task, prompt[0, 0].tolist(), logits[0].softmax(-1).double())
        assert exact["whole"] == pytest.approx(1) and 0.02 < exact["exact"] < 0.6 and exact["called"] > 0.1
        noise = uniforms([seed], Purpose.SAMPLING, 1, (1, count, task.cap))
        rollout = sample(Fixed(logits), task, prompt, noise, torch.ones(1))
        found = score_with(task, rollout).components | {"length": rollout.mask.sum(-1).float()}
        for name, values in found.items():
            error = 4 * values.double().std().item() / math.sqrt(count)
            assert values.double().mean().item() == pytest.approx(exact[name], abs=error + 1e-9), name
        # the chances of what was sampled are those of the policy's own tokens
        own = response_mask(task, rollout.prompts, rollout.completions, rollout.mask)
        assert own.sum() < rollout.mask.sum() and (rollout.old_log_probs == 0)[~own].all()
        assert rollout.old_log_probs.isfinite().all()


def test_with_and_without_asking_the_ceiling_and_the_floor():
    """Who always asks is right always; who never does, in a share symbols^−value; who asks for any key, in between."""
    task = tool(symbols=2, table=4, keys=2, value=1, operations=2, cap=6)
    prompts = task.prompts(torch.rand(1, 2000, task.draws, generator=torch.Generator().manual_seed(5)), held_out=True)
    rows, right = task.answers(prompts)
    ask = torch.randint(2, (1, 2000, 1), generator=torch.Generator().manual_seed(6))
    heard = task.rows(prompts, ask).squeeze(2)
    made = torch.stack([heard, (heard + 1) % 2], -1).gather(-1, (prompts[..., -2] - task.operation)[..., None, None])
    lucky = (made.squeeze(-1) == right).all(-1).float().mean().item()
    assert lucky == pytest.approx(0.75, abs=0.05) and (rows != right).any()
    guesses = torch.tensor([0, task.end] + [task.pad] * 4).expand(1, 2000, 1, 6)
    mask = (torch.arange(6) < 2).expand(guesses.shape)
    found = task.score(prompts, guesses, mask, torch.ones_like(mask[..., 0])).correct.float().mean().item()
    assert found == pytest.approx(0.5, abs=0.05)


# ---- where it cannot be


def test_another_backend_is_refused_in_a_line():
    pytest.importorskip("trl")
    with pytest.raises(ConfigError) as error:
        compose("task=tool", "backend=trl", "model=llama", *SHORT)
    assert [*error.value.problems] == [
        "task=tool: cannot be text: its environment writes into completions; take backend=replicas"
    ]
