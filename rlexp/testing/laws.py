"""The laws of ``rlexp.axes.laws`` as checks: whether a function obeys what it declares, and declares what it obeys."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rlexp.axes.laws import LAWS, laws_of
from rlexp.axes.offered import REWARDS
from rlexp.testing.batches import advantages_of, advantages_of_rewards, cached_batch, norm_inputs, reward_batches
from rlexp.testing.choices import Choice, file_of, memory_shapes
from rlexp.testing.contract import CLOSE, REPLICAS, SHAPE, G, P, difference, property_of, same_bits, slopes

CONSTANTS = [0.7, 0.1, 5.1, 1.1]  # none of them is a binary fraction
SIZES = [(1, 2), (1, 5), (2, 4), (3, 2), (3, 3), (3, 5)]  # prompts and completions of the batches of a law
SHIFTS = (3.0, -2.0, 5.0)
UNITS = (0.25, 3.0, 1000.0)


def close(actual: Tensor, expected: Tensor) -> bool:
    """Whether two tensors are equal up to rounding."""
    return torch.allclose(actual, expected, **CLOSE)


# ---- norms


def laws_of_a_batch(norm: Choice, rewards: Tensor, keep: Tensor) -> dict[str, bool]:
    """Return which laws a norm obeys for a stack of batches of rewards."""
    advantages = advantages_of_rewards(norm, rewards, keep)

    def same_for(rewards: Tensor) -> bool:
        return close(advantages_of_rewards(norm, rewards, keep), advantages)

    each_group = torch.tensor(SHIFTS[: rewards.shape[-2]], dtype=torch.float64).unsqueeze(-1)
    found = {"shift": same_for(rewards + 3), "group shift": same_for(rewards + each_group)}

    eps = norm.hyperparameters.get("eps")  # it has the unit of a reward
    of_unit = {by: norm if eps is None else norm.changed(eps=by * eps) for by in UNITS}
    found["scale"] = all(close(of_scaled(one, rewards, keep, by), advantages) for by, one in of_unit.items())
    factors = (-2.0, 0.25, 1000.0)
    found["linear"] = all(close(of_scaled(norm, rewards, keep, by), by * advantages) for by in factors)

    found |= dict.fromkeys(("zero sum", "zero batch sum", "zero token sum"), False)
    if advantages.dim() == keep.dim():
        kept = advantages.where(keep, 0.0)
        found["zero sum"] = close(kept.sum(-1), torch.zeros(()).double())
        found["zero batch sum"] = bool((kept.sum((-1, -2)).abs() < CLOSE["atol"]).all())
    else:
        counted = norm_inputs(rewards, keep)["mask"] & keep.unsqueeze(-1)
        sums = advantages.where(counted, 0.0).sum((-1, -2, -3))
        found["zero token sum"] = bool((sums.abs() < CLOSE["atol"]).all())
    return found


def of_scaled(norm: Choice, rewards: Tensor, keep: Tensor, scale: float) -> Tensor:
    """Advantages of rewards in another unit; so is what is remembered of them, the greedy one, and the critic's."""
    offered = norm_inputs(rewards, keep)
    unit = {name: scale * offered[name] for name in ("greedy_rewards", "reference_rewards", "reward_average", "values")}
    value, weight = offered["prompt_values"].unbind(-1)
    unit["prompt_values"] = torch.stack([scale * value, weight], -1)
    number, mean, squares, smallest, largest = offered["reward_moments"].unbind(-1)
    moments = number, scale * mean, scale**2 * squares, scale * smallest, scale * largest
    unit["reward_moments"] = torch.stack(moments, -1)
    return advantages_of(norm, norm_inputs(scale * rewards, keep) | unit)


def laws_of_equal_rewards(norm: Choice) -> dict[str, bool]:
    """Return which laws a norm obeys where rewards are equal, or next to; everything is in the statistics."""

    def advantages(rewards: Tensor) -> Tensor:
        return advantages_of_rewards(norm, rewards, torch.ones_like(rewards, dtype=torch.bool))

    # In float32 the mean of eight 0.7 is off by one unit in the last place and its deviation is not zero.
    constants = torch.tensor(CONSTANTS).view(-1, 1, 1)
    found = {"equal": all(advantages(constants.repeat(1, 3, size)).eq(0).all() for size in range(1, 33))}

    # Not for those that end with a mean over the batch, but for rounding.
    others = [torch.arange(size, dtype=torch.float32).expand(len(CONSTANTS), 1, size) for size in range(2, 33)]
    each = [advantages(torch.cat([constants.expand_as(other), other], 1)) for other in others]
    found["equal group"] = all(a[:, 0].eq(0).all() and a[:, 1].flatten(1).ne(0).any(-1).all() for a in each)

    # As rounding of a penalty leaves; not where the distance from another mean is divided by the group's deviation.
    if "eps" in norm.hyperparameters:
        faint = torch.stack([1e-9 * torch.arange(4.0), torch.tensor([0.0, 1.0, 0.0, 1.0])])
        found["faint"] = bool(advantages(faint)[0].abs().max() < 0.01)
    return found


