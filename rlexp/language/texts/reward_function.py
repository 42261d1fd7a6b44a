"""Rewards by a function of the user's, written as those for TRL's ``GRPOTrainer`` are.

A function is given columns of a data file as they are. So one that does what its arguments say, as
``hydra.utils.instantiate`` does, would let the data run code: those of Python's own library, and of libraries with such
functions, are no reward functions under whatever name.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import BuiltinFunctionType, MethodWrapperType
from typing import Any

from rlexp.core.exits import RunFailed, describe_error

# Libraries with functions that call, load or evaluate what they are given.
RUNNERS = {"hydra", "omegaconf", "torch", "numpy", "pandas", "scipy", "sympy", "yaml", "joblib", "cloudpickle", "dill"}
RUNNERS |= {"ray", "submitit", "fsspec", "jinja2", "pydantic", "transformers", "accelerate", "rlexp", "analysis"}
RUNNERS |= {"pip", "setuptools", "pkg_resources", "IPython", "pexpect", "invoke", "fabric", "sh", "numexpr"}
IN_C = (BuiltinFunctionType, MethodWrapperType, type(str.join), type(object.__init__))


def imported(path: str) -> Callable:
    """Return the function that `package.module:function` names; ValueError in one line where there is none.

    Modules of the folder in which the command runs are found too.
    """
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise ValueError(f"reward={path}: must be written as package.module:function")
    sys.path.append(os.getcwd())
    try:
        function = getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ValueError(f"reward={path}: {module} has no {name}") from None
    except Exception as error:  # whatever the module of a user raises
        raise ValueError(f"reward={path}: cannot be imported: {describe_error(error)}") from None
    finally:
        sys.path.pop()
    if not callable(function):
        raise ValueError(f"reward={path}: is no function")
    if isinstance(function, type):
        raise ValueError(f"reward={path}: is a class; name a function, or what the class makes")
    for inner in layers(function):
        home = str(getattr(inner, "__module__", None) or "builtins").partition(".")[0]
        if isinstance(inner, IN_C) or home in sys.stdlib_module_names | RUNNERS:
            raise ValueError(f"reward={path}: is of {home}, and could run what the data says; write one of your own")
    return function


def layers(function: Any) -> Iterator[Any]:
    """Yield what is called in the end: what is decorated, what has arguments bound, the method of an object."""
    while isinstance(function, partial):
        function = function.func
    yield function
    inner = getattr(function, "__wrapped__", None) or getattr(function, "__func__", None)
    if inner is None and not inspect.isroutine(function):
        inner = type(function).__call__
    if inner is not None:
        yield from layers(inner)


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
