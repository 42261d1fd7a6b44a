"""Tensors for every axis: off-policy, ragged, some completions left out; and a batch with the hard cases of each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
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
    return found


cached_batch = cache(batch)  # for those who change nothing in place


def moments(past: Tensor) -> Tensor:
    """What ``norm=running`` remembers of rewards ``[... N]``: number, mean, Σ (r − mean)², smallest, largest."""
    number = torch.full_like(past[..., 0], past.shape[-1])
    squares = past.var(-1, correction=0) * number
    return torch.stack([number, past.mean(-1), squares, past.amin(-1), past.amax(-1)], -1)


# ---- rewards, for norms


def norm_inputs(rewards: Tensor, keep: Tensor) -> dict[str, Tensor]:
    """Return what a ``norm`` is offered for these rewards ``[... P G]`` without a penalty; the rest is made up."""
    offered = cached_batch(*rewards.shape, 5, dtype=rewards.dtype)
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


# ---- the batch of comparisons with references: R = 3, P = 4, G = 4, T = 6

R, P, G, T = 3, 4, 4, 6


def ragged_mask(rng: np.random.Generator) -> np.ndarray:
    """Each completion counts up to a length of 1 to T tokens; one of every replica does not count at all."""
    mask = np.arange(T) < rng.integers(1, T + 1, size=(R, P, G, 1))
    mask[:, 2, 3] = False
    return mask


def hard_cases_of_keep(rng: np.random.Generator) -> np.ndarray:
    """Group 1 keeps one completion, group 3 all, the others some; group 2 of the last replica keeps none."""
    keep = rng.random((R, P, G)) < 0.8
    keep[:, 1] = np.arange(G) == 2
    keep[:, 3] = True
    keep[-1, 2] = False
    return keep


def components(rng: np.random.Generator, rewards: np.ndarray) -> np.ndarray:
    """Two components; the second does not apply to some completions, and to none of group 3."""
    second = np.where(rng.random(rewards.shape) < 0.3, np.nan, rng.normal(size=rewards.shape))
    second[:, 3] = np.nan
    return np.stack([rewards, second], -1)


def hard_cases_of_rewards(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rewards, and who has one: group 0 has equal ones, group 3 of the last replica none.

    Group 1 has a mean between two bounds of ``difficulty``; one of group 2 is near the middle of 0 and 1.
    """
    rewards = rng.normal(size=(R, P, G))
    rewards[:, 0] = 0.7
    rewards[:, 2, 0] = 0.45
    rewards[:, 1] += 0.09 - rewards[:, 1].mean(-1, keepdims=True)
    scored = np.ones(rewards.shape, dtype=bool)
    scored[:, 2, 1], scored[-1, 3] = False, False
    return rewards, scored


def hard_cases_of_luck(rng: np.random.Generator) -> np.ndarray:
    """All different; bad for the reward that is near the middle, and for one of group 0."""
    luck = rng.permuted((np.arange(R * P * G).reshape(R, P, G) + 0.5) / (R * P * G))
    luck[:, 0, 1], luck[:, 2, 0] = 0.09, 0.01
    return luck


def hard_cases_of_log_probs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Log-ratios have a standard deviation of 0.4."""
    log_probs = -rng.exponential(size=(R, P, G, T)) - 0.05
    old_log_probs = np.minimum(log_probs + 0.4 * rng.normal(size=log_probs.shape), -0.01)
    ref_log_probs = log_probs + 0.4 * rng.normal(size=log_probs.shape)
    ref_log_probs[:, 0, 0, 0] += 3  # one token that π has all but given up, beyond the clamps of a KL
    return {"log_probs": log_probs, "old_log_probs": old_log_probs, "ref_log_probs": ref_log_probs}


def of_training(
    rng: np.random.Generator, rewards: np.ndarray, policies: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What the axes of a step are offered beside rewards and policies; ``slants`` weigh the tokens in a gradient."""
    tokens = (R, P, G, T)
    return {
        "keep": hard_cases_of_keep(rng),
        "finished": rng.random((R, P, G)) < 0.6,
        "mask": ragged_mask(rng),
        "advantages": rng.normal(size=tokens),
        "losses": rng.normal(size=tokens),
        "slants": rng.normal(size=tokens),
        "outcomes": rewards + 0.1,
        "adjustments": np.where(rewards < 0, 0.0, -0.3 * rewards),
        "token_penalties": rng.normal(size=tokens),
        "token_rewards": rng.normal(size=tokens),
        "values": rng.normal(size=(R, P, G, T + 1)),
        "greedy_rewards": rng.normal(size=(R, P, 1)),
        "correct": (rng.random((R, P, G)) < 0.4).astype(float),
        "components": components(rng, rewards),
        "weights": rng.random((R, 2)),
        "sum_pi_squared": np.exp(policies["old_log_probs"]) ** 2 + 0.1 * rng.random(tokens),
        "reward_average": rng.normal(size=R),
        "reward_moments": np.array([[5, 0.3, 4.1, -2.0, 1.5], [0, 0, 0, np.inf, -np.inf], [40, -0.2, 9.0, -0.9, 1.1]]),
        "mean_tokens": rng.uniform(5, 20, size=R),
        "log_ratio_bound": np.array([20.0, 1.0, 0.5]),  # out of reach, seldom and often reached
        "progress": rng.uniform(0.2, 0.8, size=R),
        "uniforms": rng.random(tokens),
        "sampler_log_probs": np.minimum(policies["log_probs"] + 0.4 * rng.normal(size=tokens), -0.01),
        "errors": rng.normal(size=tokens),
        "entropies": rng.exponential(size=tokens).round(2),  # some of them equal
        "prompt_numbers": rng.integers(KNOWN_PROMPTS, size=(R, P)),
    }


def of_judges(rng: np.random.Generator, rewards: np.ndarray, scored: np.ndarray) -> dict[str, np.ndarray]:
    """What judges are offered."""
    return {
        "verified": np.where(scored, rewards, np.nan),
        "quality": np.sign(rewards.round()),
        "vote_draws": rng.random((R, P, G, NUMBERS)),
        "vote_hashes": rng.random((R, P, G, NUMBERS)),
        "proxies": rng.normal(size=(R, P, G, 4)),
    }


def hard_batch() -> dict[str, np.ndarray]:
    """Return random float64 numbers with the hard cases of every axis, for a comparison with a reference."""
    rng = np.random.default_rng(17)
    rewards, scored = hard_cases_of_rewards(rng)
    luck, policies = hard_cases_of_luck(rng), hard_cases_of_log_probs(rng)
    lengths = rng.integers(1, LONGEST + 1, size=(R, P, G)).astype(float)
    found = {"rewards": rewards, "scored": scored, "lengths": lengths, "drawn": luck, "hashed": luck, **policies}
    found |= of_training(rng, rewards, policies) | of_judges(rng, rewards, scored)
    others = {name: size for name, size in memory_shapes().items() if name not in found}
    found |= {name: rng.uniform(0.5, 1.5, (R, *size)) for name, size in others.items()}
    tokens = {"prompts": rng.integers(7, size=(R, P, 3)), "completions": rng.integers(7, size=(R, P, G, T))}
    return found | tokens
