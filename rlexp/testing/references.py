"""A function against another of the same formula, and its gradient against numerical differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

from rlexp.axes import axis_of
from rlexp.core.registry import hyperparameters
from rlexp.testing.batches import R, hard_batch
from rlexp.testing.choices import Choice, file_of
from rlexp.testing.contract import TRAINED, Offered, difference, gradient, property_of, slopes, used, weighted

# Step of the central differences: error of order STEP² from the curve and 1e-16/STEP from rounding, both below 1e-9
# for the numbers of order one of the batch.
STEP = 1e-6
# Both sides are float64 and differ only in the order of some ten additions of numbers of order one.
VALUE = dict(rtol=1e-10, atol=1e-12)
# Central differences are good to about 1e-9; a wrong sign, factor or bound is off by 1e-2 and more.
SLOPE = dict(rtol=1e-6, atol=1e-8)
# Values of a hyperparameter at which a small batch may see that it is obeyed, after a neighbor of its own value.
NUMBERS = (0.3, 0.1, 0.01, 0.5, 0.8, 0.9, 0.95, 0.7, 1.1, 1.2, 1.3, 1.4, 2.0, 3.0, 0.0)
COUNTS = (1, 2, 3, 4, 8, 0)

# np.ndarrays or tensors of one run by position, hyperparameters by keyword.
Reference = Callable[..., Any]


def of_reference(choice: Choice, reference: Reference, given: list[Tensor]) -> Tensor:
    """Return what a reference makes of one run; it is given tensors if it fails on NumPy arrays."""
    try:
        found = reference(*(each.numpy() for each in given), **choice.hyperparameters)
    except (TypeError, AttributeError):
        found = reference(*given, **choice.hyperparameters)
    return found if isinstance(found, Tensor) else torch.as_tensor(np.asarray(found))


def disagreement(choice: Choice, reference: Reference) -> str:
    """Say where the two are that should be one formula."""
    function = reference.func if isinstance(reference, partial) else reference
    code = f"`{choice.func.__name__}` in {file_of(choice.func)} and `{function.__name__}` in {file_of(function)}"
    return f"{code} are not the same formula: one of them is not what its source says"


def value(choice: Choice, reference: Reference) -> Iterator[str]:
    """Its values are those of the reference, off-policy, on ragged groups, with the hard cases of its axis."""
    offered = hard_batch()
    rows = [of_reference(choice, reference, [offered[name][r] for name in choice.needs]) for r in range(R)]
    wanted, output = torch.stack([row.detach() for row in rows]), choice.of(offered)
    if wanted.shape != output.shape:
        yield f"the reference gives {list(wanted.shape[1:])} for a run, the function {list(output.shape[1:])}"
        return
    # of advantages, training uses those of completions in the statistics, spread over the tokens that count
    found, wanted = (used(choice, each.to(output.dtype), offered) for each in (output, wanted))
    if not torch.allclose(found.double(), wanted.double(), **VALUE, equal_nan=True):
        settings = ", ".join(f"{name}={number}" for name, number in choice.hyperparameters.items())
        at = f" with {settings}" if settings else ""
        yield f"the output{at} {difference(found, wanted)} of the reference: {disagreement(choice, reference)}"


# ---- hyperparameters


def alternatives(value: object, kind: object) -> list[object]:
    """Return other values of a hyperparameter: those that its type lists, a neighbor of a count, half of a number."""
    if get_origin(kind) is Literal:
        return [each for each in get_args(kind) if each != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value - 1 if value > 1 else 1 - value, value + 1, *COUNTS]
    if isinstance(value, float) or value is None:
        counts = COUNTS if value is None else ()  # what its type does not take is not tried
        return [0.5 * (value or 0.0) or 0.5, *NUMBERS, 2 * (value or 1.0), *counts]
    if isinstance(value, list | tuple) and value and all(isinstance(each, float) for each in value):
        return [[0.4, 0.6, 0.7, 0.9][: len(value)], [0.5 * each for each in value], [*value[1:], 0.5 * value[0]]]
    return []


def visible_changes(choice: Choice) -> dict[str, Choice | None]:
    """Return the choice with a value that changes the output, if there is one, for each hyperparameter of a step.

    Hyperparameters on which only what is remembered for the next step depends are not among them. Values of one are
    tried first, then together with those of a second.
    """
    offered, kinds, found = hard_batch(), hyperparameters(choice.func), {}
    memory = axis_of(choice.axis).memories.get(choice.name)
    idle = {*hyperparameters(memory.update), *hyperparameters(memory.start)} if memory else set()
    others = {name: alternatives(choice.hyperparameters[name], kinds[name]) for name in kinds}

    def output(choice: Choice) -> Tensor:
        return used(choice, choice.of(offered), offered).nan_to_num()

    for name in (name for name in kinds if name not in idle):
        rest = [{second: value} for second in kinds if second != name for value in others[second]]
        changes = [({name: value}, {}) for value in others[name]]
        changes += [({name: value}, beside) for value, beside in product(others[name], rest)]
        found[name] = None
        for change, beside in changes:
            changed = choice.changed(**change, **beside)
            try:
                _ = changed.function
            except AssertionError:  # it is not allowed
                continue
            if not torch.equal(output(changed), output(choice.changed(**beside))):
                found[name] = changed
                break
    return found


@property_of("hyperparameters", hint=True)
def idle_hyperparameters(choice: Choice) -> Iterator[str]:
    """Each hyperparameter changes the output, or is of what a critic is trained to."""
    target = getattr(axis_of(choice.axis).module, "TARGETS", {}).get(choice.name)
    elsewhere = hyperparameters(target) if target else ()
    for name, changed in visible_changes(choice).items():
        if changed is None and name not in elsewhere:
            where = f"`{choice.func.__name__}` in {file_of(choice.func)}"
            yield f"{name} of {where} changes nothing: use it or take it out"


def tuned_values(choice: Choice, reference: Reference) -> Iterator[str]:
    """It is the reference with other hyperparameters too: a number written into the code does not pass."""
    for changed in filter(None, visible_changes(choice).values()):
        yield from value(changed, reference)


# ---- gradients


def differences(function: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    """Return central differences of the sum of a function's output, of all coordinates in one call."""
    steps = STEP * torch.eye(point.numel(), dtype=point.dtype).view(-1, *point.shape)
    above, below = function(point + steps), function(point - steps)
    # each output by itself before the sum: those that do not move cancel, however large they are
    return ((above - below) / (2 * STEP)).reshape(point.numel(), -1).sum(-1).view(point.shape)


