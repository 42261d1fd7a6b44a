"""What every function of an axis is, whatever its formula: typed, pure, the same for one run and for a stack of them.

A property is a generator of what is wrong.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import get_type_hints

import numpy as np
import torch
from torch import Tensor

from rlexp.core.registry import check_requests, hyperparameters
from rlexp.testing.batches import batch, cached_batch
from rlexp.testing.choices import Choice, offers_of

REPLICAS, P, G, T = 6, 3, 4, 5
LEADING = [(), (1,), (3,), (2, 3)]
POISON = [math.inf, -math.inf, math.nan]
# Rounding of a few dozen float64 operations on numbers of order ten.
CLOSE = dict(rtol=1e-9, atol=1e-10)
TRAINED = ("clip", "kl", "agg", "mismatch")  # axes with a gradient, in their first input
OF_TOKENS = ("clip", "kl", "mismatch")

Offered = Mapping[str, Tensor]
Property = Callable[[Choice], Iterator[str]]


def inputs(choice: Choice, *shape: int, dtype: torch.dtype = torch.float64, seed: int = 3) -> list[Tensor]:
    """Return random tensors that a choice takes, in its order; ``shape`` is that of the tokens."""
    offered = batch(*shape, dtype=dtype, seed=seed)
    return [offered[name] for name in choice.needs]


def slopes(choice: Callable, first: Tensor, *rest: Tensor) -> Tensor:
    """Return the gradient of the sum of the output in the first input; zero where there is no path."""
    first = first.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(choice(first, *rest).sum() + (0 * first).nansum(), first)
    return gradient


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors are the same, type and bits; NaN is no number and differs from itself."""
    return left.dtype == right.dtype and torch.equal(left, right)


def same(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors are the same to the bit, NaN where the other has one."""
    nan = left.isnan() if left.is_floating_point() else torch.zeros_like(left, dtype=torch.bool)
    return left.shape == right.shape and same_bits(left.where(~nan, 0), right.where(~nan, 0) + 0)


def difference(found: Tensor, wanted: Tensor) -> str:
    """Say where two tensors of one shape differ most, and by what."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        kinds = (f"{str(each.dtype).removeprefix('torch.')} {list(each.shape)}" for each in (found, wanted))
        return "is {} instead of {}".format(*kinds)
    distance = (found.double() - wanted.double()).abs().nan_to_num(math.inf, math.inf, math.inf)
    distance = distance.masked_fill((found == wanted) | (found.isnan() & wanted.isnan()), 0.0)
    place = np.unravel_index(int(distance.argmax()), distance.shape) if distance.dim() else ()
    at = f" at {list(map(int, place))}" if place else ""
    numbers = f"{found[place].item():.6g} instead of {wanted[place].item():.6g}"
    return f"is {numbers}{at} ({int((distance > 0).sum())} differ)"


def used(choice: Choice, output: Tensor, offered: Offered) -> Tensor:
    """What training uses of an output: tokens that count; of advantages those of completions in the statistics."""
    keep, mask = offered["keep"], offered["mask"]
    if choice.axis == "norm":
        return output.where(keep, 0.0) if output.dim() == keep.dim() else output.where(mask & keep.unsqueeze(-1), 0.0)
    of_tokens = choice.axis in (*OF_TOKENS, "filter") and output.shape == mask.shape
    return output.where(mask, torch.zeros_like(output)) if of_tokens else output


# ---- signature and shape


def signature(choice: Choice) -> Iterator[str]:
    """It asks only for what its axis is offered, by name and type; every hyperparameter has a type that takes it."""
    parameters = inspect.signature(choice.func).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY) for p in parameters):
        yield f"{choice} takes *args, **kwargs or parameters without a name: tensors are asked for by name"
        return
    try:
        check_requests(str(choice), choice.func, offers_of(choice.axis, choice.name))
        takes = hyperparameters(choice.func)
    except (TypeError, NameError) as error:
        yield str(error)
        return
    if missing := [name for name in takes if name not in choice.hyperparameters]:
        yield f"{', '.join(missing)} of `{choice.func.__name__}` has no value: give it a default, or one to the check"
        return
    if "return" not in get_type_hints(choice.func):
        yield f"`{choice.func.__name__}` does not say what it returns, as -> PerCompletion"
    try:
        _ = choice.function
    except AssertionError as error:
        yield str(error)


