"""Seeds that nobody chooses: those of a submission follow from it, those of a second draw also from chance after it."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import count, islice
from typing import Any

SEEDS = 10
LARGEST = 2**31


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of a value, written as JSON in one way only, in 64 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()


def draw_seeds(*fixed: Any) -> list[int]:
    """Return SEEDS different seeds below 2³¹ that follow from these values, which JSON can hold."""
    drawn = (int(fingerprint([*fixed, number]), 16) % LARGEST for number in count())
    distinct = dict.fromkeys(islice(drawn, 2 * SEEDS))
    return list(distinct)[:SEEDS]
