"""Checks for functions of an axis, tasks and models that are not ours: what ours promise, held against yours.

    import rlexp.testing
    from rlexp.core.types import CompletionMask, PerCompletion, Positive

    def mad(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive = 1e-6) -> PerCompletion: ...

    rlexp.testing.check("norm", mad)                         # AssertionError with what does not hold
    rlexp.testing.check("norm", mad, reference=plain_mad)    # and whether it is another function's formula

``rlexp check my_package`` does so for all that a package registers. Neither needs pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from rlexp.tasks import Task
from rlexp.testing import contract, laws, references, tasks  # noqa: F401 (the laws enter their properties)
from rlexp.testing.batches import batch
from rlexp.testing.choices import BATCH_AXES, Choice, bind
from rlexp.testing.contract import PROPERTIES, Property
from rlexp.testing.references import Reference

__all__ = ["Result", "batch", "check"]


class Result(NamedTuple):
    """What a check of a property found; no ``problem``: it holds. A ``hint`` is no fault, or may be meant."""

    choice: str
    property: str
    problem: str = ""
    hint: bool = False

    def __str__(self) -> str:
        return f"{self.choice}: {self.property}: {self.problem or 'holds'}"


def check(
    axis: str,
    function: str | Callable,
    reference: Reference | None = None,
    *,
    gradient: Reference | None = None,
    **hyperparameters: object,
) -> list[Result]:
    """Check a function of an axis, or a task, against what the loop relies on, and against its reference.

    Args:
        axis: Its axis, as ``norm`` or ``clip``, or ``task``.
        function: The function, or the name of one of ours; the class of a task.
        reference: The same formula once more, for one run: it gets NumPy arrays ``[P G]`` or ``[P G T]`` by position,
            in the order of the function's parameters, and the hyperparameters by keyword. One that fails on arrays
            (TypeError, AttributeError) gets torch tensors, and its gradient is that of autograd.
        gradient: Where the function stops a gradient and the reference is of arrays: the slope of each output in the
            same place of the first input, with the arguments of the reference.
        hyperparameters: Values for those without a default, or others than it.

    Returns:
        Hints: what holds and is not declared, hyperparameters that change nothing, stopped gradients.

    Raises:
        AssertionError: A property does not hold; a line each with the property, the case and the numbers.
    """
    if axis == "task":
        found = examine_task(function.__name__, function(**hyperparameters))
    else:
        found = examine(bind(axis, function, **hyperparameters), reference, gradient)
    problems = [str(result) for result in found if result.problem and not result.hint]
    if problems:
        raise AssertionError("\n".join(problems))
    return [result for result in found if result.problem]


def examine(choice: Choice, reference: Reference | None = None, gradient: Reference | None = None) -> list[Result]:
    """Return what each property finds first; nothing beyond signature and shape where these are wrong already."""
    properties = {name: each for name, each in PROPERTIES.items() if choice.axis in (each.axes or (choice.axis,))}
    hints = {name: properties.pop(name) for name, each in [*properties.items()] if each.hint}
    if reference is not None:
        of_gradient = partial(references.gradient_of_reference, reference=reference, by_hand=gradient)
        properties |= {
            "reference": Property(partial(references.value, reference=reference)),
            "reference, retuned": Property(partial(references.tuned_values, reference=reference)),
        } | ({"gradient of the reference": Property(of_gradient)} if choice.axis in contract.TRAINED else {})
        hints.pop("gradient of the value", None)  # of a stopped gradient, the reference says what it is
    found = []
    for name, each in (properties | hints).items():
        found.append(Result(str(choice), name, first_problem(choice, each.check), each.hint))
        if choice.axis not in BATCH_AXES or name in ("signature", "shape") and found[-1].problem:
            break
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
        first_line = str(error).strip().partition("\n")[0]
        return f"{type(error).__name__}: {first_line}"
