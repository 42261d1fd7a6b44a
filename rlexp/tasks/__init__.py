"""Synthetic tasks: prompts, verifiers, reward components; ``task`` says what the rest of the package asks of them."""

from rlexp.tasks.scoring import total_reward
from rlexp.tasks.sort import Sort
from rlexp.tasks.sort_lecture import SortLecture
from rlexp.tasks.task import Scores, Task
from rlexp.tasks.token_preference import TokenPreference, TokenPreferenceDense

TASKS = {
    "sort": Sort,
    "sort_lecture": SortLecture,
    "token_preference": TokenPreference,
    "token_preference_dense": TokenPreferenceDense,
}

__all__ = ["TASKS", "Scores", "Task", "total_reward"]
