"""What every function of an axis is, whatever its formula: typed, pure, the same for one run and for a stack of them.

What must not count does not: padding, completions that are left out, neighbors; and corner cases stay finite. A
property is a generator of what is wrong, and stands in ``PROPERTIES``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, get_type_hints

import numpy as np
import torch
from torch import Tensor

from rlexp.axes import axis_of
from rlexp.core.registry import check_requests, hyperparameters
from rlexp.testing.batches import batch, cached_batch, hard_batch
from rlexp.testing.choices import Choice

REPLICAS, P, G, T = SHAPE = 6, 3, 4, 5
LEADING = [(), (1,), (3,), (2, 3)]
POISON = [math.inf, -math.inf, math.nan]
GARBAGE = [1e4, math.inf, math.nan]
# What the loop makes finite outside the mask (advantages), or 0 (rewards of tokens): other garbage cannot come.
FINITE_OUTSIDE, ZERO_OUTSIDE = {"advantages"}, {"token_penalties", "token_rewards"}
GAP = 2  # tokens between those that count
# What a completion brings into the statistics: whatever it is, it changes nothing where the completion is left out.
OF_COMPLETIONS = ("rewards", "outcomes", "adjustments", "lengths", "correct")
# Rounding of a few dozen float64 operations on numbers of order ten.
CLOSE = dict(rtol=1e-9, atol=1e-10)
OF_TOKENS = ("clip", "kl", "mismatch")
TRAINED = (*OF_TOKENS, "agg")  # axes with a gradient, in their first input

Offered = Mapping[str, Tensor]


class Property(NamedTuple):
    """A check, the axes that it is for (all if none are named), and whether what it finds is a hint."""

    check: Callable[[Choice], Iterator[str]]
    axes: tuple[str, ...] = ()
    hint: bool = False


PROPERTIES: dict[str, Property] = {}  # by name, in the order of the checks


def property_of(name: str, *axes: str, hint: bool = False) -> Callable:
    """Enter a check under its name."""

    def enter(check: Callable[[Choice], Iterator[str]]) -> Callable[[Choice], Iterator[str]]:
        PROPERTIES[name] = Property(check, axes, hint)
        return check

    return enter


# ---- tensors and their differences


def inputs(choice: Choice, *shape: int, dtype: torch.dtype = torch.float64, seed: int = 3) -> list[Tensor]:
    """Return random tensors that a choice takes, in its order; ``shape`` is that of the tokens."""
    offered = batch(*(shape or SHAPE), dtype=dtype, seed=seed)
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
    """Whether two tensors are the same, type and bits, and NaN where the other is."""
    alike = left.dtype == right.dtype and left.shape == right.shape
    return alike and torch.allclose(left, right, rtol=0, atol=0, equal_nan=True)


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


def value_and_slope(choice: Choice, offered: Offered) -> tuple[Tensor, Tensor | None]:
    """Return what training uses of an output, and the gradient in the first input at the tokens that count."""
    value = used(choice, choice.of(offered), offered)
    if choice.axis not in TRAINED:
        return value, None
    moving = choice.needs[0]

    def of_tokens_that_count(tensor: Tensor) -> Tensor:
        tensor = tensor.where(offered["mask"], offered[moving])
        return used(choice, choice.of({**offered, moving: tensor}), offered)

    return value, slopes(of_tokens_that_count, offered[moving])


def differing(choice: Choice, offered: Offered, wanted: tuple[Tensor, Tensor | None], case: str) -> Iterator[str]:
    """Say whether value and gradient are the wanted ones to the bit."""
    found = value_and_slope(choice, offered)
    for what, one, other in zip(("output", "gradient"), found, wanted, strict=True):
        if one is not None and not same_bits(one, other):
            yield f"where {case} the {what} {difference(one, other)}"
            return


def not_finite(choice: Choice, offered: Offered, case: str) -> Iterator[str]:
    """Say what is not finite of what training uses."""
    for what, numbers in zip(("output", "gradient"), value_and_slope(choice, offered), strict=True):
        if numbers is not None and not numbers.isfinite().all():
            wrong = numbers[~numbers.isfinite()]
            yield f"{case}: {len(wrong)} of {numbers.numel()} numbers of the {what} are {wrong[0].item()}"
            return


# ---- signature and shape, which must hold for the others to make sense


@property_of("signature")
def signature(choice: Choice) -> Iterator[str]:
    """It asks only for what its axis is offered, by name and type; every hyperparameter has a type that takes it."""
    parameters = inspect.signature(choice.func).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY) for p in parameters):
        yield f"{choice} takes *args, **kwargs or parameters without a name: tensors are asked for by name"
        return
    offered, memory = axis_of(choice.axis).inputs, axis_of(choice.axis).memories.get(choice.name)
    try:
        check_requests(str(choice), choice.func, {**offered, memory.name: memory.offer} if memory else offered)
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


@property_of("shape")
def shape(choice: Choice) -> Iterator[str]:
    """Its output has the shape and the type of its axis."""
    output = choice.of(cached_batch(*SHAPE))
    of_completions, of_tokens = SHAPE[:-1], SHAPE
    allowed = dict.fromkeys(("norm", "filter"), [of_completions, of_tokens])
    allowed |= {"agg": [SHAPE[:1]], "reward": [of_completions], "shaping": [of_completions]}
    wanted = allowed.get(choice.axis, [of_tokens])
    if not isinstance(output, Tensor):
        yield f"returns {type(output).__name__}, not a tensor"
    elif tuple(output.shape) not in wanted:
        shapes = " or ".join(str(list(each)) for each in wanted)
        yield f"on tokens {list(of_tokens)} the output is {list(output.shape)}, not {shapes}"
    elif choice.axis == "filter" and output.dtype != torch.bool:
        yield f"the output is {output.dtype}, not torch.bool"


@property_of("dtype")
def dtype(choice: Choice) -> Iterator[str]:
    """What is float32 stays float32, what is float64 stays float64."""
    for kind in (torch.float32, torch.float64):
        output = choice(*inputs(choice, dtype=kind))
        if output.dtype != (torch.bool if choice.axis == "filter" else kind):
            yield f"{kind} in gives {output.dtype} out"


# ---- purity


@property_of("inputs unchanged")
def inputs_unchanged(choice: Choice) -> Iterator[str]:
    """What it is given stays as it was."""
    given, before = inputs(choice), inputs(choice)
    choice(*given)
    for name, now, then in zip(choice.needs, given, before, strict=True):
        if not same_bits(now, then):
            yield f"`{name}` was changed: it {difference(now, then)}"


@property_of("no global randomness")
def no_global_randomness(choice: Choice) -> Iterator[str]:
    """It draws from no global generator: random numbers are asked for, as ``uniforms`` or ``drawn``."""
    given = inputs(choice)
    of_torch, of_numpy = torch.get_rng_state(), str(np.random.get_state())
    choice(*given)  # which may move that of ``random``: type checkers of arguments draw from it
    if not torch.equal(torch.get_rng_state(), of_torch):
        yield "it draws from the global generator of torch"
    if str(np.random.get_state()) != of_numpy:
        yield "it draws from the global generator of numpy"


@property_of("determinism")
def determinism(choice: Choice) -> Iterator[str]:
    """The same tensors give the same bits, at any call."""
    given = inputs(choice)
    first, *later = (choice(*given) for _ in range(3))
    for at, again in enumerate(later, 2):
        if not same(again, first):
            yield f"call {at} with the same tensors {difference(again, first)}"


# ---- leading axes and neighbors


@property_of("leading axes")
def leading_axes(choice: Choice) -> Iterator[str]:
    """Any number of leading axes: one run alone has the bits that it has in a stack."""
    stack = inputs(choice)
    together = choice(*stack)
    for leading in LEADING:
        count = math.prod(leading)
        try:
            output = choice(*(x[:count].reshape(leading + x.shape[1:]) for x in stack))
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            first_line = str(error).strip().partition("\n")[0]
            yield f"leading axes {list(leading)}: {type(error).__name__}: {first_line}"
            return
        wanted = together[:count].reshape(leading + together.shape[1:])
        if not same(output, wanted):
            yield f"leading axes {list(leading)}: {difference(output, wanted)} in a stack of {REPLICAS}"
    for r in range(REPLICAS):
        alone = choice(*(x[r] for x in stack))
        if not same(together[r], alone):
            yield f"run {r} of {REPLICAS} {difference(together[r], alone)} alone: runs mix"


@property_of("broken neighbor")
def broken_neighbor(choice: Choice) -> Iterator[str]:
    """A run whose numbers are broken leaves the other runs alone, value and gradient."""
    stack = inputs(choice)
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


@property_of("neighbors", "shaping", "reward", "mismatch", "anchor", "kl")
def neighbors(choice: Choice) -> Iterator[str]:
    """A completion is shaped, corrected and penalized by itself (or with its group), a prompt is judged by itself."""
    every = inputs(choice)
    together = choice(*every)
    for p, g in [(0, 0), (P - 1, G - 2)]:
        whole = choice.axis == "reward" or choice.facts.of_group
        one = (slice(None), slice(p, p + 1)) + (() if whole else (slice(g, g + 1),))
        alone = choice(*(x[one] if x.dim() > 2 else x for x in every))
        if not same_bits(alone, together[one]):
            yield f"of prompt {p}, completion {g}, alone the output {difference(alone, together[one])}"


# ---- what does not count


@property_of("masked tokens", "filter", "norm", *TRAINED)
def masked_tokens(choice: Choice) -> Iterator[str]:
    """Tokens outside the mask reach neither value nor gradient, whatever they hold: −inf − −inf is NaN, and NaN · 0."""
    clean = cached_batch(*SHAPE)
    mask, wanted = clean["mask"], value_and_slope(choice, clean)
    names = [name for name in choice.needs if clean[name].is_floating_point() and clean[name].shape == mask.shape]
    names = [name for name in names if name not in ZERO_OUTSIDE]
    for name in names:
        for garbage in GARBAGE[:1] if name in FINITE_OUTSIDE else GARBAGE:
            dirty = {**clean, name: clean[name].masked_fill(~mask, garbage)}
            yield from differing(choice, dirty, wanted, f"`{name}` is {garbage:g} outside the mask")
    together = {name: clean[name].masked_fill(~mask, math.nan) for name in names if name not in FINITE_OUTSIDE}
    yield from differing(choice, {**clean, **together}, wanted, "everything is nan outside the mask")


@property_of("gaps", "filter", "norm", *TRAINED)
def gaps(choice: Choice) -> Iterator[str]:
    """Tokens outside the mask may stand between those that count, as an environment's do: they change nothing."""
    if choice.facts.of_turns:
        return
    clean = cached_batch(*SHAPE)
    mask, (value, slope) = clean["mask"], value_and_slope(choice, clean)

    def wider(tensor: Tensor, filling: Tensor | float) -> Tensor:
        between = (torch.zeros(*tensor.shape[:-1], GAP, dtype=torch.float64) + filling).to(tensor.dtype)
        return torch.cat([tensor[..., :1], between, tensor[..., 1:]], -1)

    def without(tensor: Tensor) -> Tensor:
        return torch.cat([tensor[..., :1], tensor[..., 1 + GAP :]], -1) if tensor.shape[-1] == T + GAP else tensor

    dirty = dict(clean)
    for name in choice.needs:
        if clean[name].shape == mask.shape:
            nothing = not clean[name].is_floating_point() or name in ZERO_OUTSIDE
            dirty[name] = wider(clean[name], 0.0 if nothing else GARBAGE[0] if name in FINITE_OUTSIDE else math.nan)
    dirty["mask"] = wider(mask, 0.0)
    if "values" in clean:  # where nothing counts behind a gap, the value before it is that of the last place
        dirty["values"] = wider(clean["values"], clean["values"][..., 1:2] + 7.0 * mask[..., 1:2])
    found = [None if each is None else without(each) for each in value_and_slope(choice, dirty)]
    for what, one, other in zip(("output", "gradient"), found, (value, slope), strict=True):
        if one is not None and not (one.shape == other.shape and torch.allclose(one, other, **CLOSE)):
            yield f"with {GAP} tokens outside the mask behind the first the {what} {difference(one, other)}"
            return


