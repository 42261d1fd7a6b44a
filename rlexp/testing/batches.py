"""Tensors for every axis: off-policy, ragged, some completions left out; and a batch with the hard cases of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from rlexp.axes.reward import NUMBERS
from rlexp.core.masked import at_last_token
from rlexp.testing.choices import KNOWN_PROMPTS, Choice, memory_shapes

LONGEST = 20  # of the hard cases, in tokens: longer than the cap of a check


def batch(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 3) -> dict[str, Tensor]:
    """Return every tensor that an axis may ask for, by name: random numbers of order one.

    Log-ratios have both signs, masks are ragged, and some completions are outside the statistics.

    Args:
        shape: Of the tokens: ``batch(P, G, T)``, or with replicas before them ``batch(R, P, G, T)``.
        dtype: Of all that are no masks.
        seed: Another seed gives other numbers.
    """
    random = torch.Generator().manual_seed(seed)

    def normal(*size):
        return torch.randn(size, generator=random, dtype=torch.float64).to(dtype)

    lengths = torch.randint(1, shape[-1] + 1, shape[:-1], generator=random)
    log_probs = -normal(*shape).abs()
    old_log_probs = (log_probs + 0.4 * normal(*shape)).clamp(max=-0.01)
    found = {
        "rewards": normal(*shape[:-1]),
        "keep": normal(*shape[:-1]) < 1,
        "lengths": 4.0 * lengths.to(dtype),
        "finished": normal(*shape[:-1]) < 0,
        "mask": torch.arange(shape[-1]) < lengths.unsqueeze(-1),
        "log_probs": log_probs,
        "old_log_probs": old_log_probs,
        "ref_log_probs": log_probs + 0.4 * normal(*shape),
        "advantages": normal(*shape),
        "reward_moments": moments(normal(*shape[:-3], 9)),
        "reward_average": normal(*shape[:-3]),
        "outcomes": normal(*shape[:-1]),
        "adjustments": normal(*shape[:-1]),
        "token_penalties": 0.1 * normal(*shape),
        "token_rewards": normal(*shape),
        "values": normal(*shape[:-1], shape[-1] + 1),
        "greedy_rewards": normal(*shape[:-2], 1),
        "correct": (normal(*shape[:-1]) > 0).to(dtype),
        "components": normal(*shape[:-1], 2),
        "weights": normal(*shape[:-3], 2).abs(),
        "sum_pi_squared": old_log_probs.exp() ** 2 + 0.1 * normal(*shape) ** 2,
        "losses": normal(*shape),
        "mean_tokens": 3.0 + normal(*shape[:-3]).abs(),
        "log_ratio_bound": torch.full(shape[:-3], 20.0, dtype=dtype),
        "progress": normal(*shape[:-3]).abs().clamp(max=1),
        "uniforms": torch.rand(shape, generator=random),
        "sampler_log_probs": (log_probs + 0.4 * normal(*shape)).clamp(max=-0.01),
        "errors": normal(*shape),
        "proximal_log_probs": (log_probs + 0.2 * normal(*shape)).clamp(max=-0.01),
        "ages": torch.randint(5, shape, generator=random).to(dtype),
        "scored": normal(*shape[:-1]) < 1,
        "drawn": normal(*shape[:-1]).frac().abs(),
        "hashed": normal(*shape[:-1]).frac().abs(),
        "entropies": normal(*shape).abs(),
        "verified": normal(*shape[:-1]),
        "quality": normal(*shape[:-1]).round().clamp(-1, 1),
        "vote_draws": torch.rand((*shape[:-1], NUMBERS), generator=random, dtype=torch.float64).to(dtype),
        "vote_hashes": torch.rand((*shape[:-1], NUMBERS), generator=random, dtype=torch.float64).to(dtype),
        "proxies": normal(*shape[:-1], 4),
        "prompt_numbers": torch.arange(shape[-3]).expand(shape[:-2]) % KNOWN_PROMPTS,
    }
    others = {name: size for name, size in memory_shapes().items() if name not in found}
    found |= {name: 1 + normal(*shape[:-3], *size).abs() for name, size in others.items()}
    found["prompts"] = torch.randint(7, (*shape[:-2], 3), generator=random)
    found["completions"] = torch.randint(7, shape, generator=random)
    found |= {name: normal(*shape, 7).log_softmax(-1) for name in ("distributions", "teacher_distributions")}
    found["teacher_log_probs"] = (log_probs + 0.4 * normal(*shape)).clamp(max=-0.01)
    return found | {"reference_rewards": normal(*shape[:-1])}


kept_batch = cache(batch)


def cached_batch(*shape: int, **how: object) -> dict[str, Tensor]:
    """Return what ``batch`` does, in less time; a copy, whatever functions do with it."""
    return {name: tensor.clone() for name, tensor in kept_batch(*shape, **how).items()}


def moments(past: Tensor) -> Tensor:
    """What ``norm=running`` remembers of rewards ``[... N]``: number, mean, Σ (r − mean)², smallest, largest."""
    number = torch.full_like(past[..., 0], past.shape[-1])
    squares = past.var(-1, correction=0) * number
    return torch.stack([number, past.mean(-1), squares, past.amin(-1), past.amax(-1)], -1)


# ---- rewards, for norms


def norm_inputs(rewards: Tensor, keep: Tensor) -> dict[str, Tensor]:
    """Return what a ``norm`` is offered for these rewards ``[... P G]`` without a penalty; the rest is made up."""
    offered, rewards = cached_batch(*rewards.shape, 5, dtype=rewards.dtype), rewards.clone()
    whole = {"rewards": rewards, "outcomes": rewards, "keep": keep, "correct": (rewards > 0).to(rewards.dtype)}
    zeros = {name: torch.zeros_like(offered[name]) for name in ("token_penalties", "adjustments")}
    zeros["token_rewards"] = at_last_token(rewards, offered["mask"])
    parts = {"components": rewards.unsqueeze(-1), "weights": torch.ones_like(offered["weights"][..., :1])}
    return offered | whole | zeros | parts | {"lengths": offered["mask"].to(rewards.dtype).sum(-1)}


def advantages_of(choice: Choice, offered: Mapping[str, Tensor]) -> Tensor:
    """Return the advantages by a ``norm`` of what it is offered; 0 for tokens that do not count."""
    advantages = choice.of(offered)
    return advantages.where(offered["mask"], 0.0) if advantages.dim() == offered["mask"].dim() else advantages


def advantages_of_rewards(choice: Choice, rewards: Tensor, keep: Tensor) -> Tensor:
    """Return the advantages by a ``norm`` of these rewards ``[... P G]``."""
    return advantages_of(choice, norm_inputs(rewards, keep))


@cache
def reward_batches(prompts: int, group: int, replicas: int = 16) -> tuple[Tensor, Tensor]:
    """Return rewards and keep ``[R P G]``: eighths up to ±5, of which shifts and powers of two are exact.

    The first replicas are the corner cases: all kept, none kept, all equal, one kept, four of 0 and 1.
    """
    random = torch.Generator().manual_seed(11 + 100 * prompts + group)
    shape = replicas, prompts, group
    rewards = torch.randint(-40, 41, shape, generator=random).double() / 8
    keep = torch.rand(shape, generator=random) < 0.8
    keep[0], keep[1], rewards[2] = True, False, 0.125
    keep[3] = torch.arange(prompts * group).view(prompts, group) == 1
    rewards[4:8] = (rewards[4:8] > 0).double()
    return rewards, keep


# ---- the batch of comparisons with references

R, P, G, T = 3, 4, 4, 6


def hard_batch() -> dict[str, Tensor]:
    """Return a batch with the hard cases of every axis; ``slants`` weigh the tokens in a gradient."""
    found, random = batch(R, P, G, T, seed=17), torch.Generator().manual_seed(17)
    shape = R, P, G

    # Group 0 has equal rewards, group 3 of the last replica none. Group 1 has a mean between two bounds of
    # ``difficulty``; one of group 2 is near the middle of 0 and 1.
    rewards, scored = found["rewards"], torch.ones(shape, dtype=torch.bool)
    rewards[:, 0], rewards[:, 2, 0] = 0.7, 0.45
    rewards[:, 1] += 0.09 - rewards[:, 1].mean(-1, keepdim=True)
    scored[:, 2, 1], scored[-1, 3] = False, False
    found |= {"scored": scored, "outcomes": rewards + 0.1, "verified": rewards.where(scored, math.nan)}
    found |= {"adjustments": -0.3 * rewards.clamp(min=0), "quality": rewards.round().sign()}

    # Luck is all different; bad for the reward that is near the middle, and for one of group 0.
    luck = (torch.randperm(R * P * G, generator=random).double().view(shape) + 0.5) / (R * P * G)
    luck[:, 0, 1], luck[:, 2, 0] = 0.09, 0.01
    lengths = torch.randint(1, LONGEST + 1, shape, generator=random).double()
    found |= {"drawn": luck, "hashed": luck, "lengths": lengths}

    # The second component does not apply to some completions, and to none of group 3.
    second = found["components"][..., 1].masked_fill(torch.rand(shape, generator=random) < 0.3, math.nan)
    second[:, 3] = math.nan
    found["components"] = torch.stack([rewards, second], -1)

    # Group 1 keeps one completion, group 3 all, the others some; group 2 of the last replica keeps none.
    found["keep"][:, 1], found["keep"][:, 3], found["keep"][-1, 2] = torch.arange(G) == 2, True, False
    found["mask"][:, 2, 3] = False  # one completion of every replica does not count at all

    found["ref_log_probs"][:, 0, 0, 0] += 3  # one token that π has all but given up, beyond the clamps of a KL
    found["log_ratio_bound"] = torch.tensor([20.0, 1.0, 0.5], dtype=torch.float64)  # never, seldom and often reached
    found["entropies"] = found["entropies"].round(decimals=2)  # some of them equal
    remembered = [[5, 0.3, 4.1, -2.0, 1.5], [0, 0, 0, math.inf, -math.inf], [40, -0.2, 9.0, -0.9, 1.1]]
    found["reward_moments"] = torch.tensor(remembered, dtype=torch.float64)
    found["slants"] = torch.randn(R, P, G, T, generator=random, dtype=torch.float64)
    return found
