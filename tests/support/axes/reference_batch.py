"""A batch of random numbers with the hard cases of every axis, for comparisons with ``references/``."""

from __future__ import annotations

import numpy as np
import pytest
from axis_choices import KNOWN, memory_shapes

from rlexp.axes.reward.voting import NUMBERS

R, P, G, T = 3, 4, 4, 6
LONGEST = 20  # longer than the cap that the tests put in for ${task.cap}


def ragged_mask(rng) -> np.ndarray:
    """Each completion counts up to a length of 1 to T tokens; one of every replica does not count at all."""
    mask = np.arange(T) < rng.integers(1, T + 1, size=(R, P, G, 1))
    mask[:, 2, 3] = False
    return mask


def hard_cases_of_keep(rng) -> np.ndarray:
    """Group 1 keeps one completion, group 3 all, the others some; group 2 of the last replica keeps none."""
    keep = rng.random((R, P, G)) < 0.8
    keep[:, 1] = np.arange(G) == 2
    keep[:, 3] = True
    keep[-1, 2] = False
    return keep


def components(rng, rewards) -> np.ndarray:
    """Two components; the second does not apply to some completions, and to none of group 3."""
    second = np.where(rng.random(rewards.shape) < 0.3, np.nan, rng.normal(size=rewards.shape))
    second[:, 3] = np.nan
    return np.stack([rewards, second], -1)


def hard_cases_of_rewards(rng) -> tuple[np.ndarray, np.ndarray]:
    """Rewards, and who has one: group 0 has equal ones, group 3 of the last replica none.

    Group 1 has a mean between two values of a knob of ``difficulty``; one of group 2 is near the middle of 0 and 1.
    """
    rewards = rng.normal(size=(R, P, G))
    rewards[:, 0] = 0.7
    rewards[:, 2, 0] = 0.45
    rewards[:, 1] += 0.09 - rewards[:, 1].mean(-1, keepdims=True)
    scored = np.ones(rewards.shape, dtype=bool)
    scored[:, 2, 1], scored[-1, 3] = False, False
    return rewards, scored


def hard_cases_of_luck(rng) -> np.ndarray:
    """All different; bad for the reward that is near the middle, and for one of group 0."""
    luck = rng.permuted((np.arange(R * P * G).reshape(R, P, G) + 0.5) / (R * P * G))
    luck[:, 0, 1], luck[:, 2, 0] = 0.09, 0.01
    return luck


def hard_cases_of_log_probs(rng) -> dict[str, np.ndarray]:
    """Log-ratios have a standard deviation of 0.4."""
    log_probs = -rng.exponential(size=(R, P, G, T)) - 0.05
    old_log_probs = np.minimum(log_probs + 0.4 * rng.normal(size=log_probs.shape), -0.01)
    ref_log_probs = log_probs + 0.4 * rng.normal(size=log_probs.shape)
    ref_log_probs[:, 0, 0, 0] += 3  # one token that π has all but given up, beyond the clamps of a KL
    return {"log_probs": log_probs, "old_log_probs": old_log_probs, "ref_log_probs": ref_log_probs}


def of_training(rng, rewards, policies) -> dict[str, np.ndarray]:
    """What the axes of a step are offered beside rewards and policies."""
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
        "prompt_numbers": rng.integers(KNOWN, size=(R, P)),
    }


def of_judges(rng, rewards, scored) -> dict[str, np.ndarray]:
    """What judges are offered."""
    return {
        "verified": np.where(scored, rewards, np.nan),
        "quality": np.sign(rewards.round()),
        "vote_draws": rng.random((R, P, G, NUMBERS)),
        "vote_hashes": rng.random((R, P, G, NUMBERS)),
        "proxies": rng.normal(size=(R, P, G, 4)),
    }


@pytest.fixture
def batch() -> dict[str, np.ndarray]:
    """Random float64 numbers with these cases."""
    rng = np.random.default_rng(17)
    rewards, scored = hard_cases_of_rewards(rng)
    luck, policies = hard_cases_of_luck(rng), hard_cases_of_log_probs(rng)
    lengths = rng.integers(1, LONGEST + 1, size=(R, P, G)).astype(float)
    found = {"rewards": rewards, "scored": scored, "lengths": lengths, "drawn": luck, "hashed": luck, **policies}
    found |= of_training(rng, rewards, policies) | of_judges(rng, rewards, scored)
    others = {name: size for name, size in memory_shapes().items() if name not in found}
    return found | {name: rng.uniform(0.5, 1.5, (R, *size)) for name, size in others.items()}
