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
    near: float
    """The lower end of its interval, in the same units and the effect's direction."""
    far: float
    """The end of its interval that is farther from 0, without its sign."""


def changes(used: Iterable[Asked]) -> Iterator[Change]:
    """Yield all assertions of small transformers that are judged in log-odds, and both of whose arms train."""
    for one in used:
        for each in one.assertions if one.tier == "small" else []:
            if each["scale"] != "log-odds" or each["effect"] is None or UNTRAINED in each["arm"] + each["versus"]:
                continue
            axes = {override.partition("=")[0].partition(".")[0] for override in {*each["arm"]} ^ {*each["versus"]}}
            sides = (
                np.array([each[end] for end in ("low", "high")]) * (-1 if each["effect"] < 0 else 1) / each["smallest"]
            )
            yield Change(axes <= LOSS, abs(each["effect"]) / each["smallest"], sides.min(), abs(sides).max())


def summary(found: Sequence[Change]) -> str:
    """Return what moved accuracy, in a sentence for each kind of change."""
    return " ".join(told(what, some) for what, some in kinds(found).items() if some)


def told(what: str, found: Sequence[Change]) -> str:
    """Return how many changes of a kind have a size that counts."""
    sizes = np.array([[each.size, each.near, each.far] for each in found])
    large, whole, some = (sizes >= 1).sum(0)
    return (
        f"Of {len(found)} assertions that change {what}, {large} have a pooled effect of a size that counts ({whole} "
        f"with the whole interval), the intervals of {len(found) - some} rule such a size out, and the median is "
        f"{np.median(sizes[:, 0]):.2f} of it."
    )


def kinds(found: Sequence[Change]) -> dict[str, list[Change]]:
    """Return the changes by what they change."""
    names = {True: "the loss alone", False: "what is sampled, rewarded or asked"}
    return {what: [each for each in found if each.of_loss is kind] for kind, what in names.items()}
