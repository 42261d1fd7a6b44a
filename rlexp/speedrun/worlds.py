"""The worlds: task, model, start, evaluation and budget, the same for everybody, and what counts as learned.

A world never changes once it has a record. Each record holds its whole configuration, and ``verify`` compares that with
what these overrides give by then: where a default changes, its old value is to be written here.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

from rlexp.core.errors import ConfigError


class World(NamedTuple):
    """What is to be learned. ``target`` is in units of ``metric``, a key of metrics.jsonl."""

    name: str
    overrides: tuple[str, ...]
    """They fix it, with the defaults; a recipe comes after them."""
    metric: str
    target: float
    what: str
    """One line for readers."""
    fixed: tuple[str, ...] = ()
    """Keys that it fixes beside those that every world does."""


def evaluated(every: int, steps: int) -> tuple[str, ...]:
    """Return the overrides of a run of so many steps that is evaluated every so many, and logged whenever it is."""
    return (f"steps={steps}", f"eval.every={every}", f"log_every={every}", "eval.samples=1", "eval.ks=[1]")


WORLDS = {
    world.name: world
    for world in (
        World(
            "sort",
            ("task=sort", "task.longest=3", "model=transformer", *evaluated(every=5, steps=200)),
            "eval/greedy_accuracy",
            0.95,
            "sort two or three of eight symbols; a small transformer that starts from random weights",
        ),
        World(
            "bandit",
            ("task=bandit", "model=tabular", *evaluated(every=1, steps=200)),
            "eval/exact/accuracy",
            0.7125,
            "a table of logits for 32 questions, 8 of which have no right answer; 0.7125 is .95 of the 0.75 there is",
            ("temperature",),
        ),
        World(
            "preference",
            ("task=token_preference", "model=transformer", *evaluated(every=1, steps=25)),
            "eval/sampled_accuracy",
            0.95,
            "write fifteen of a hundred tokens, few of them low; a small transformer that starts from random weights",
            ("temperature",),
        ),
    )
}


def find_world(name: str) -> World:
    """Return the world of a name; ConfigError for another one."""
    if name not in WORLDS:
        close = get_close_matches(name, WORLDS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(WORLDS)}"
        raise ConfigError([f"{name}: no such world; {hint}"])
    return WORLDS[name]
