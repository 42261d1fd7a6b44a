"""The laws of norms: each says whether it holds for a stack of batches of rewards."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from rlexp.axes.offered import REWARDS
from rlexp.testing.batches import advantages_of, advantages_of_rewards, norm_inputs, reward_batches
from rlexp.testing.choices import Choice, file_of, memory_shapes
from rlexp.testing.contract import CLOSE, P, difference

CONSTANTS = [0.7, 0.1, 5.1, 1.1]  # none of them is a binary fraction
SIZES = [(1, 2), (1, 5), (2, 4), (3, 2), (3, 3), (3, 5)]  # prompts and completions of the batches of a law
SHIFTS = (3.0, -2.0, 5.0)
UNITS = (0.25, 3.0, 1000.0)
Case = tuple[Tensor, Tensor]  # rewards and keep


def close(actual: Tensor, expected: Tensor) -> bool:
    """Whether two tensors are equal up to rounding."""
    return torch.allclose(actual, expected, **CLOSE)


def of_scaled(norm: Choice, case: Case, scale: float) -> Tensor:
    """Advantages of rewards in another unit; so is what is remembered of them, the greedy one, and the critic's."""
    rewards, keep = case
    offered = norm_inputs(rewards, keep)
    unit = {name: scale * offered[name] for name in ("greedy_rewards", "reward_average", "values")}
    value, weight = offered["prompt_values"].unbind(-1)
    unit["prompt_values"] = torch.stack([scale * value, weight], -1)
    number, mean, squares, smallest, largest = offered["reward_moments"].unbind(-1)
    moments = number, scale * mean, scale**2 * squares, scale * smallest, scale * largest
    unit["reward_moments"] = torch.stack(moments, -1)
    return advantages_of(norm, norm_inputs(scale * rewards, keep) | unit)


def shift(norm: Choice, rewards: Tensor, keep: Tensor) -> bool:
    """A number added to all."""
    return close(advantages_of_rewards(norm, rewards + 3, keep), advantages_of_rewards(norm, rewards, keep))


def group_shift(norm: Choice, rewards: Tensor, keep: Tensor) -> bool:
    """A number added to each group."""
    shifted = rewards + torch.tensor(SHIFTS[: rewards.shape[-2]], dtype=torch.float64).unsqueeze(-1)
    return close(advantages_of_rewards(norm, shifted, keep), advantages_of_rewards(norm, rewards, keep))


def scale(norm: Choice, rewards: Tensor, keep: Tensor) -> bool:
    """Another unit: ``eps`` has that of a reward."""
    expected = advantages_of_rewards(norm, rewards, keep)
    of_unit = [
        norm.changed(eps=by * norm.hyperparameters["eps"]) if "eps" in norm.hyperparameters else norm for by in UNITS
    ]
    found = [of_scaled(one, (rewards, keep), by) for one, by in zip(of_unit, UNITS, strict=True)]
    return all(close(one, expected) for one in found)


def linear(norm: Choice, rewards: Tensor, keep: Tensor) -> bool:
    """Twice the rewards, twice the advantages."""
    expected = advantages_of_rewards(norm, rewards, keep)
    return all(close(of_scaled(norm, (rewards, keep), by), by * expected) for by in (-2.0, 0.25, 1000.0))


def zero_sum(norm: Choice, rewards: Tensor, keep: Tensor) -> bool:
    """Of each group."""
    advantages = advantages_of_rewards(norm, rewards, keep)
    return advantages.dim() == keep.dim() and close(advantages.where(keep, 0.0).sum(-1), torch.zeros(()).double())


def zero_batch_sum(norm: Choice, rewards: Tensor, keep: Tensor) -> bool:
    """Of the batch."""
    advantages = advantages_of_rewards(norm, rewards, keep)
    of_completions = advantages.dim() == keep.dim()
    return of_completions and bool((advantages.where(keep, 0.0).sum((-1, -2)).abs() < CLOSE["atol"]).all())


def zero_token_sum(norm: Choice, rewards: Tensor, keep: Tensor) -> bool:
    """Of all tokens that count."""
    advantages = advantages_of_rewards(norm, rewards, keep)
    counted = norm_inputs(rewards, keep)["mask"] & keep.unsqueeze(-1)
    of_tokens = advantages.dim() > keep.dim()
    return of_tokens and bool((advantages.where(counted, 0.0).sum((-1, -2, -3)).abs() < CLOSE["atol"]).all())


def kept(rewards: Tensor) -> Tensor:
    """Everything is in the statistics."""
    return torch.ones_like(rewards, dtype=torch.bool)


def constants(*shape: int) -> Tensor:
    """Each constant throughout a batch of this shape, in float32."""
    return torch.tensor(CONSTANTS).view(-1, 1, 1).expand(-1, *shape).contiguous()


