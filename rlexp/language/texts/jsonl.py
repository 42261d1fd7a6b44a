"""Prompts and answers of one's own: a file with a JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import Gt, Lt
from pydantic import FiniteFloat

from rlexp.core.streams import Purpose, generator
from rlexp.core.types import FiniteNonNegative
from rlexp.language.text_task import Example, Score, is_held_out
from rlexp.language.texts.answers import MATCHES, altered, last_number, last_number_text, unboxed
from rlexp.language.texts.reward_function import imported, rewards
from rlexp.tasks.task import check_weights

NAN = float("nan")


class Sides(NamedTuple):
    """What is trained on and what is held out; no prompt is in both. Entries are the other columns of the line."""

    training: tuple[Example, ...]
    held_out: tuple[Example, ...]


@dataclass(frozen=True, kw_only=True)
class JsonLines:
    r"""Lines ``{"prompt": ..., "answer": ...}``, in UTF-8; ``prompt`` and ``answer`` name the columns that are meant.

    Component ``match``: 1 for the right answer, else 0. ``exact``: the completion is the answer; ``numeric``: its last
    number is that of the answer; ``boxed``: its last \\boxed{...} is the answer; see ``texts/answers.py``. What was
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
    weights: dict[str, FiniteNonNegative]
    metric: str
    floor: float

    def __post_init__(self):
        check_weights(self.weights, ("match", "reward"))
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
        self.check_sides()

    def check_sides(self) -> None:
        """Raise ValueError where nothing is left to train on or to evaluate."""
        names = f"path={self.path}: ", f"held_out={self.held_out}: "
        if self.held_out is not None:
            if not self.sides.held_out:
                raise ValueError(f"{names[1]}has no prompts")
            if not self.sides.training:
                raise ValueError(f"{names[0]}has no prompts that held_out={self.held_out} has not")
        elif not all(self.sides):
            count, share = sum(map(len, self.sides)), f"held_out_share={self.held_out_share:g}"
            side = "training" if self.sides.held_out or not count else "evaluation"
            raise ValueError(f"{names[0]}{share} leaves none of {count} prompts for {side}; held_out can name a file")

    @cached_property
    def sides(self) -> Sides:
        """All prompts."""
        rows = self.rows("path", self.path)
        if self.held_out is None:
            apart = [is_held_out(row.prompt, self.held_out_share) for row in rows]
            parts = ([row for row, out in zip(rows, apart, strict=True) if out == side] for side in (False, True))
            return Sides(*map(tuple, parts))
        others = self.rows("held_out", self.held_out)
        taken = {row.prompt for row in others}
        return Sides(tuple(row for row in rows if row.prompt not in taken), others)

    def rows(self, hyperparameter: str, path: str) -> tuple[Example, ...]:
        """Return the lines of a file; ValueError, in one line, with the first that is none."""
        answer = None if self.match == "none" else self.answer
        try:
            stat = Path(path).stat()
            return rows_of(hyperparameter, path, self.prompt, answer, self.match, (stat.st_mtime_ns, stat.st_size))
        except OSError as error:
            raise ValueError(f"{hyperparameter}={path}: {error.strerror or error}") from None

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward that a completion can have."""
        low, high = (self.weights["reward"] * bound for bound in (self.reward_low, self.reward_high))
        if not self.weights["match"]:
            return low, high
        return min(0.0, low), self.weights["match"] + max(0.0, high)

    @cached_property
    def characters(self) -> str:
        """All characters of prompts and of answers in their shortest form, in order."""
        used: set[str] = set()
        for row in (*self.sides.training, *self.sides.held_out):
            used.update(row.prompt, self.solution(row) or "")
        return "".join(sorted(used))

    @cached_property
    def columns(self) -> list[str]:
        """Columns that some line has, but for the prompt and what TRL does not hand on either."""
        named = {column for side in self.sides for row in side for column in row.entry}
        return sorted(named - {"prompt", "completion", "completion_ids"})

    def examples(self, seed: int, purpose: Purpose, step: int, count: int, held_out: bool) -> list[Example]:
        """Return the next prompts in the order of a run: each once in an epoch."""
        side = self.sides.held_out if held_out else self.sides.training
        places = (divmod(place, len(side)) for place in range(step * count, (step + 1) * count))
        return [side[order(seed, purpose, epoch, len(side))[place]] for epoch, place in places]

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        """Judge one completion for each example."""
        given = [NAN] * len(texts)
        if self.reward is not None and texts:
            columns = {column: [example.entry.get(column) for example in examples] for column in self.columns}
            given = rewards(self.reward, [example.prompt for example in examples], texts, columns)
        matched = map(self.matched, examples, texts, finished)
        if self.match == "none":
            return [Score({"match": NAN, "reward": reward}, reward >= self.reward_high) for reward in given]
        return [
            Score({"match": float(right), "reward": reward}, right)
            for right, reward in zip(matched, given, strict=True)
        ]

    def matched(self, example: Example, text: str, finished: bool) -> bool:
        """Whether a completion has the right answer."""
        return (finished or self.match == "boxed") and MATCHES[self.match](text, self.answer_of(example))

    def answer_of(self, example: Example) -> str:
        """Return the answer to a prompt as the file has it."""
        return str(example.entry[self.answer])

    def solution(self, example: Example) -> str | None:
        """Return the answer alone, in a box where one is asked for; None where answers are not known."""
        return None if self.match == "none" else self.formed(self.shortest(example))

    def wrong_solution(self, example: Example) -> str | None:
        """Return the answer with its last digit or letter altered; None where it has none."""
        other = None if self.match == "none" else altered(self.shortest(example))
        return None if other is None or self.matched(example, self.formed(other), True) else self.formed(other)

    def shortest(self, example: Example) -> str:
        """Return what is right of an answer: its last number, what is in its box, or all of it."""
        answer = self.answer_of(example)
        parts = {"exact": answer.strip, "numeric": lambda: last_number_text(answer), "boxed": lambda: unboxed(answer)}
        return parts[self.match]()

    def formed(self, answer: str) -> str:
        r"""Write an answer as it is asked for: `5` → `\boxed{5}` with match=boxed."""
        return f"\\boxed{{{answer}}}" if self.match == "boxed" else answer


@lru_cache(maxsize=16)
def order(seed: int, purpose: Purpose, epoch: int, prompts: int) -> list[int]:
    """Return the order in which an epoch has its prompts."""
    return generator(seed, purpose, epoch).permutation(prompts).tolist()


@lru_cache(maxsize=4)
def rows_of(
    hyperparameter: str, path: str, prompt: str, answer: str | None, match: str, version: tuple
) -> tuple[Example, ...]:
    """Read a file once, as long as its time and size, the ``version``, stay the same."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{hyperparameter}={path}: is no text in UTF-8, from byte {error.start} on") from None
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            rows += [example_of(line, prompt, answer, match)] if line.strip() else []
        except ValueError as error:
            raise ValueError(f"{hyperparameter}={path}: line {number} {error}") from None
    return tuple(rows)


def example_of(line: str, prompt: str, answer: str | None, match: str) -> Example:
    """Read a line; ValueError with what it is or lacks."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"is no JSON object, as {{{json.dumps(prompt)}: ...}}")
    for column in (prompt,) if answer is None else (prompt, answer):
        if column not in row:
            raise ValueError(f"has no column {column}; there are {', '.join(row) or 'none'}")
    if not isinstance(row[prompt], str):
        raise ValueError(f"has a {prompt} that is no text")
    if answer is not None:
        check_answer(row[answer], answer, match)
    return Example(row.pop(prompt), row)


def check_answer(value: Any, column: str, match: str) -> None:
    """Raise ValueError where nothing can be compared with an answer."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"has a value of {column} that is no text and no number")
    if not str(value).strip():
        raise ValueError(f"has no text in {column}")
    if match == "numeric" and last_number(str(value)) is None:
        raise ValueError(f"has no number in {column}, which match=numeric compares")
