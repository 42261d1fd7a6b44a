"""Synthetic tasks: prompts, verifiers, reward components; ``task`` says what the rest of the package asks of them."""

from rlexp.tasks.addition import Addition, AdditionMix
from rlexp.tasks.countdown import Countdown
from rlexp.tasks.puzzles import Functions, MultiSolution, Parity
from rlexp.tasks.sort import DifficultyMix, Sort, SortLecture, SortPadded
from rlexp.tasks.tabular import Bandit, Categorical, Enumerable, LengthWorld, TabularTask
from rlexp.tasks.task import BaseTask, Scores, Task, total_reward
from rlexp.tasks.token_preference import TokenPreference, TokenPreferenceDense
from rlexp.tasks.tool import Tool
from rlexp.tasks.two_habits import TwoHabits

TASKS = {
    "sort": Sort,
    "sort_lecture": SortLecture,
    "sort_padded": SortPadded,
    "token_preference": TokenPreference,
    "token_preference_dense": TokenPreferenceDense,
    "difficulty_mix": DifficultyMix,
    "multi_solution": MultiSolution,
    "parity": Parity,
    "functions": Functions,
    "addition": Addition,
    "addition_mix": AdditionMix,
    "tool": Tool,
    "countdown": Countdown,
    "two_habits": TwoHabits,
    "bandit": Bandit,
    "length_world": LengthWorld,
    "enumerable": Enumerable,
    "categorical": Categorical,
}

__all__ = ["TASKS", "BaseTask", "Scores", "TabularTask", "Task", "total_reward"]
