"""Synthetic tasks: prompts, verifiers, reward components; ``task`` says what the rest of the package asks of them."""

from rlexp.tasks.bandit import Bandit
from rlexp.tasks.categorical import Categorical
from rlexp.tasks.difficulty_mix import DifficultyMix
from rlexp.tasks.enumerable import Enumerable
from rlexp.tasks.functions import Functions
from rlexp.tasks.length_world import LengthWorld
from rlexp.tasks.multi_solution import MultiSolution
from rlexp.tasks.parity import Parity
from rlexp.tasks.scoring import total_reward
from rlexp.tasks.sort import Sort
from rlexp.tasks.sort_lecture import SortLecture
from rlexp.tasks.tabular import TabularTask
from rlexp.tasks.task import BaseTask, Scores, Task
from rlexp.tasks.token_preference import TokenPreference, TokenPreferenceDense

TASKS = {
    "sort": Sort,
    "sort_lecture": SortLecture,
    "token_preference": TokenPreference,
    "token_preference_dense": TokenPreferenceDense,
    "difficulty_mix": DifficultyMix,
    "multi_solution": MultiSolution,
    "parity": Parity,
    "functions": Functions,
    "bandit": Bandit,
    "length_world": LengthWorld,
    "enumerable": Enumerable,
    "categorical": Categorical,
}

__all__ = ["TASKS", "BaseTask", "Scores", "TabularTask", "Task", "total_reward"]
