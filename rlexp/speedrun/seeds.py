"""The seeds of a submission: they follow from what it changes and from the record that it wants to beat.

Nobody chooses them, and another recipe, or the same one after another record, has others. They say nothing about how
many recipes were tried in private: docs/speedrun.md says what that leaves open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from itertools import count, islice
from typing import Any

from rlexp.speedrun.worlds import World

SEEDS = 10
LARGEST = 2**31


def canonical(value: Any) -> str:
    """Return a value as JSON in one way only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of a value in 64 hexadecimal digits, in whatever order its keys are."""
    return sha256(canonical(value).encode()).hexdigest()


def draw_seeds(world: World, changes: Mapping[str, Any], after: str | None, draw: str = "") -> list[int]:
    """Return SEEDS different seeds below 2³¹.

    changes: those of the recipe. after: the fingerprint of the record before, None for a first one. draw: a text that
    somebody else has chosen, for other seeds of the same submission.
    """
    material = [world.name, dict(changes), after, *[draw] * bool(draw)]
    drawn = (int(fingerprint([*material, number]), 16) % LARGEST for number in count())
    distinct = dict.fromkeys(islice(drawn, 2 * SEEDS))
    return list(distinct)[:SEEDS]
