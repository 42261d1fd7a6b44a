"""Prompts that come again (``task.prompt_set``), and ``norm=spo`` and ``dbb``, which remember a value of each."""

from __future__ import annotations

import pytest
import torch
from small_runs import SHORT, SMALL, compose, rows

from rlexp.core.errors import ConfigError
from rlexp.loop.sampling import draw_prompts, prompt_numbers, prompt_set
from rlexp.runfolder.variants import variant_name
from rlexp.sweep.build import build
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

SET = ["task.prompt_set=5", *SMALL]


def state_of(*overrides, seeds=(0, 1)):
    return build([compose(*SHORT, *SET, *overrides, f"seed={seed}") for seed in seeds])


@pytest.mark.parametrize("task", ["sort", "token_preference", "token_preference_dense"])
def test_every_prompt_of_a_run_is_one_of_its_set_and_all_of_them_come(task):
    state, seen = state_of(f"task={task}"), [set(), set()]
    known = prompt_set(state)
    assert known.shape[:2] == (2, 5) and not torch.equal(known[0], known[1])
    for step in range(1, 25):
        prompts = draw_prompts(state, step, 0)
        numbers = prompt_numbers(state, prompts)
        for replica in range(2):
            assert torch.equal(known[replica][numbers[replica]], prompts[replica])
            seen[replica] |= {tuple(row) for row in prompts[replica].tolist()}
    assert seen == [{tuple(row) for row in each.tolist()} for each in known]


def test_prompts_of_a_set_are_none_that_are_held_out():
    """They are drawn as those of a step are: no items that sum to a multiple of the alphabet."""
    state = state_of("task.prompt_set=200", seeds=[3])
    items = prompt_set(state)[0, :, :-1]
    sums = items.where(items < state.task.alphabet, 0).sum(-1)
    assert (sums % state.task.alphabet).ne(0).all()


def test_of_equal_prompts_the_first_has_the_value():
    state = state_of("task.shortest=1", "task.longest=1", "task.cap=2", "task.alphabet=2", seeds=[0])
    assert prompt_numbers(state, prompt_set(state)).eq(0).all()  # of two symbols one is held out


def jobs(folder, *variants):
    """One job for each variant."""
    made = []
    for number, overrides in enumerate(variants):
        config = compose(*SHORT, *SET, *overrides)
        name = variant_name(overrides)
        (folder / str(number)).mkdir(parents=True)
        made.append(Job(config, folder / str(number), name, name, number, tuple(overrides), folder / "starts"))
    return made


@pytest.mark.bits
def test_a_run_that_remembers_prompts_is_the_same_alone_and_beside_others(tmp_path):
    variants = ["norm=spo"], ["norm=local"], ["norm=spo", "norm.decay=0.5"], ["norm=dbb"]
    train_jobs(jobs(tmp_path / "together", *variants))
    train_jobs(jobs(tmp_path / "alone", variants[2]))
    train_jobs(jobs(tmp_path / "other", variants[3]))
    assert rows(tmp_path / "together" / "2") == rows(tmp_path / "alone" / "0")
    assert rows(tmp_path / "together" / "3") == rows(tmp_path / "other" / "0")
    assert rows(tmp_path / "together" / "0") != rows(tmp_path / "together" / "2")


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (["norm=spo"], "norm=spo: remembers the value of each prompt"),
        (["norm=dbb"], "norm=dbb: remembers the value of each prompt"),
        (["norm=dbb", "task.prompt_set=8", "task=token_preference"], "norm=dbb: takes rewards for shares of a success"),
        (["norm=dbb", "task.prompt_set=8", "kl=k1"], "norm=dbb: takes rewards for shares of a success"),
        (["norm=spo", "task.prompt_set=8", "norm.prompts=9"], "norm.prompts=9: must be task.prompt_set=8"),
        (["task.prompt_set=0"], "task.prompt_set=0: must be at least 1"),
    ],
)
def test_what_cannot_be_is_one_line(overrides, problem):
    with pytest.raises(ConfigError) as error:
        compose(*overrides)
    (line,) = error.value.problems
    assert line.startswith(problem)
