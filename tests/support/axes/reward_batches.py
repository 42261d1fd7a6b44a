"""Random rewards and which of them count, for laws of norms."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

# Eighths up to ±5: shifts by whole numbers and powers of two are exact, so equal rewards stay equal.
EIGHTHS = st.integers(-40, 40).map(lambda n: n / 8)
SOME_PROMPTS, ONE_PROMPT = st.integers(1, 3), st.just(1)
SOME_KEPT, ALL_KEPT = st.booleans(), st.just(True)


@st.composite
def batches(draw, prompts=SOME_PROMPTS, kept=SOME_KEPT):
    """Rewards and keep, ``[P G]`` in float64, groups of 2 to 5."""
    shape = draw(prompts), draw(st.integers(2, 5))
    cells = shape[0] * shape[1]
    rewards = draw(st.lists(EIGHTHS, min_size=cells, max_size=cells))
    keep = draw(st.lists(kept, min_size=cells, max_size=cells))
    return torch.tensor(rewards, dtype=torch.float64).view(shape), torch.tensor(keep).view(shape)
