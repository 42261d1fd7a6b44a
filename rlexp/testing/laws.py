"""The laws of ``rlexp.axes.laws`` as checks: whether a function obeys what it declares, and declares what it obeys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from rlexp.axes.laws import LAWS, laws_of
from rlexp.testing.batches import cached_batch
from rlexp.testing.choices import Choice
from rlexp.testing.contract import P, same_bits
from rlexp.testing.norm_laws import close, compares, laws_of_a_norm, permutation, place_of_facts

REPLICAS, G, T = 6, 4, 5


# ---- policy losses


def one_advantage_a_completion() -> dict[str, Tensor]:
    """Tensors whose advantages are the same for all tokens of a completion, as outcome rewards give them."""
    every = cached_batch(REPLICAS, P, G, T)
    return every | {"advantages": every["advantages"][..., :1].expand_as(every["advantages"])}


def kept_slopes(choice: Choice, every: dict[str, Tensor]) -> Tensor:
    """Return the gradient of the sum of the losses of the tokens that count."""
    log_probs = every["log_probs"].clone().requires_grad_()
    losses = choice.of(every | {"log_probs": log_probs}).where(every["mask"], 0.0)
    return torch.autograd.grad(losses.sum() + 0 * log_probs.sum(), log_probs)[0]


def policy_gradient(choice: Choice) -> bool:
    """At ρ = 1 the slope is −A, so that one update per rollout cannot tell policy losses apart."""
    every = one_advantage_a_completion()
    every["old_log_probs"] = every["sampler_log_probs"] = every["log_probs"]
    return close(kept_slopes(choice, every), -every["advantages"].where(every["mask"], 0.0))


def no_advantage(choice: Choice) -> bool:
    """Whether no completion has one, or every other."""
    every = one_advantage_a_completion()
    for without in (torch.ones(G) > 0, torch.arange(G) % 2 == 0):
        advantages = every["advantages"].masked_fill(without[:, None], 0.0)
        if kept_slopes(choice, every | {"advantages": advantages})[..., without, :].any():
            return False
    return True


def alone(choice: Choice) -> bool:
    """A completion alone has the gradient that it has in its minibatch, to the bit."""
    every = one_advantage_a_completion()
    whole = kept_slopes(choice, every)
    places = [(slice(None), slice(p, p + 1), slice(g, g + 1)) for p in range(P) for g in range(G)]
    found = [kept_slopes(choice, {name: x[at] if x.dim() > 2 else x for name, x in every.items()}) for at in places]
    return all(same_bits(slope, whole[at]) for slope, at in zip(found, places, strict=True))


OF_CLIP = {"policy gradient": policy_gradient, "no advantage": no_advantage, "alone": alone}

# ---- aggregations


def aggregate(choice: Choice, every: dict[str, Tensor], **changes: Tensor) -> Tensor:
    """Aggregate as a training step does: ``mean_tokens`` is that of the whole rollout unless it is given."""
    whole = {"mean_tokens": every["mask"].to(every["losses"].dtype).sum((-1, -2, -3))}
    beside = {name: cached_batch(*every["mask"].shape)[name] for name in choice.needs}
    return choice.of(beside | whole | every | changes)


def rollout() -> dict[str, Tensor]:
    """Losses and mask; the last completion of each group does not count, nor does the second prompt of replica 0."""
    every = cached_batch(REPLICAS, 8, G, T)
    mask = every["mask"].clone()
    mask[..., -1, :] = False
    mask[0, 1] = False
    return {"losses": every["losses"].clone(), "mask": mask}


def mean(choice: Choice) -> bool:
    """Of a constant loss."""
    every = cached_batch(REPLICAS, P, G, T)
    full = {"losses": torch.full_like(every["losses"], 2.5), "mask": every["mask"]}
    return close(aggregate(choice, full), full["losses"][:, 0, 0, 0])


def masked_leaves(choice: Choice) -> bool:
    """A masked completion is as if it were not there; so is one that is sliced away with others and with tokens."""
    every = rollout()
    without = {name: x[..., :-1, :] for name, x in every.items()}
    losses = cached_batch(REPLICAS, P, G, T)["losses"]
    mask = torch.zeros_like(losses, dtype=torch.bool)
    mask[..., :3, :2] = True
    sliced = losses[..., :3, :2]
    cut = aggregate(choice, {"losses": sliced, "mask": torch.ones_like(sliced).bool()})
    whole = aggregate(choice, {"losses": losses, "mask": mask})
    return close(whole, cut) and close(aggregate(choice, every), aggregate(choice, without))


def split(choice: Choice) -> bool:
    """The mean of the minibatches' losses against the loss of the whole rollout, value and slopes."""
    return all(split_difference(choice, parts) < 1e-12 for parts in (2, 8))


def split_difference(choice: Choice, parts: int) -> float:
    """Return how far loss and slopes are off when a rollout is split into so many minibatches."""
    every = rollout()
    losses = every["losses"].requires_grad_()
    mean_tokens = every["mask"].double().sum((-1, -2, -3)) / parts
    pieces = zip(losses.chunk(parts, 1), every["mask"].chunk(parts, 1), strict=True)
    found = sum(aggregate(choice, {"losses": one, "mask": mask}, mean_tokens=mean_tokens) for one, mask in pieces)
    off = found / parts - aggregate(choice, every)
    return max(each.abs().max().item() for each in (off, *torch.autograd.grad(off.sum(), losses)))


OF_AGG = {"mean": mean, "masked leaves": masked_leaves, "split": split}

# ---- what the facts say, and what is so


def obeyed(choice: Choice) -> Iterator[tuple[str, bool, bool]]:
    """Yield each law about a choice; whether it always holds; whether it holds where nothing is special."""
    if choice.axis == "norm":
        yield from laws_of_a_norm(choice)
    of_axis: dict[str, Callable[[Choice], bool]] = {"clip": OF_CLIP, "agg": OF_AGG}.get(choice.axis, {})
    for law, holds in of_axis.items():
        found = holds(choice)
        yield law, found, found


def declared_laws(choice: Choice) -> Iterator[str]:
    """It obeys the laws of its axis and those that its facts declare, but for those that they say it breaks."""
    facts, known = choice.facts, LAWS.get(choice.axis, {})
    if unknown := {*facts.laws, *facts.breaks} - {*known} if known else set():
        names = ", ".join(sorted(unknown))
        yield f"{names} in {place_of_facts(choice)}: laws and breaks are {', '.join(known)}"
    stated = laws_of(choice.axis, choice.func)
    for law, always, _ in obeyed(choice):
        if law in stated and not always:
            where = f"take it out of `laws` or into `breaks` of {place_of_facts(choice)}"
            yield f'{choice} does not obey "{law}" ({known[law]}): {where}'


def undeclared_laws(choice: Choice) -> Iterator[str]:
    """It declares the laws that it obeys: others rely on them, and the checks then hold it to them."""
    stated, known = laws_of(choice.axis, choice.func), LAWS.get(choice.axis, {})
    for law, _, ordinarily in obeyed(choice):
        if law not in stated and ordinarily:
            where = f"add it to `laws`, or take it out of `breaks`, of {place_of_facts(choice)}"
            yield f'{choice} obeys "{law}" ({known[law]}): {where}'


PROPERTIES = {"compares": compares, "permutation": permutation, "declared laws": declared_laws}
HINTS = {"undeclared laws": undeclared_laws}
WITH_LAWS = tuple(LAWS)
OF_AXES = {"compares": ("norm",), "permutation": ("norm",), "declared laws": WITH_LAWS, "undeclared laws": WITH_LAWS}
