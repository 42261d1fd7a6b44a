"""Laws that choices of an axis may obey, each in a sentence; the tests of the axes hold every choice to its own.

A choice obeys what is ``ENTAILED`` (by its axis, or by what it compares), less what its facts say that it ``breaks``,
and the ``laws`` of its facts. A stronger law brings the weaker one with it (``STRONGER``).
"""

from __future__ import annotations

from collections.abc import Callable

from rlexp.axes import AXES
from rlexp.axes.offered import REWARDS
from rlexp.core.facts import facts_of
from rlexp.core.registry import hyperparameters, required_inputs

LAWS = {
    "norm": {  # of those that look at rewards
        "shift": "a number added to all rewards changes nothing",
        "group shift": "a number added to the rewards of a group changes nothing",
        "equal": "equal rewards give advantages of exactly 0",
        "equal group": "equal rewards in a group give it advantages of exactly 0, whatever the others have",
        "faint": "differences in a group far below eps give next to no advantage",
        "scale": "rewards in another unit, and eps with them, change nothing",
        "linear": "advantages are proportional to the rewards",
        "zero sum": "the advantages of a group add up to 0",
        "zero batch sum": "the advantages of the batch add up to 0",
        "zero token sum": "the advantages of all tokens of the batch add up to 0",
    },
    "clip": {
        "policy gradient": "where every ratio is 1 the gradient is that of −A log π",
        "no advantage": "tokens without an advantage have no gradient",
        "alone": "a completion has the same gradient whatever else is in its minibatch",
    },
    "agg": {
        "mean": "losses that are all the same are their own mean",
        "masked leaves": "a completion that is masked throughout leaves the denominator; otherwise it is one of loss 0",
        "split": "how a rollout is split into minibatches changes no gradient",
    },
}
ENTAILED = {
    "clip": ("policy gradient", "no advantage", "alone"),
    "agg": ("split",),
    "group": ("group shift", "equal", "equal group", "faint"),
    "batch": ("shift", "equal"),
    "tokens": ("shift", "equal"),
}
STRONGER = {"group shift": "shift", "zero sum": "zero batch sum"}


def laws_of(axis: str, function: Callable) -> frozenset[str]:
    """Return the laws that a function obeys: of a norm that does not ask for rewards none, as they are about those."""
    if axis not in LAWS or axis == "norm" and not REWARDS & {*required_inputs(function)}:
        return frozenset()
    facts = facts_of(function, AXES[axis].facts)
    stated = {*ENTAILED.get(facts.compares if axis == "norm" else axis, ()), *facts.laws}
    entailed = {STRONGER[law] for law in stated if law in STRONGER}
    vacuous = set() if "eps" in hyperparameters(getattr(function, "func", function)) else {"faint"}
    return frozenset((stated | entailed) - {*facts.breaks} - vacuous)
