"""What moves accuracy: a change of the loss, or of what is sampled, rewarded and asked. Looked at after the answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.cards.asked import Asked

LOSS = {"agg", "clip", "distillation", "entropy_control", "kl", "norm"}
"""The axes that a loss is made of."""
UNTRAINED = "warmup_steps=1000000000"
"""An arm that stays at its start; what training as a whole is worth is another matter."""


class Change(NamedTuple):
    """An assertion about a small transformer's accuracy."""

    of_loss: bool
    """Its arms differ in axes of the loss alone."""
    size: float
    """The pooled effect without its sign, in units of the smallest that counts."""


def changes(used: Iterable[Asked]) -> Iterator[Change]:
    """Yield all assertions of small transformers that are judged in log-odds, and both of whose arms train."""
    for one in used:
        for each in one.assertions if one.tier == "small" else []:
            if each["scale"] != "log-odds" or each["effect"] is None or UNTRAINED in each["arm"] + each["versus"]:
                continue
            axes = {override.partition("=")[0].partition(".")[0] for override in {*each["arm"]} ^ {*each["versus"]}}
            yield Change(axes <= LOSS, abs(each["effect"]) / each["smallest"])


def summary(found: Sequence[Change]) -> str:
    """Return what moved accuracy, in two sentences."""
    of_loss, other = (np.array([each.size for each in found if each.of_loss is kind]) for kind in (True, False))
    return (
        f"Of {len(of_loss)} assertions that change the loss alone, {(of_loss >= 1).sum()} have a pooled effect of a "
        f"size that counts, and the median effect is {np.median(of_loss):.2f} of that size. Of {len(other)} that "
        f"change what is sampled, rewarded or asked, {(other >= 1).sum()} do, and the median is {np.median(other):.2f}."
    )
