"""Checks for functions of an axis, tasks and models that are not ours: what ours promise, held against yours.

    import rlexp.testing
    from rlexp.core.types import CompletionMask, PerCompletion, Positive

    def mad(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive = 1e-6) -> PerCompletion: ...

    rlexp.testing.check("norm", mad)                         # AssertionError with what does not hold
    rlexp.testing.check("norm", mad, reference=plain_mad)    # and whether it is another function's formula

``rlexp check my_package`` does so for all that a package registers. Neither needs pytest.
"""

from __future__ import annotations

from collections.abc import Callable

from rlexp.testing.batches import batch
from rlexp.testing.choices import bind
from rlexp.testing.examine import Result, examine, examine_task
from rlexp.testing.references import Reference

__all__ = ["Result", "batch", "check"]


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