def equal(norm: Choice) -> bool:
    """In float32 the mean of eight 0.7 is off by one unit in the last place and its deviation is not zero."""
    batches = [constants(3, size) for size in range(1, 33)]
    return all(advantages_of_rewards(norm, rewards, kept(rewards)).eq(0).all() for rewards in batches)


def equal_group(norm: Choice) -> bool:
    """Not for those that end with a mean over the batch, but for rounding."""
    others = [torch.arange(size, dtype=torch.float32).expand(len(CONSTANTS), 1, size) for size in range(2, 33)]
    batches = [torch.cat([constants(1, other.shape[-1]), other], 1) for other in others]
    found = [advantages_of_rewards(norm, rewards, kept(rewards)) for rewards in batches]
    return all(each[:, 0].eq(0).all() and each[:, 1].flatten(1).ne(0).any(-1).all() for each in found)


def faint(norm: Choice) -> bool:
    """As rounding of a penalty leaves; not where the distance from another mean is divided by the group's deviation."""
    rewards = torch.stack([1e-9 * torch.arange(4.0), torch.tensor([0.0, 1.0, 0.0, 1.0])])
    return bool(advantages_of_rewards(norm, rewards, kept(rewards))[0].abs().max() < 0.01)


OF_A_BATCH = {
    "shift": shift,
    "group shift": group_shift,
    "scale": scale,
    "linear": linear,
    "zero sum": zero_sum,
    "zero batch sum": zero_batch_sum,
    "zero token sum": zero_token_sum,
}
OF_EQUAL_REWARDS = {"equal": equal, "equal group": equal_group, "faint": faint}


@cache
def cases() -> tuple[Case, ...]:
    """Return the batches of the laws of norms, those with corner cases first, and last one without."""
    ordinary = tuple(x[8:] for x in reward_batches(2, 4, replicas=28))
    return (*(reward_batches(*size) for size in SIZES), ordinary)


def laws_of_a_norm(norm: Choice) -> Iterator[tuple[str, bool, bool]]:
    """Yield each law that is about this norm; whether it always holds; whether it holds of ordinary batches."""
    if not REWARDS & {*norm.needs}:
        return
    for law, holds in OF_A_BATCH.items():
        *_, ordinary = cases()
        yield law, all(holds(norm, *case) for case in cases()), holds(norm, *ordinary)
    for law, holds in OF_EQUAL_REWARDS.items():
        if law != "faint" or "eps" in norm.hyperparameters:
            yield law, (found := holds(norm)), found


# ---- order and comparison


def place_of_facts(choice: Choice) -> str:
    """Say where the facts of a choice are, or belong."""
    return f"@{type(choice.facts).__name__} beside `{choice.func.__name__}` in {file_of(choice.func)}"


def permutation(norm: Choice) -> Iterator[str]:
    """The order of prompts, and of completions in a group, does not matter: it permutes the advantages."""
    for prompts, group in SIZES:
        rewards, keep = reward_batches(prompts, group)
        offered = norm_inputs(rewards, keep)
        expected = advantages_of(norm, offered)
        for axis, size in ((1, prompts), (2, group)):
            order = torch.randperm(size, generator=torch.Generator().manual_seed(size))
            found = advantages_of(norm, permuted(offered, axis, size, order))
            wanted = expected.index_select(axis, order)
            if not close(found, wanted):
                what = "prompts" if axis == 1 else "completions of a group"
                yield f"with the {what} in the order {order.tolist()} an advantage {difference(found, wanted)}"
                return


def permuted(offered: dict[str, Tensor], axis: int, size: int, order: Tensor) -> dict[str, Tensor]:
    """Return the tensors ``[R P G …]`` with prompts (axis 1) or completions (axis 2) in another order."""
    moved = {"prompt_numbers": offered["prompt_numbers"].index_select(1, order)} if axis == 1 else {}
    fixed = {"prompt_numbers", "prompts", "weights", *memory_shapes()}
    for name, values in offered.items():
        if name not in fixed and values.dim() >= 3 and values.shape[axis] == size:
            moved[name] = values.index_select(axis, order)
    return offered | moved


def compares(norm: Choice) -> Iterator[str]:
    """``compares`` says whether a completion alone has no advantage: a config is refused by it."""
    for shape in ((P, 1), (1, 1)):
        found = []
        for rewards in (torch.arange(1.0, 4.0)[: shape[0]].view(shape), -torch.ones(shape)):
            offered = norm_inputs(rewards, kept(rewards)) | {"mask": torch.ones(*shape, 5, dtype=torch.bool)}
            found.append(bool(advantages_of(norm, offered).eq(0).all()))
        silent, declared = all(found), norm.facts.compares
        scope, text = ("group", 'compares="group"') if shape[0] > 1 else ("batch", 'compares="group" or "batch"')
        if silent != (declared == "group" if scope == "group" else declared != ""):
            yield (
                f"{norm}: a completion alone in its {scope} has {'no' if silent else 'an'} advantage: "
                f"{place_of_facts(norm)} must{'' if silent else ' not'} have {text}"
            )
