"""A function against another of the same formula, and its gradient against numerical differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from rlexp.testing.contract import TRAINED, Offered, difference, used

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


def tensors() -> dict[str, Tensor]:
    """Return the batch of the comparisons."""
    return {name: torch.from_numpy(array) for name, array in hard_batch().items()}


def of_reference(choice: Choice, reference: Reference, given: list[Tensor]) -> Tensor:
    """Return what a reference makes of one run; it is given tensors if it fails on NumPy arrays."""
    try:
        found = reference(*(each.numpy() for each in given), **choice.hyperparameters)
    except (TypeError, AttributeError):
        found = reference(*given, **choice.hyperparameters)
    return torch.as_tensor(np.asarray(found) if not isinstance(found, Tensor) else found)


def expected(choice: Choice, reference: Reference, offered: Offered) -> Tensor:
    """Return the values of a reference, one run after another."""
    rows = [of_reference(choice, reference, [offered[name][r] for name in choice.needs]) for r in range(R)]
    return torch.stack([row.detach() for row in rows])


def disagreement(choice: Choice, reference: Reference) -> str:
    """Say where the two are that should be one formula."""
    function = reference.func if isinstance(reference, partial) else reference
    code = f"`{choice.func.__name__}` in {file_of(choice.func)} and `{function.__name__}` in {file_of(function)}"
    return f"{code} are not the same formula: one of them is not what its source says"


def value(choice: Choice, reference: Reference) -> Iterator[str]:
    """Its values are those of the reference, off-policy, on ragged groups, with the hard cases of its axis."""
    offered = tensors()
    wanted = expected(choice, reference, offered)
    output = choice.of(offered)
    if wanted.shape != output.shape:
        yield f"the reference gives {list(wanted.shape[1:])} for a run, the function {list(output.shape[1:])}"
        return
    # of advantages, training uses those of completions in the statistics, spread over the tokens that count
    found, wanted = (used(choice, each.to(output.dtype), offered) for each in (output, wanted))
    if not torch.allclose(found.double(), wanted.double(), **VALUE, equal_nan=True):
        settings = ", ".join(f"{hyperparameter}={number}" for hyperparameter, number in choice.hyperparameters.items())
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
        return [0.5 * (value or 0.0) or 0.5, *NUMBERS, 2 * (value or 1.0)]
    if isinstance(value, list | tuple) and value and all(isinstance(each, float) for each in value):
        return [[0.4, 0.6, 0.7, 0.9][: len(value)], [0.5 * each for each in value], [*value[1:], 0.5 * value[0]]]
    return []


def retuned(choice: Choice, hyperparameter: str) -> Iterator[Choice]:
    """Yield the choice with other values of a hyperparameter, then with others of a second one, as far as allowed."""
    kinds = hyperparameters(choice.func)
    others = {name: alternatives(choice.hyperparameters[name], kinds[name]) for name in kinds}
    singles = [{hyperparameter: value} for value in others[hyperparameter]]
    rest = [(name, value) for name in kinds if name != hyperparameter for value in others[name]]
    doubles = [{hyperparameter: value, name: second} for value, (name, second) in product(others[hyperparameter], rest)]
    for values in singles + doubles:
        found = choice.changed(**values)
        try:
            _ = found.function
        except AssertionError:
            continue
        yield found


def neighbor(choice: Choice, other: Choice, hyperparameter: str) -> Choice:
    """Return ``choice`` with what ``other`` has changed beside one hyperparameter."""
    return other.changed(**{hyperparameter: choice.hyperparameters[hyperparameter]})


def hyperparameters_of_memory(choice: Choice) -> set[str]:
    """Return the hyperparameters that only what is remembered for the next step depends on."""
    memory = axis_of(choice.axis).memories.get(choice.name)
    return {*hyperparameters(memory.update), *hyperparameters(memory.start)} if memory else set()


def visible(choice: Choice, hyperparameter: str, offered: Offered) -> Choice | None:
    """Return the choice with a value of a hyperparameter that changes the output, if there is one."""
    for other in retuned(choice, hyperparameter):
        before = used(choice, neighbor(choice, other, hyperparameter).of(offered), offered)
        if not torch.equal(used(other, other.of(offered), offered).nan_to_num(), before.nan_to_num()):
            return other
    return None


def hyperparameters_of_formula(choice: Choice) -> list[str]:
    """Return the hyperparameters on which the output of a step depends."""
    idle = hyperparameters_of_memory(choice)
    return [hyperparameter for hyperparameter in hyperparameters(choice.func) if hyperparameter not in idle]


def idle_hyperparameters(choice: Choice) -> Iterator[str]:
    """Each hyperparameter changes the output."""
    offered = tensors()
    for hyperparameter in hyperparameters_of_formula(choice):
        if visible(choice, hyperparameter, offered) is None:
            where = f"`{choice.func.__name__}` in {file_of(choice.func)}"
            yield f"{hyperparameter} of {where} changes nothing: use it or take it out"


def tuned_values(choice: Choice, reference: Reference) -> Iterator[str]:
    """It is the reference with other hyperparameters too: a number written into the code does not pass."""
    offered = tensors()
    for hyperparameter in hyperparameters_of_formula(choice):
        if other := visible(choice, hyperparameter, offered):
            yield from value(other, reference)


# ---- gradients


def differences(function: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    """Return central differences of the sum of a function's output, of all coordinates in one call."""
    steps = STEP * torch.eye(point.numel(), dtype=point.dtype).view(-1, *point.shape)
    above, below = function(point + steps), function(point - steps)
    # each output by itself before the sum: those that do not move cancel, however large they are
    return ((above - below) / (2 * STEP)).reshape(point.numel(), -1).sum(-1).view(point.shape)


