"""All checks of one function: what it promises, what it declares, what its reference says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from rlexp.tasks import Task
from rlexp.testing import contract, laws, masks, references, tasks
from rlexp.testing.choices import BATCH_AXES, Choice
from rlexp.testing.contract import SIGNATURE, Property, first_line
from rlexp.testing.references import Reference

OF_AXES = masks.OF_AXES | laws.OF_AXES | references.OF_AXES


class Result(NamedTuple):
    """What a check of a property found; no ``problem``: it holds. A ``hint`` is no fault, or may be meant."""

    choice: str
    property: str
    problem: str = ""
    hint: bool = False

    def __str__(self) -> str:
        return f"{self.choice}: {self.property}: {self.problem or 'holds'}"


def properties(
    choice: Choice, reference: Reference | None = None, gradient: Reference | None = None
) -> Iterator[tuple[str, Property, bool]]:
    """Yield the properties of the axis by name, in the order of the checks, and whether what they find is a hint."""
    wrong: dict[str, Property] = contract.PROPERTIES | masks.PROPERTIES | references.PROPERTIES | laws.PROPERTIES
    hints: dict[str, Property] = laws.HINTS | references.HINTS
    if reference is not None:
        wrong["reference"] = partial(references.value, reference=reference)
        wrong["reference, retuned"] = partial(references.tuned_values, reference=reference)
        of_reference = partial(references.gradient_of_reference, reference=reference, by_hand=gradient)
        wrong["gradient of the reference"] = of_reference
        del hints["gradient of the value"]  # of a stopped gradient, the reference says what it is
    for name, check in (wrong | hints).items():
        if choice.axis in OF_AXES.get(name, (choice.axis,)):
            yield name, check, name in hints


def examine(choice: Choice, reference: Reference | None = None, gradient: Reference | None = None) -> list[Result]:
    """Return what each property finds first; nothing beyond signature and shape where these are wrong already."""
    found = []
    for name, check in SIGNATURE.items():
        if name == "signature" or choice.axis in BATCH_AXES:
            found.append(Result(str(choice), name, first_problem(choice, check)))
        if found[-1].problem:
            return found
    if choice.axis in BATCH_AXES:
        for name, check, hint in properties(choice, reference, gradient):
            found.append(Result(str(choice), name, first_problem(choice, check), hint))
    return found


def examine_task(name: str, task: Task) -> list[Result]:
    """Return what each property of a task finds first; nothing beyond the protocol where that is not kept."""
    found = []
    for property_name, check in tasks.PROPERTIES.items():
        found.append(Result(f"task={name}", property_name, first_problem(task, check)))
        if found[0].problem:
            break
    return found


def first_problem(subject: Choice | Task, check: Callable[..., Iterator[str]]) -> str:
    """Return the first thing that is wrong, the error if the function raises one, or nothing."""
    try:
        return next(check(subject), "")
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"