@property_of("left-out completions", "norm", "filter")
def left_out_completions(choice: Choice) -> Iterator[str]:
    """Completions outside ``keep`` (of a filter: without a reward) change nothing for the others."""
    clean = cached_batch(*SHAPE)
    inside = clean["keep" if choice.axis == "norm" else "scored"]
    names = [name for name in OF_COMPLETIONS if name in choice.needs]
    if choice.axis == "filter":
        names = [name for name in names if name == "rewards"] if "scored" in choice.needs else []

    def of_those_inside(offered: Offered) -> Tensor:
        output = used(choice, choice.of(offered), offered)
        return output.where(inside if output.dim() == inside.dim() else inside.unsqueeze(-1), torch.zeros_like(output))

    wanted = of_those_inside(clean)
    for name in names:
        for garbage in (7.0, 1e30, math.nan):
            found = of_those_inside({**clean, name: clean[name].masked_fill(~inside, garbage)})
            if not same_bits(found, wanted):
                case = f"`{name}` is {garbage:g} for completions that are left out"
                yield f"where {case} the others' output {difference(found, wanted)}"


# ---- corner cases


@property_of("corner cases")
def corner_cases(choice: Choice) -> Iterator[str]:
    """Groups of one, one token, one prompt: value and gradient are finite."""
    for case, size in {"groups of one": (P, 1, T), "one token": (P, G, 1), "one prompt": (1, G, T)}.items():
        yield from not_finite(choice, cached_batch(REPLICAS, *size), case)


