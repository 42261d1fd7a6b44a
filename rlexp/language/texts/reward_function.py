"""Rewards by a function of the user's, written as those for TRL's ``GRPOTrainer`` are."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlexp.core.exits import RunFailed, describe_error


def imported(path: str) -> Callable:
    """Return the function that `package.module:function` names; ValueError in one line where there is none.

    Modules of the folder in which the command runs are found too.
    """
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise ValueError(f"reward={path}: must be written as package.module:function")
    try:
        function = getattr(import_from_here(module), name)
    except AttributeError:
        raise ValueError(f"reward={path}: {module} has no {name}") from None
    except Exception as error:  # whatever the module of a user raises
        raise ValueError(f"reward={path}: cannot be imported: {describe_error(error)}") from None
    if not callable(function):
        raise ValueError(f"reward={path}: is no function")
    return function


def import_from_here(module: str) -> Any:
    """Import a module by its name, from the present folder if it is nowhere else."""
    sys.path.append(os.getcwd())
    try:
        return importlib.import_module(module)
    finally:
        sys.path.pop()


def rewards(
    path: str, prompts: Sequence[str], completions: Sequence[str], columns: Mapping[str, list[Any]]
) -> list[float]:
    """Call the function as TRL does and return a reward for each completion, NaN where it gave None: not applicable.

    Source: TRL ``GRPOTrainer._calculate_rewards``, with prompts and completions as text. Its other keyword arguments,
    as ``completion_ids`` and ``trainer_state``, are not given. RunFailed where the function fails or gives no rewards.
    """
    try:
        given = imported(path)(prompts=list(prompts), completions=list(completions), **columns)
        numbers = [float("nan") if reward is None else float(reward) for reward in given]
    except Exception as error:  # whatever the function of a user raises
        raise RunFailed(f"task.reward={path}: {describe_error(error)}") from error
    if len(numbers) != len(completions):
        raise RunFailed(f"task.reward={path}: gave {len(numbers)} rewards for {len(completions)} completions")
    return numbers
