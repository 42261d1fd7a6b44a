"""A batch of runs of every kind of dynamic sampling, on tasks whose groups are mostly equal."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from axis_choices import bind
from plain_step import Recipe
from toy_state import GROUP, Toy, make_state, variant

from rlexp.models import GRU, Positional, Transformer
from rlexp.tasks import Scores

NONE = variant(Recipe())
DYNAMIC = replace(NONE, filter_refill=bind("filter", "zero_variance"), refill_rounds=4)
TWICE = replace(DYNAMIC, refill_rounds=2)
BAND = replace(NONE, filter_refill=bind("filter", "difficulty", low=0.3, high=0.6), refill_rounds=3)
BLOCKS = [(NONE, 1), (DYNAMIC, 3), (TWICE, 2), (BAND, 2), (NONE, 1)]
MODELS = {
    "gru": dict(model=GRU),
    "transformer": dict(model=Transformer, hyperparameters=dict(width=8, layers=1, heads=2, feedforward=8)),
    "positional": dict(model=Positional, hyperparameters=dict(width=6)),
}
SEEDS = [0, 0, 1, 2, 0, 1, 0, 1, 5]


@dataclass(frozen=True)
class Coarse(Toy):
    """Answers that open with the last symbol of the prompt are right: most groups are all wrong."""

    weights, reward_range = {"first": 0.7}, (0.0, 0.7)

    def score(self, prompts, completions, mask, finished):
        right = completions[..., 0] == prompts[..., -1:]
        return Scores({"first": right.to(torch.get_default_dtype())}, right)


class Same(Coarse):
    """All answers get the same."""

    def score(self, prompts, completions, mask, finished):
        return Scores({"first": torch.full(finished.shape, 0.3)}, finished)


class Different(Coarse):
    """No two answers of a group get the same."""

    def score(self, prompts, completions, mask, finished):
        return Scores({"first": torch.arange(GROUP).expand(finished.shape).float()}, finished)


def mixed(chosen=slice(None), task=None, **options):
    """Return the ``chosen`` replicas of a state of all kinds, float32."""
    owners = [owner for owner, size in BLOCKS for _ in range(size)][chosen]
    blocks = [(owner, 1) for owner in owners]
    return make_state(blocks, SEEDS[chosen], task=task or Coarse(), dtype=torch.float32, minibatches=2, **options)
