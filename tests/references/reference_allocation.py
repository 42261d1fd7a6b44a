"""How many completions each prompt has: all ways to divide them are tried, from the formulas of VIP."""

from __future__ import annotations

from itertools import product


def variance_centered(n):
    """VIP, lemma for Dr. GRPO: σ² · 4 p (1 − p) · this."""
    return (n - 1) / n**2


def variance_left_out(n):
    """VIP, lemma for RLOO: σ² · 4 p (1 − p) · this."""
    return 1 / (n - 1)


def variance(rates, numbers, of_number):
    return sum(p * (1 - p) * of_number(n) for p, n in zip(rates, numbers, strict=True))


def least(rates, of_number, most, average, fewest):
    """The least sum of variances that numbers in their bounds, ``average`` of them a prompt, can have."""
    ways = product(range(fewest, most + 1), repeat=len(rates))
    return min(variance(rates, way, of_number) for way in ways if sum(way) == average * len(rates))
