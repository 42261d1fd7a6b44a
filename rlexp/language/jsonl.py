"""Prompts and answers of one's own: a file with a JSON object a line, and rewards by a function of one's own.

Such a function is written as those for TRL's ``GRPOTrainer`` are. It is given columns of a data file as they are. So
one that does what its arguments say, as ``hydra.utils.instantiate`` does, would let the data run code: those of
Python's own library, and of libraries with such functions, are no reward functions under whatever name.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import BuiltinFunctionType, MethodWrapperType
from typing import Annotated, Any, Literal

from annotated_types import Gt, Lt
from pydantic import FiniteFloat

from rlexp.core.exits import RunFailed, describe_error
from rlexp.core.streams import Purpose, generator
from rlexp.language.answers import MATCHES, altered, last_number
from rlexp.language.text_task import Example, Score, is_held_out
from rlexp.tasks.task import Weighed, task

NAN = float("nan")
NOT_HANDED_ON = {"prompt", "completion", "completion_ids"}  # columns that TRL keeps from reward functions, too
# Libraries with functions that call, load or evaluate what they are given.
RUNNERS = {"hydra", "omegaconf", "torch", "numpy", "pandas", "scipy", "sympy", "yaml", "joblib", "cloudpickle", "dill"}
RUNNERS |= {"ray", "submitit", "fsspec", "jinja2", "pydantic", "transformers", "accelerate", "rlexp", "analysis"}
RUNNERS |= {"pip", "setuptools", "pkg_resources", "IPython", "pexpect", "invoke", "fabric", "sh", "numexpr"}
IN_C = (BuiltinFunctionType, MethodWrapperType, type(str.join), type(object.__init__))


@task
class JsonLines(Weighed):
    r"""Lines ``{"prompt": ..., "answer": ...}``, in UTF-8; ``prompt`` and ``answer`` name the columns that are meant.

    Component ``match``: 1 for the right answer, else 0. ``exact``: the completion is the answer; ``numeric``: its last
    number is that of the answer; ``boxed``: its last \\boxed{...} is the answer; see ``language/answers.py``. What was
    cut off has not said its last word: only a box counts in it. ``none`` asks for no answers: NaN for all.

    Component ``reward``: what the function ``reward`` says, an import path `package.module:function`. It is called as
    TRL calls reward functions, with the other columns of the line, and None says that it does not apply; NaN without a
    function. Its rewards are told to lie from ``reward_low`` to ``reward_high``; with match=none the highest is right.

    Held out are the prompts of the file ``held_out``, which are left out of training if ``path`` has them too; without
    such a file a share ``held_out_share`` of all texts, by a hash of the prompt. A run takes the prompts in an order of
    its own, another in each epoch: step s takes the places from s · P on. Paths are from where the command runs.
    """

    path: str | None
    prompt: str
    answer: str
    match: Literal["exact", "numeric", "boxed", "none"]
    reward: str | None
    reward_low: FiniteFloat
    reward_high: FiniteFloat
    held_out: str | None
    held_out_share: Annotated[float, Gt(0), Lt(1)]

    components = ("match", "reward")

    def __post_init__(self):
        super().__post_init__()
        if self.path is None:
            raise ValueError('path=null: must name a file with a line {"prompt": ..., "answer": ...} for each problem')
        if self.match == "none" and (self.weights["match"] or self.reward is None):
            raise ValueError("match=none judges nothing: it needs a function, as reward, and weights.match=0")
        if self.reward is None and self.weights["reward"]:
            raise ValueError("weights.reward must be 0 unless reward names a function, as package.module:function")
        if self.reward_low >= self.reward_high:
            raise ValueError(f"reward_low={self.reward_low} must be below reward_high={self.reward_high}")
        if self.reward is not None:
            imported(self.reward)
        training, held_out = self.sides
        if self.held_out is not None:
            if not held_out:
                raise ValueError(f"held_out={self.held_out}: has no prompts")
            if not training:
                raise ValueError(f"path={self.path}: has no prompts that held_out={self.held_out} has not")
        elif not (training and held_out):
            count, share = len(training) + len(held_out), f"held_out_share={self.held_out_share:g}"
            side = "training" if held_out or not count else "evaluation"
            left = f"{share} leaves none of {count} prompts for {side}"
            raise ValueError(f"path={self.path}: {left}; held_out can name a file")

    @cached_property
    def sides(self) -> tuple[list[Example], list[Example]]:
        """What is trained on and what is held out; no prompt is in both. Entries are the other columns of the line."""
        rows = self.rows("path", self.path)
        if self.held_out is not None:
            others = self.rows("held_out", self.held_out)
            taken = {row.prompt for row in others}
            return [row for row in rows if row.prompt not in taken], others
        sides: tuple[list[Example], list[Example]] = [], []
        for row in rows:
            sides[is_held_out(row.prompt, self.held_out_share)].append(row)
        return sides

    def rows(self, hyperparameter: str, path: str) -> list[Example]:
        """Return the lines of a file; ValueError, in one line, with the first that is none."""
        try:
            stat = Path(path).stat()
            return rows_of(path, self.prompt, self.answer, self.match, (stat.st_mtime_ns, stat.st_size))
        except OSError as error:
            raise ValueError(f"{hyperparameter}={path}: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{hyperparameter}={path}: is no text in UTF-8, from byte {error.start} on") from None
        except ValueError as error:
            raise ValueError(f"{hyperparameter}={path}: {error}") from None

    @property
    def reward_range(self) -> tuple[float, float]:
        low, high = (self.weights["reward"] * bound for bound in (self.reward_low, self.reward_high))
        if not self.weights["match"]:
            return low, high
        return min(0.0, low), self.weights["match"] + max(0.0, high)

    @cached_property
    def characters(self) -> str:
        """All characters of prompts and of answers in their shortest form, in order."""
        rows = (row for side in self.sides for row in side)
        return "".join(sorted({character for row in rows for character in row.prompt + (self.solution(row) or "")}))

    @cached_property
    def columns(self) -> list[str]:
        """Columns that some line has and reward functions are given."""
        return sorted({column for side in self.sides for row in side for column in row.entry} - NOT_HANDED_ON)

    def examples(self, seed: int, purpose: Purpose, step: int, count: int, held_out: bool) -> list[Example]:
        """Return the next prompts in the order of a run: each once in an epoch."""
        side = self.sides[held_out]
        places = (divmod(place, len(side)) for place in range(step * count, (step + 1) * count))
        return [side[order(seed, purpose, epoch, len(side))[place]] for epoch, place in places]

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        given = self.rewards(examples, texts) if self.reward is not None and texts else [NAN] * len(texts)
        if self.match == "none":
            return [Score({"match": NAN, "reward": reward}, reward >= self.reward_high) for reward in given]
        matched = list(map(self.matched, examples, texts, finished))
        parts = zip(matched, given, strict=True)
        return [Score({"match": float(right), "reward": reward}, right) for right, reward in parts]

    def rewards(self, examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        """Call the function as TRL does and return a reward for each completion, NaN where it gave None.

        Source: TRL ``GRPOTrainer._calculate_rewards``, with prompts and completions as text. Its other keyword
        arguments, as ``completion_ids`` and ``trainer_state``, are not given. RunFailed where the function fails or
        gives no rewards.
        """
        columns = {column: [example.entry.get(column) for example in examples] for column in self.columns}
        try:
            prompts = [example.prompt for example in examples]
            given = imported(self.reward)(prompts=prompts, completions=list(texts), **columns)
            numbers = [NAN if reward is None else float(reward) for reward in given]
        except Exception as error:  # whatever the function of a user raises
            raise RunFailed(f"task.reward={self.reward}: {describe_error(error)}") from error
        if len(numbers) != len(texts):
            raise RunFailed(f"task.reward={self.reward}: gave {len(numbers)} rewards for {len(texts)} completions")
        return numbers

    def matched(self, example: Example, text: str, finished: bool) -> bool:
        answer = str(example.entry[self.answer])
        return (finished or self.match == "boxed") and MATCHES[self.match].matches(text, answer)

    def shortest(self, example: Example) -> str:
        """Return what is right of an answer: its last number, what is in its box, or all of it; empty without one."""
        return "" if self.match == "none" else MATCHES[self.match].shortest(str(example.entry[self.answer]))

    def solution(self, example: Example) -> str | None:
        """Return the answer alone, in a box where one is asked for; None where answers are not known."""
        return None if self.match == "none" else MATCHES[self.match].written.format(self.shortest(example))

    def wrong_solution(self, example: Example) -> str | None:
        """Return the answer with its last digit or letter altered; None where it has none."""
        other = altered(self.shortest(example))
        written = None if other is None else MATCHES[self.match].written.format(other)
        return None if written is None or self.matched(example, written, True) else written


@lru_cache(maxsize=16)
def order(seed: int, purpose: Purpose, epoch: int, prompts: int) -> list[int]:
    return generator(seed, purpose, epoch).permutation(prompts).tolist()


@lru_cache(maxsize=4)
def rows_of(path: str, prompt: str, answer: str, match: str, version: tuple[int, int]) -> list[Example]:
    """Read a file once, as long as its time and size, the ``version``, stay; ValueError with its first fault."""
    rows = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number} is no JSON: {error}") from None
        if problem := problem_of(row, prompt, answer, match):
            raise ValueError(f"line {number} {problem}")
        rows.append(Example(row.pop(prompt), row))
    return rows


def problem_of(row: Any, prompt: str, answer: str, match: str) -> str | None:
    """Say what a line is or lacks, or why nothing can be compared with its answer; None if nothing is wrong."""
    if not isinstance(row, dict):
        return f"is no JSON object, as {{{json.dumps(prompt)}: ...}}"
    for column in (prompt,) if match == "none" else (prompt, answer):
        if column not in row:
            return f"has no column {column}; there are {', '.join(row) or 'none'}"
    if not isinstance(row[prompt], str):
        return f"has a {prompt} that is no text"
    if match == "none":
        return None
    value = row[answer]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return f"has a value of {answer} that is no text and no number"
    if not str(value).strip():
        return f"has no text in {answer}"
    if match == "numeric" and last_number(str(value)) is None:
        return f"has no number in {answer}, which match=numeric compares"
    return None


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