# ---- policy losses


def one_advantage_a_completion() -> dict[str, Tensor]:
    """Tensors whose advantages are the same for all tokens of a completion, as outcome rewards give them."""
    every = cached_batch(*SHAPE)
    return every | {"advantages": every["advantages"][..., :1].expand_as(every["advantages"])}


def kept_slopes(choice: Choice, every: dict[str, Tensor]) -> Tensor:
    """Return the gradient of the sum of the losses of the tokens that count."""
    return slopes(lambda x: choice.of(every | {"log_probs": x}).where(every["mask"], 0.0), every["log_probs"])


def laws_of_a_loss(choice: Choice) -> dict[str, bool]:
    """Return which laws a policy loss obeys."""
    every = one_advantage_a_completion()
    whole, found = kept_slopes(choice, every), {}

    # At ρ = 1 the slope is −A, so that one update per rollout cannot tell policy losses apart.
    on_policy = every | dict.fromkeys(("old_log_probs", "sampler_log_probs"), every["log_probs"])
    found["policy gradient"] = close(kept_slopes(choice, on_policy), -every["advantages"].where(every["mask"], 0.0))

    # Where no completion has one, or every other.
    found["no advantage"] = True
    for step in (1, 2):
        without = torch.arange(G) % step == 0
        advantages = every["advantages"].masked_fill(without[:, None], 0.0)
        slope = kept_slopes(choice, every | {"advantages": advantages})
        found["no advantage"] &= not slope[..., without, :].any()

    # A completion alone has the gradient that it has in its minibatch, to the bit.
    found["alone"] = True
    for p, g in ((p, g) for p in range(P) for g in range(G)):
        one = (slice(None), slice(p, p + 1), slice(g, g + 1))
        alone = kept_slopes(choice, {name: x[one] if x.dim() > 2 else x for name, x in every.items()})
        found["alone"] &= same_bits(alone, whole[one])
    return found


# ---- aggregations


def aggregate(choice: Choice, every: dict[str, Tensor], **changes: Tensor) -> Tensor:
    """Aggregate as a training step does: ``mean_tokens`` is that of the whole rollout unless it is given."""
    whole = {"mean_tokens": every["mask"].to(every["losses"].dtype).sum((-1, -2, -3))}
    beside = {name: cached_batch(*every["mask"].shape)[name] for name in choice.needs}
    return choice.of(beside | whole | every | changes)


def rollout() -> dict[str, Tensor]:
    """Losses and mask; the last completion of each group does not count, nor does the second prompt of replica 0."""
    every = cached_batch(REPLICAS, 8, *SHAPE[2:])
    mask = every["mask"].clone()
    mask[..., -1, :] = False
    mask[0, 1] = False
    return {"losses": every["losses"].clone(), "mask": mask}


def laws_of_an_aggregation(choice: Choice) -> dict[str, bool]:
    """Return which laws an aggregation obeys."""
    every, found = cached_batch(*SHAPE), {}
    constant = {"losses": torch.full_like(every["losses"], 2.5), "mask": every["mask"]}
    found["mean"] = close(aggregate(choice, constant), constant["losses"][:, 0, 0, 0])

    # A masked completion is as if it were not there; so is one that is sliced away with others and with tokens.
    whole = rollout()
    without = {name: x[..., :-1, :] for name, x in whole.items()}
    mask, sliced = torch.zeros_like(every["mask"]), every["losses"][..., :3, :2]
    mask[..., :3, :2] = True
    cut = aggregate(choice, {"losses": sliced, "mask": torch.ones_like(sliced).bool()})
    masked = aggregate(choice, {"losses": every["losses"], "mask": mask})
    found["masked leaves"] = close(masked, cut) and close(aggregate(choice, whole), aggregate(choice, without))

    found["split"] = all(split_difference(choice, parts) < 1e-12 for parts in (2, 8))
    return found


def split_difference(choice: Choice, parts: int) -> float:
    """Return how far loss and slopes are off when a rollout is split into so many minibatches."""
    every = rollout()
    losses = every["losses"].requires_grad_()
    mean_tokens = every["mask"].double().sum((-1, -2, -3)) / parts
    pieces = zip(losses.chunk(parts, 1), every["mask"].chunk(parts, 1), strict=True)
    found = sum(aggregate(choice, {"losses": one, "mask": mask}, mean_tokens=mean_tokens) for one, mask in pieces)
    off = found / parts - aggregate(choice, every)
    return max(each.abs().max().item() for each in (off, *torch.autograd.grad(off.sum(), losses)))


