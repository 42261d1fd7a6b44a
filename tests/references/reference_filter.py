"""The filters once more, one group at a time: finished, rewards, scored ``[P G]``; entropies, mask ``[P G T]``."""

from __future__ import annotations

import numpy as np


def groups(verdict, rewards, scored) -> np.ndarray:
    """Keep the groups whose list of rewards passes."""
    keep = np.zeros(rewards.shape, dtype=bool)
    for prompt in range(len(rewards)):
        keep[prompt] = verdict([float(r) for r, s in zip(rewards[prompt], scored[prompt], strict=True) if s])
    return keep


def none(finished):
    """Keep all."""
    return np.full(finished.shape, True)


def overlong(finished):
    """DAPO §3.4; TRL ``mask_truncated_completions``: drop what did not reach its end token."""
    return np.array([[bool(ended) for ended in group] for group in finished])


def zero_variance(rewards, scored):
    """DAPO, arXiv 2503.14476 §3.2: at least two different rewards."""
    return groups(lambda found: len(set(found)) > 1, rewards, scored)


def difficulty(rewards, scored, *, low, high):
    """OpenRLHF dynamic filtering, ROLL ``difficulty_mask``, with closed ends."""
    return groups(lambda found: bool(found) and low <= sum(found) / len(found) <= high, rewards, scored)


def top_entropy(entropies, mask, *, share):
    """arXiv 2506.01939: the tokens at or above the n-th largest entropy of all."""
    found = sorted((float(h) for h, m in zip(entropies.flat, mask.flat, strict=True) if m), reverse=True)
    if not found:
        return np.zeros(mask.shape, dtype=bool)
    threshold = found[max(1, round(share * len(found))) - 1]
    keep = [bool(m) and h >= threshold for h, m in zip(entropies.flat, mask.flat, strict=True)]
    return np.array(keep).reshape(mask.shape)


def best_of_groups(value, scored, number) -> np.ndarray:
    """Keep the first ``number`` of each group in the order of their values."""
    keep = np.zeros(scored.shape, dtype=bool)
    for prompt, group in enumerate(scored):
        there = [g for g, has_reward in enumerate(group) if has_reward]
        for g in sorted(there, key=lambda g: value(prompt, g))[:number]:
            keep[prompt][g] = True
    return keep


def shortest(lengths, scored, *, number):
    """GFPO, arXiv 2508.09726: the shortest."""
    return best_of_groups(lambda p, g: lengths[p][g], scored, number)


def most_efficient(rewards, lengths, scored, *, number):
    """GFPO: the most reward a token."""
    return best_of_groups(lambda p, g: -(rewards[p][g] / lengths[p][g]), scored, number)


FUNCTIONS = {
    "none": none,
    "overlong": overlong,
    "zero_variance": zero_variance,
    "difficulty": difficulty,
    "top_entropy": top_entropy,
    "shortest": shortest,
    "most_efficient": most_efficient,
}
