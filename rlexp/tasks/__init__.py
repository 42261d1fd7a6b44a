"""Synthetic tasks: prompts, verifiers, reward components.

A task is a frozen set of numbers (its knobs) with four sizes (``vocabulary``, ``prompt_length``, ``cap`` = most
completion tokens, ``draws`` = random numbers a prompt takes), two tokens (``pad``, ``end``; −1 if there is none), the
``reward_range`` and four functions: ``prompts(uniforms, held_out)``, ``score(prompts, completions, mask, finished)``,
``oracle(prompts)``, which answers each prompt right, and ``render(tokens)``, which writes a prompt or a completion
as one line of text.
"""

from rlexp.tasks.scoring import Scores, combine
from rlexp.tasks.sort import Sort
from rlexp.tasks.sort_lecture import SortLecture
from rlexp.tasks.token_preference import TokenPreference

TASKS = {"sort": Sort, "sort_lecture": SortLecture, "token_preference": TokenPreference}

__all__ = ["TASKS", "Scores", "combine"]
