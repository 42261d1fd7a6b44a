"""Where the policy starts: ``start(policy) -> None``, changing the stacked parameters in place."""

from __future__ import annotations

from torch import nn


def random(policy: nn.Module) -> None:
    """Keep the random initial weights, which are a function of the run's seed alone."""


STARTS = {"random": random}
