"""The contract of tasks: every task meets it, answers its own prompts, and refuses settings that make no task."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import yaml
from policies import preference_task, prompts_of, sort_task
from small_runs import compose
from task_choices import (
    SEEDS,
    addition,
    addition_mix,
    bandit,
    categorical,
    countdown,
    difficulty_mix,
    enumerable,
    every_task,
    functions,
    lecture_task,
    length_world,
    multi_solution,
    parity,
    tool,
    two_habits,
)
from toy_state import Toy

from rlexp.config.compose import CONF
from rlexp.core.errors import ConfigError
from rlexp.tasks import Scores, Task
from rlexp.tasks.addition import PROCEDURES
from rlexp.tasks.sort import DifficultyMix, SortLecture
from rlexp.tasks.tabular import Categorical


@pytest.mark.holds("S2.1")
@every_task
def test_every_task_meets_the_contract(name, task):
    assert isinstance(task, Task) and isinstance(Toy(), Task)


@pytest.mark.parametrize("file", sorted((CONF / "task").glob("*.yaml")), ids=lambda file: file.stem)
def test_a_weight_is_finite(file):
    component = next(iter(yaml.safe_load(file.read_text("utf-8"))["weights"]))
    with pytest.raises(ConfigError, match=f"task.weights.{component}=inf: must be a finite number"):
        compose(f"task={file.stem}", f"task.weights.{component}=inf")


def test_what_cannot_answer_its_prompts_is_no_task():
    task = SimpleNamespace(**{name: getattr(Toy(), name) for name in dir(Toy) if not name.startswith("_")})
    assert isinstance(task, Task)
    del task.oracle
    assert not isinstance(task, Task)


def test_rewards_of_tokens_are_none_unless_a_task_gives_them():
    correct = torch.ones(1, 2, 3, dtype=torch.bool)
    assert Scores({}, correct).token_rewards is None
    assert Scores({}, correct, torch.zeros(1, 2, 3, 4)).token_rewards.shape == (1, 2, 3, 4)


NOT_SHOWN = {"functions"}  # tasks whose oracle knows more than it shows by its mask
WORTH = {"enumerable": "gold", "categorical": "worth"}  # components that are no shares of something
CHAINS = {  # components that not all right answers have
    "parity": lambda task, prompts: {"chain": task.has_chain(prompts)},
    "addition": lambda task, prompts: {"scratchpad": (task.shown(prompts) < PROCEDURES.index("direct")).unsqueeze(-1)},
    "two_habits": lambda task, prompts: {"habit_a": task.a_is_right(prompts).unsqueeze(-1)},
}


def task_best(task) -> float:
    return max(task.rewards) if isinstance(task, Categorical) else task.rewards.gold.max().item()


@every_task
def test_the_oracle_is_right_and_ends_where_it_should(name, task):
    prompts = prompts_of(task, SEEDS, 40)
    answers, mask = task.oracle(prompts)
    assert answers.shape == mask.shape == (len(SEEDS), 40, task.cap)
    places = torch.arange(task.cap)
    lengths = mask.sum(-1, keepdim=True)
    assert torch.equal(mask, places < lengths)
    if task.end >= 0:
        assert torch.equal(answers == task.end, places == lengths - 1)
        assert (answers[~mask] == task.pad).all()
    finished, possible = torch.ones_like(mask[..., :1]), mask.any(-1, keepdim=True)
    scores = task.score(prompts, answers.unsqueeze(2), mask.unsqueeze(2), finished)
    assert torch.equal(scores.correct, possible | (name in NOT_SHOWN))
    if name in WORTH:
        assert torch.equal(scores.components[WORTH[name]].unique(), torch.tensor([task_best(task)]))
        return
    with_chain = CHAINS[name](task, prompts) if name in CHAINS else {}
    best = {"ternary": 1, "distance": 3, "inclusion_ordering": 5, "multiset_ordering": 5}
    for component, values in scores.components.items():
        applies = possible & ~values.isnan()
        expected = with_chain.get(component, torch.tensor(best.get(component, 1)))
        assert (values == expected)[applies].all(), component


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (sort_task, dict(shortest=5), "shortest=5 must not exceed longest=4"),
        (sort_task, dict(cap=4), "cap=4 .* at least 5"),
        (sort_task, dict(weights={"exact": 1.0}), "weights must name exact, graded"),
        (sort_task, dict(weights=dict.fromkeys(sort_task().weights, 0.0)), "at least one of them above 0"),
        (preference_task, dict(low=9), "low=9 must be below vocabulary=9"),
        (preference_task, dict(good=0.6), "good=0.6 must not exceed bad=0.5"),
        (preference_task, dict(weights={"share": 1.0}), "weights must name ternary, share"),
        (bandit, dict(easy=0, hard=0, impossible=0), "easy=0 hard=0 impossible=0 leave no question"),
        (bandit, dict(easy_right=8), "easy_right=8 must not exceed actions=7"),
        (length_world, dict(right=[]), r"right=\[\] leaves no question"),
        (length_world, dict(weights={"right": 1.0}), "weights must name right, exact"),
        (difficulty_mix, dict(items=dict(easy=1, medium=1, hard=2, impossible=3)), "items must differ between buckets"),
        (difficulty_mix, dict(shares={"easy": 1.0}), "shares must name easy, medium, hard, impossible"),
        (difficulty_mix, dict(shares=dict.fromkeys(DifficultyMix.components, 0.0)), "shares must not all be 0"),
        (difficulty_mix, dict(cap=4), "cap=4 leaves no room for 4 items"),
        (addition_mix, dict(digits=dict(easy=1, medium=1, hard=2, impossible=3)), "digits must differ between buckets"),
        (addition_mix, dict(cap=6), "cap=6 leaves no room for a sum of 4 digits: at least 7"),
        (multi_solution, dict(weights=dict(valid=1.0, first=1.0)), "weights.first must be 0"),
        (multi_solution, dict(items=9), "items=9 must not exceed numbers=8"),
        (multi_solution, dict(solutions=9), "solutions=9 leaves 0 prompts; at least 4 are needed"),
        (parity, dict(cap=6), "cap=6 leaves no room for a chain of 6 bits and an end: at least 7"),
        (parity, dict(weights={"right": 1.0}), "weights must name right, chain"),
        (addition, dict(shortest=3), "shortest=3 must not exceed longest=2"),
        (addition, dict(cap=4), "cap=4 leaves no room for a sum of 2 digits: at least 5"),
        (addition, dict(procedures=dict(full=1.0)), "procedures must name full, carries, direct"),
        (addition, dict(procedures=dict(full=0.0, carries=0.0, direct=0.0)), "at least one of them above 0"),
        (addition, dict(weights={"exact": 1.0}), "weights must name exact, digits, format, scratchpad"),
        (functions, dict(weights={"atom": 1.0}), "weights must name atom, composed, steps"),
        (functions, dict(cap=7), "cap=7 must be even"),
        (tool, dict(cap=7), "cap=7 leaves no room for a call, a result and an answer of value=2 .* at least 8"),
        (tool, dict(table=40), "table=40 makes too many tables of symbols=3: at most 2.62 symbols"),
        (tool, dict(weights={"exact": 1.0}), "weights must name exact, called, format"),
        (countdown, dict(cap=5), "cap=5 leaves no room for an expression of 3 numbers and an end: at least 6"),
        (countdown, dict(numbers=4, cap=8, largest=12), "make 1365 sets of 7680 expressions; at most 8388608 in all"),
        (countdown, dict(numbers=2, largest=2, target=2), "target=2 leaves nothing to"),
        (countdown, dict(weights={"exact": 1.0}), "weights must name exact, format, close"),
        (two_habits, dict(right_b=0.8), "right_b=0.8 must not exceed right_a=0.7"),
        (two_habits, dict(cap=5), "cap=5 leaves no room for a name, 4 numbers and an end: at least 6"),
        (two_habits, dict(weights={"right": 1.0}), "weights must name right, format, habit_a"),
        (enumerable, dict(cap=8), "cap=8 makes 6561 strings of 3 symbols; at most 4096"),
        (enumerable, dict(good=9.0), "good=9.0 is more than any string of world=2 has; at most"),
        (enumerable, dict(weights={"gold": 1.0}), "weights must name gold, proxy"),
        (categorical, dict(rewards=[1.0]), "rewards must be 2 to 16 numbers, one for each answer, and are 1"),
        (categorical, dict(weights={}), "weights must name worth"),
        (bandit, dict(weights={"hard": 1.0}), "weights must name easy, hard, impossible"),
        (lecture_task, dict(distanc=1.0), "weights must name distance"),
        (lecture_task, dict.fromkeys(SortLecture.components, 0.0), "at least one of them above 0"),
    ],
)
def test_settings_that_make_no_task(make, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)
