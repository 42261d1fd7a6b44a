"""What must not count does not: padding, completions that are left out, neighbors; and corner cases stay finite."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from rlexp.testing.batches import cached_batch
from rlexp.testing.choices import Choice
from rlexp.testing.contract import REPLICAS, TRAINED, G, Offered, P, Property, T, difference, inputs, same_bits, used

GARBAGE = [1e4, math.inf, math.nan]
# What the loop makes finite outside the mask (advantages), or 0 (rewards of tokens): other garbage cannot come.
FINITE_OUTSIDE, ZERO_OUTSIDE = {"advantages"}, {"token_penalties", "token_rewards"}
# What a completion brings into the statistics: whatever it is, it changes nothing where the completion is left out.
OF_COMPLETIONS = ("rewards", "outcomes", "adjustments", "lengths", "correct")


def token_names(choice: Choice, offered: Offered) -> list[str]:
    """Return those that a choice asks for and that have a number for each token, of any size outside the mask."""
    mask = offered["mask"]
    names = [name for name in choice.needs if offered[name].is_floating_point()]
    return [name for name in names if offered[name].shape == mask.shape and name not in ZERO_OUTSIDE]


def value_and_slope(choice: Choice, offered: Offered) -> tuple[Tensor, Tensor | None]:
    """Return what training uses of an output, and the gradient in the first input at the tokens that count."""
    if choice.axis not in TRAINED:
        return used(choice, choice.of(offered), offered), None
    moving, mask = choice.needs[0], offered["mask"]
    leaf = offered[moving].clone().requires_grad_()
    output = choice.of({**offered, moving: leaf.where(mask, offered[moving])})
    kept = used(choice, output, offered)
    if not kept.requires_grad:
        return kept, torch.zeros_like(leaf)
    (gradient,) = torch.autograd.grad(kept.sum(), leaf)
    return kept.detach(), gradient


def masked_tokens(choice: Choice) -> Iterator[str]:
    """Tokens outside the mask reach neither value nor gradient, whatever they hold: −inf − −inf is NaN, and NaN · 0."""
    clean = cached_batch(REPLICAS, P, G, T)
    wanted = value_and_slope(choice, clean)
    for name in token_names(choice, clean):
        for garbage in GARBAGE[:1] if name in FINITE_OUTSIDE else GARBAGE:
            dirty = {**clean, name: clean[name].masked_fill(~clean["mask"], garbage)}
            yield from differing(choice, dirty, wanted, f"`{name}` is {garbage:g} outside the mask")
    names = [name for name in token_names(choice, clean) if name not in FINITE_OUTSIDE]
    together = {name: clean[name].masked_fill(~clean["mask"], math.nan) for name in names}
    yield from differing(choice, {**clean, **together}, wanted, "everything is nan outside the mask")


def differing(choice: Choice, offered: Offered, wanted: tuple[Tensor, Tensor | None], case: str) -> Iterator[str]:
    """Say whether value and gradient are the wanted ones to the bit."""
    found = value_and_slope(choice, offered)
    for what, one, other in zip(("output", "gradient"), found, wanted, strict=True):
        if one is not None and not same_bits(one, other):
            yield f"where {case} the {what} {difference(one, other)}"
            return


def left_out_completions(choice: Choice) -> Iterator[str]:
    """Completions outside ``keep`` (of a filter: without a reward) change nothing for the others."""
    clean = cached_batch(REPLICAS, P, G, T)
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
                return


def neighbors(choice: Choice) -> Iterator[str]:
    """A completion is shaped, corrected and penalized by itself, a prompt is judged by itself."""
    every = inputs(choice, REPLICAS, P, G, T)
    together = choice(*every)
    for p, g in [(0, 0), (P - 1, G - 2)]:
        one = (slice(None), slice(p, p + 1)) + ((slice(g, g + 1),) if choice.axis != "reward" else ())
        alone = choice(*(x[one] if x.dim() > 2 else x for x in every))
        if not same_bits(alone, together[one]):
            yield f"of prompt {p}, completion {g}, alone the output {difference(alone, together[one])}"


# ---- corner cases


def corner_cases(choice: Choice) -> Iterator[str]:
    """Groups of one, one token, one prompt: value and gradient are finite."""
    for case, size in {"groups of one": (P, 1, T), "one token": (P, G, 1), "one prompt": (1, G, T)}.items():
        offered = cached_batch(REPLICAS, *size)
        yield from not_finite(choice, offered, case)


def not_finite(choice: Choice, offered: Offered, case: str) -> Iterator[str]:
    """Say what is not finite of what training uses."""
    for what, numbers in zip(("output", "gradient"), value_and_slope(choice, offered), strict=True):
        if numbers is not None and not numbers.isfinite().all():
            wrong = numbers[~numbers.isfinite()]
            yield f"{case}: {len(wrong)} of {numbers.numel()} numbers of the {what} are {wrong[0].item()}"
            return


def equal_rewards(choice: Choice) -> Iterator[str]:
    """Rewards that are all equal give finite advantages."""
    for constant in (0.0, 0.7, 1e6):
        offered = cached_batch(REPLICAS, P, G, T)
        alike = {name: torch.full_like(offered[name], constant) for name in ("rewards", "outcomes", "components")}
        yield from not_finite(choice, {**offered, **alike}, f"all rewards are {constant:g}")


def nothing_counts(choice: Choice) -> Iterator[str]:
    """Where every token is masked, or no completion is in the statistics, everything is finite, and a loss is 0."""
    cases = [("keep", "scored"), ("mask", "keep", "scored", "finished")]
    for names in cases if choice.axis == "norm" else [("mask",), *cases]:  # what is weighed has tokens
        offered = cached_batch(REPLICAS, P, G, T)
        none = {name: torch.zeros_like(offered[name]) for name in names}
        case = f"nothing is in {' and '.join(f'`{name}`' for name in names)}"
        yield from not_finite(choice, {**offered, **none}, case)
        if choice.axis == "agg" and "mask" in names:
            value, gradient = value_and_slope(choice, {**offered, **none})
            if value.any() or gradient.any():
                yield f"{case}: the loss is {value.abs().max().item():.6g}, not 0"


def no_reward(choice: Choice) -> Iterator[str]:
    """A completion without a reward (NaN) gets none, and the others' stay finite."""
    offered, name = cached_batch(REPLICAS, P, G, T), "rewards" if choice.axis == "shaping" else "verified"
    if name not in choice.needs:
        return
    scored = offered["scored"]
    output = choice.of({**offered, name: offered[name].where(scored, math.nan)})
    if not output[~scored].isnan().all():
        yield f"a completion without a reward got {output[~scored].nan_to_num(-math.inf).max().item():.6g}"
    if not output[scored].isfinite().all():
        yield "a completion that has a reward lost it because others have none"


PROPERTIES: dict[str, Property] = {
    "neighbors": neighbors,
    "masked tokens": masked_tokens,
    "left-out completions": left_out_completions,
    "corner cases": corner_cases,
    "equal rewards": equal_rewards,
    "nothing counts": nothing_counts,
    "no reward": no_reward,
}
# Those of some axes only.
OF_AXES = {
    "neighbors": ("shaping", "reward", "mismatch", "kl"),
    "masked tokens": ("filter", "norm", *TRAINED),
    "left-out completions": ("norm", "filter"),
    "equal rewards": ("norm",),
    "nothing counts": ("filter", "norm", *TRAINED),
    "no reward": ("shaping", "reward"),
}