@property_of("equal rewards", "norm")
def equal_rewards(choice: Choice) -> Iterator[str]:
    """Rewards that are all equal give finite advantages."""
    offered = cached_batch(*SHAPE)
    for constant in (0.0, 0.7, 1e6):
        alike = {name: torch.full_like(offered[name], constant) for name in ("rewards", "outcomes", "components")}
        yield from not_finite(choice, {**offered, **alike}, f"all rewards are {constant:g}")


@property_of("nothing counts", "filter", "norm", *TRAINED)
def nothing_counts(choice: Choice) -> Iterator[str]:
    """Where every token is masked, or no completion is in the statistics, everything is finite, and a loss is 0."""
    offered, cases = cached_batch(*SHAPE), [("keep", "scored"), ("mask", "keep", "scored", "finished")]
    for names in cases if choice.axis == "norm" else [("mask",), *cases]:  # what is weighed has tokens
        none = {**offered, **{name: torch.zeros_like(offered[name]) for name in names}}
        case = f"nothing is in {' and '.join(f'`{name}`' for name in names)}"
        yield from not_finite(choice, none, case)
        if choice.axis == "agg" and "mask" in names:
            value, gradient = value_and_slope(choice, none)
            if value.any() or gradient.any():
                yield f"{case}: the loss is {value.abs().max().item():.6g}, not 0"


