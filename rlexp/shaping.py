"""Rewards to rewards before the advantages: ``shaping(rewards, lengths, finished, *, knobs) -> rewards``, ``[*R P G]``.

``lengths`` are in tokens, the end token included; ``finished`` says whether the completion ended by itself.
"""

from __future__ import annotations

from rlexp.types import CompletionMask, NonNegative, PerCompletion, PositiveInt


def none(rewards: PerCompletion, lengths: PerCompletion, finished: CompletionMask) -> PerCompletion:
    """r unchanged."""
    return rewards


def overlong(
    rewards: PerCompletion,
    lengths: PerCompletion,
    finished: CompletionMask,
    *,
    cap: PositiveInt,
    cache: PositiveInt,
    factor: NonNegative,
) -> PerCompletion:
    """r + factor · p(length): p = 0 up to cap − cache, −1 from cap on, linear in between.

    Source: soft overlong punishment of DAPO (arXiv 2503.14476, eq. 13). TRL ``get_soft_overlong_punishment``;
    OpenRLHF and verl scale by ``factor`` as here, verl without the floor at −factor.
    """
    return rewards + factor * ((cap - cache - lengths) / cache).clamp(-1, 0)


FUNCTIONS = {"none": none, "overlong": overlong}