@property_of("gradient of the value", *TRAINED, hint=True)
def gradient_of_value(choice: Choice) -> Iterator[str]:
    """Its gradient is that of its value, by central differences, unless it stops a gradient on purpose."""
    found, offered, moving = gradient(choice), hard_batch(), choice.needs[0]
    for r in range(R if found.any() else 0):
        count = offered[moving][r].numel()
        one = {name: x[r].expand(count, *x[r].shape) for name, x in offered.items()}
        wanted = differences(partial(weighted, choice, offered=one), offered[moving][r])
        if not torch.allclose(found[r], wanted, **SLOPE):
            detached = "a gradient is stopped, or a backward of its own is wrong"
            yield f"the gradient in `{moving}` {difference(found[r], wanted)} by differences of the value: {detached}"


def gradient_of_reference(choice: Choice, reference: Reference, by_hand: Reference | None) -> Iterator[str]:
    """Its gradient is that of the reference: by hand if that is given, by autograd of tensors, else by differences."""
    offered, found = hard_batch(), gradient(choice)
    for r in range(R):
        one = {name: x[r] for name, x in offered.items()}
        if by_hand is not None:
            wanted = of_reference(choice, by_hand, [one[name] for name in choice.needs]) * one["slants"]
        else:
            wanted = slope_of_reference(choice, reference, one)
        if not torch.allclose(found[r], wanted, **SLOPE):
            yield (
                f"the gradient in `{choice.needs[0]}` {difference(found[r], wanted)} of the reference, run {r}: "
                f"{disagreement(choice, by_hand or reference)}"
            )


def slope_of_reference(choice: Choice, reference: Reference, one: Offered) -> Tensor:
    """Return the slope of Σ weight · output of a reference: by autograd if it can, else by differences."""
    first, *others = (one[name] for name in choice.needs)

    def total(output: Tensor) -> Tensor:
        return (output * one["slants"] if output.shape == one["slants"].shape else output).sum()

    def of_arrays(points: Tensor) -> Tensor:
        return torch.stack([total(of_reference(choice, reference, [point, *others])) for point in points])

    try:
        reference(*(each.numpy() for each in (first, *others)), **choice.hyperparameters)
    except (TypeError, AttributeError):
        return slopes(lambda point: total(reference(point, *others, **choice.hyperparameters)), first)
    return differences(of_arrays, first)