@property_of("no reward", "shaping", "reward")
def no_reward(choice: Choice) -> Iterator[str]:
    """A completion without a reward (NaN) gets none, and the others' stay finite."""
    offered, name = cached_batch(*SHAPE), "rewards" if choice.axis == "shaping" else "verified"
    if name not in choice.needs:
        return
    scored = offered["scored"]
    output = choice.of({**offered, name: offered[name].where(scored, math.nan)})
    if not output[~scored].isnan().all():
        yield f"a completion without a reward got {output[~scored].nan_to_num(-math.inf).max().item():.6g}"
    if not output[scored].isfinite().all():
        yield "a completion that has a reward lost it because others have none"


# ---- the gradient, on the batch with hard cases


def weighted(choice: Choice, tensor: Tensor, offered: Offered) -> Tensor:
    """Return the output at another first input; tokens weigh differently, so that mixed-up ones show."""
    output = choice.of({**offered, choice.needs[0]: tensor})
    return output * offered["slants"] if output.shape == offered["slants"].shape else output


def gradient(choice: Choice) -> Tensor:
    """Return the gradient of Σ weight · output in the first input of a choice; zero without a path to it."""
    offered = hard_batch()
    return slopes(lambda tensor: weighted(choice, tensor, offered), offered[choice.needs[0]])


@property_of("gradient", *TRAINED)
def gradient_reaches(choice: Choice) -> Iterator[str]:
    """A finite gradient reaches the first input."""
    found = gradient(choice)
    if not found.any() and not choice.facts.is_noop:
        yield f"no gradient reaches `{choice.needs[0]}`: nothing is learned from this {choice.axis}"
    elif not found.isfinite().all():
        yield f"{int((~found.isfinite()).sum())} of {found.numel()} numbers of the gradient are not finite"