# ---- what the facts say, and what is so


def obeyed(choice: Choice) -> Iterator[tuple[str, bool, bool]]:
    """Yield each law about a choice; whether it always holds; whether it holds where nothing is special."""
    of_axis = {"clip": laws_of_a_loss, "agg": laws_of_an_aggregation}
    if choice.axis == "norm" and REWARDS & {*choice.needs}:
        ordinary = tuple(x[8:] for x in reward_batches(2, 4, replicas=28))  # without corner cases
        found = [laws_of_a_batch(choice, *case) for case in (*(reward_batches(*size) for size in SIZES), ordinary)]
        yield from ((law, all(each[law] for each in found), found[-1][law]) for law in found[-1])
        of_axis["norm"] = laws_of_equal_rewards
    if choice.axis in of_axis:
        yield from ((law, holds, holds) for law, holds in of_axis[choice.axis](choice).items())


def place_of_facts(choice: Choice) -> str:
    """Say where the facts of a choice are, or belong."""
    return f"@{type(choice.facts).__name__} beside `{choice.func.__name__}` in {file_of(choice.func)}"


@property_of("compares", "norm")
def compares(norm: Choice) -> Iterator[str]:
    """``compares`` says whether a completion alone has no advantage: a config is refused by it."""
    for scope, prompts, text in (("group", P, 'compares="group"'), ("batch", 1, 'compares="group" or "batch"')):
        silent = True
        for rewards in (torch.arange(1.0, 1.0 + prompts).view(-1, 1), -torch.ones(prompts, 1)):
            offered = norm_inputs(rewards, torch.ones_like(rewards, dtype=torch.bool))
            whole = offered | {"mask": torch.ones_like(offered["mask"])}
            silent &= bool(advantages_of(norm, whole).eq(0).all())
        declared = norm.facts.compares
        if silent != (declared == "group" if scope == "group" else declared != ""):
            yield (
                f"{norm}: a completion alone in its {scope} has {'no' if silent else 'an'} advantage: "
                f"{place_of_facts(norm)} must{'' if silent else ' not'} have {text}"
            )


@property_of("permutation", "norm")
def permutation(norm: Choice) -> Iterator[str]:
    """The order of prompts, and of completions in a group, does not matter: it permutes the advantages."""
    fixed = {"prompt_numbers", "prompts", "weights", *memory_shapes()}
    for prompts, group in SIZES:
        offered = norm_inputs(*reward_batches(prompts, group))
        expected = advantages_of(norm, offered)
        for axis, size, what in ((1, prompts, "prompts"), (2, group, "completions of a group")):
            order = torch.randperm(size, generator=torch.Generator().manual_seed(size))
            names = [
                name for name, x in offered.items() if name not in fixed and x.dim() >= 3 and x.shape[axis] == size
            ]
            names += ["prompt_numbers"] if axis == 1 else []
            permuted = offered | {name: offered[name].index_select(axis, order) for name in names}
            found, wanted = advantages_of(norm, permuted), expected.index_select(axis, order)
            if not close(found, wanted):
                yield f"with the {what} in the order {order.tolist()} an advantage {difference(found, wanted)}"


@property_of("declared laws", *LAWS)
def declared_laws(choice: Choice) -> Iterator[str]:
    """It obeys the laws of its axis and those that its facts declare, but for those that they say it breaks."""
    facts, known = choice.facts, LAWS[choice.axis]
    if unknown := {*facts.laws, *facts.breaks} - {*known}:
        names = ", ".join(sorted(unknown))
        yield f"{names} in {place_of_facts(choice)}: laws and breaks are {', '.join(known)}"
    stated = laws_of(choice.axis, choice.func)
    for law, always, _ in obeyed(choice):
        if law in stated and not always:
            where = f"take it out of `laws` or into `breaks` of {place_of_facts(choice)}"
            yield f'{choice} does not obey "{law}" ({known[law]}): {where}'


@property_of("undeclared laws", *LAWS, hint=True)
def undeclared_laws(choice: Choice) -> Iterator[str]:
    """It declares the laws that it obeys: others rely on them, and the checks then hold it to them."""
    stated, known = laws_of(choice.axis, choice.func), LAWS[choice.axis]
    for law, _, ordinarily in obeyed(choice):
        if law not in stated and ordinarily:
            where = f"add it to `laws`, or take it out of `breaks`, of {place_of_facts(choice)}"
            yield f'{choice} obeys "{law}" ({known[law]}): {where}'
