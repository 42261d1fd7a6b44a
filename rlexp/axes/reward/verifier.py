"""The task judges."""

from __future__ import annotations

from rlexp.core.facts import RewardFacts
from rlexp.core.types import PerCompletion


@RewardFacts(is_noop=True)
def verifier(verified: PerCompletion) -> PerCompletion:
    """Σ weight · component: the rewards of the task as they are."""
    return verified


FUNCTIONS = {"verifier": verifier}