def weighted(choice: Choice, output: Tensor, offered: Offered) -> Tensor:
    """Weigh the tokens of an output differently, so that mixed-up tokens show."""
    return output * offered["slants"] if output.shape == offered["slants"].shape else output


def gradient(choice: Choice) -> Tensor | None:
    """Return the gradient of Σ weight · output in the first input of a choice; None without a path to it."""
    offered = tensors()
    leaf = offered[choice.needs[0]].requires_grad_()
    output = weighted(choice, choice.of({**offered, choice.needs[0]: leaf}), offered)
    if not output.requires_grad:
        return None
    return torch.autograd.grad(output.sum(), leaf, allow_unused=True)[0]


def gradient_reaches(choice: Choice) -> Iterator[str]:
    """A finite gradient reaches the first input."""
    if choice.facts.is_noop:
        return
    found = gradient(choice)
    if found is None or not found.any():
        yield f"no gradient reaches `{choice.needs[0]}`: nothing is learned from this {choice.axis}"
    elif not found.isfinite().all():
        yield f"{int((~found.isfinite()).sum())} of {found.numel()} numbers of the gradient are not finite"


def gradient_of_value(choice: Choice) -> Iterator[str]:
    """Its gradient is that of its value, by central differences, unless it stops a gradient on purpose."""
    found = gradient(choice)
    if found is None:
        return
    offered, moving = tensors(), choice.needs[0]
    for r in range(R):
        count = offered[moving][r].numel()
        one = {name: x[r].expand(count, *x[r].shape) for name, x in offered.items()}

        def at(points: Tensor, one: Mapping[str, Tensor] = one) -> Tensor:
            return weighted(choice, choice.of({**one, moving: points}), one)

        wanted = differences(at, offered[moving][r])
        if not torch.allclose(found[r], wanted, **SLOPE):
            detached = "a gradient is stopped, or a backward of its own is wrong"
            yield f"the gradient in `{moving}` {difference(found[r], wanted)} by differences of the value: {detached}"
            return


def numerical_gradient(function: Callable[[np.ndarray], float], point: np.ndarray) -> np.ndarray:
    """Return central differences of a scalar function at ``point``, one coordinate after another."""
    found = np.empty(point.shape)
    for index in np.ndindex(*point.shape):
        above, below = point.copy(), point.copy()
        above[index] += STEP
        below[index] -= STEP
        found[index] = (function(above) - function(below)) / (2 * STEP)
    return found


def gradient_of_reference(choice: Choice, reference: Reference, by_hand: Reference | None) -> Iterator[str]:
    """Its gradient is that of the reference: by hand if that is given, by autograd of tensors, else by differences."""
    offered = tensors()
    found = gradient(choice)
    for r in range(R):
        first, *others = (offered[name][r] for name in choice.needs)
        slants = offered["slants"][r]
        if by_hand is not None:
            wanted = of_reference(choice, by_hand, [first, *others]) * slants
        else:
            wanted = slope_of_reference(choice, reference, first, others, slants)
        actual = torch.zeros_like(wanted) if found is None else found[r]
        if not torch.allclose(actual, wanted, **SLOPE):
            yield (
                f"the gradient in `{choice.needs[0]}` {difference(actual, wanted)} of the reference, run {r}: "
                f"{disagreement(choice, by_hand or reference)}"
            )
            return


def slope_of_reference(
    choice: Choice, reference: Reference, first: Tensor, others: list[Tensor], slants: Tensor
) -> Tensor:
    """Return the slope of Σ weight · output of a reference: by autograd if it can, else by differences."""

    def total(output: Any) -> Any:
        return (output * slants if tuple(output.shape) == tuple(slants.shape) else output).sum()

    leaf = first.clone().requires_grad_()
    try:
        np.asarray(reference(*(each.numpy() for each in (first, *others)), **choice.hyperparameters))
    except (TypeError, AttributeError):
        output = total(reference(leaf, *others, **choice.hyperparameters))
        return torch.autograd.grad(output + 0 * leaf.sum(), leaf)[0]
    fixed, weights = [each.numpy() for each in others], slants.numpy()

    def number(point: np.ndarray) -> float:
        output = reference(point, *fixed, **choice.hyperparameters)
        return float(np.sum(output * (weights if np.ndim(output) else 1)))

    return torch.from_numpy(numerical_gradient(number, first.numpy()))


PROPERTIES = {"gradient": gradient_reaches}
HINTS = {"hyperparameters": idle_hyperparameters, "gradient of the value": gradient_of_value}
OF_AXES = dict.fromkeys(("gradient", "gradient of the value", "gradient of the reference"), TRAINED)