def shape(choice: Choice) -> Iterator[str]:
    """Its output has the shape and the type of its axis."""
    offered = cached_batch(REPLICAS, P, G, T)
    output = choice.of(offered)
    of_completions, of_tokens = (REPLICAS, P, G), (REPLICAS, P, G, T)
    either = [of_completions, of_tokens]
    allowed = {"norm": either, "filter": either, "agg": [(REPLICAS,)], "reward": [of_completions]}
    allowed |= {"shaping": [of_completions]}
    wanted = allowed.get(choice.axis, [of_tokens])
    if not isinstance(output, Tensor):
        yield f"returns {type(output).__name__}, not a tensor"
    elif tuple(output.shape) not in wanted:
        shapes = " or ".join(str(list(each)) for each in wanted)
        yield f"on tokens {list(of_tokens)} the output is {list(output.shape)}, not {shapes}"
    elif choice.axis == "filter" and output.dtype != torch.bool:
        yield f"the output is {output.dtype}, not torch.bool"


def dtype(choice: Choice) -> Iterator[str]:
    """What is float32 stays float32, what is float64 stays float64."""
    for kind in (torch.float32, torch.float64):
        output, wanted = choice(*inputs(choice, REPLICAS, P, G, T, dtype=kind)), kind
        if output.dtype != (torch.bool if choice.axis == "filter" else wanted):
            yield f"{kind} in gives {output.dtype} out"


# ---- leading axes


def leading_axes(choice: Choice) -> Iterator[str]:
    """Any number of leading axes: one run alone has the bits that it has in a stack."""
    stack = inputs(choice, REPLICAS, P, G, T)
    together = choice(*stack)
    for leading in LEADING:
        count = math.prod(leading)
        try:
            output = choice(*(x[:count].reshape(leading + x.shape[1:]) for x in stack))
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            yield f"leading axes {list(leading)}: {type(error).__name__}: {first_line(error)}"
            return
        wanted = together[:count].reshape(leading + together.shape[1:])
        if not same(output, wanted):
            yield f"leading axes {list(leading)}: {difference(output, wanted)} in a stack of {REPLICAS}"
    for r in range(REPLICAS):
        alone = choice(*(x[r] for x in stack))
        if not same(together[r], alone):
            yield f"run {r} of {REPLICAS} {difference(together[r], alone)} alone: runs mix"
            return


def broken_neighbor(choice: Choice) -> Iterator[str]:
    """A run whose numbers are broken leaves the other runs alone, value and gradient."""
    stack = inputs(choice, REPLICAS, P, G, T)
    others = torch.arange(REPLICAS) != 1
    for poison in POISON:
        broken = [x.clone() for x in stack]
        for x in broken:
            x[1] = poison if x.is_floating_point() else x[1]
        found, wanted = choice(*broken)[others], choice(*stack)[others]
        if not same_bits(found, wanted):
            yield f"with {poison} in run 1 the output of the others {difference(found, wanted)}"
        if choice.axis in TRAINED:
            found, wanted = slopes(choice, *broken)[others], slopes(choice, *stack)[others]
            if not same_bits(found, wanted):
                yield f"with {poison} in run 1 the gradient of the others {difference(found, wanted)}"


# ---- purity


def inputs_unchanged(choice: Choice) -> Iterator[str]:
    """What it is given stays as it was."""
    given, before = inputs(choice, REPLICAS, P, G, T), inputs(choice, REPLICAS, P, G, T)
    choice(*given)
    for name, now, then in zip(choice.needs, given, before, strict=True):
        if not same_bits(now, then):
            yield f"`{name}` was changed: it {difference(now, then)}"


def no_global_randomness(choice: Choice) -> Iterator[str]:
    """It draws from no global generator: random numbers are asked for, as ``uniforms`` or ``drawn``."""
    given = inputs(choice, REPLICAS, P, G, T)

    def states() -> dict[str, str]:  # not that of ``random``, from which type checkers of arguments draw
        return {"torch": str(torch.get_rng_state().tolist()), "numpy": str(np.random.get_state())}

    before = states()
    choice(*given)
    for name, state in states().items():
        if state != before[name]:
            yield f"it draws from the global generator of {name}"


def determinism(choice: Choice) -> Iterator[str]:
    """The same tensors give the same bits, at any call."""
    given = inputs(choice, REPLICAS, P, G, T)
    first, *later = (choice(*given) for _ in range(3))
    for at, again in enumerate(later, 2):
        if not same(again, first):
            yield f"call {at} with the same tensors {difference(again, first)}"
            return


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return str(error).strip().partition("\n")[0]


# By name, in the order of the checks; the first two must hold for the others to make sense.
SIGNATURE: dict[str, Property] = {"signature": signature, "shape": shape}
PROPERTIES: dict[str, Property] = {
    "dtype": dtype,
    "inputs unchanged": inputs_unchanged,
    "no global randomness": no_global_randomness,
    "determinism": determinism,
    "leading axes": leading_axes,
    "broken neighbor": broken_neighbor,
}
