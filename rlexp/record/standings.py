"""The last rewards of a batch's variants, as a small table or a line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from rlexp.runfolder.variants import short_labels, split_overrides

MOST_ROWS, MOST_IN_LINE = 12, 6


class VariantStatus(NamedTuple):
    """One variant: its runs that are alive, all its runs, the mean reward of those alive (NaN if there is none)."""

    label: str
    alive: int
    runs: int
    reward: float


class Standings:
    """The last logged reward of each run, summed up by variant."""

    def __init__(self, variants: Sequence[str]):
        self.variants = variants
        self.labels = short_labels({variant: split_overrides(variant) for variant in variants})[1]
        self.alive: Sequence[bool] = [True] * len(variants)
        self.rewards: Sequence[float] = [math.nan] * len(variants)

    def update(self, alive: Sequence[bool], rewards: Sequence[float]) -> None:
        """Hold what was logged; the sequences must not be changed afterwards."""
        self.alive, self.rewards = alive, rewards

    def best(self, most: int) -> tuple[list[VariantStatus], str]:
        """All variants in their order, or the best if they are many; and words for the rest."""
        runs: dict[str, list[tuple[bool, float]]] = {variant: [] for variant in self.labels}
        for variant, alive, reward in zip(self.variants, self.alive, self.rewards, strict=True):
            runs[variant].append((alive, reward))
        statuses = [status_of(self.labels[variant], pairs) for variant, pairs in runs.items()]
        if len(statuses) <= most:
            return statuses, ""
        best = sorted(statuses, key=lambda status: (math.isnan(status.reward), -status.reward))
        return best[:most], f"and {len(best) - most} more"

    def table(self) -> Table:
        """One row per variant."""
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("variant", overflow="ellipsis", no_wrap=True)
        table.add_column("runs", justify="right", no_wrap=True)
        table.add_column("reward", justify="right", no_wrap=True, min_width=6)
        statuses, rest = self.best(MOST_ROWS)
        for status in statuses:
            table.add_row(Text(status.label), f"{status.alive}/{status.runs}", number(status.reward))
        if rest:
            table.add_row(Text(rest))
        return table

    def line(self) -> str:
        """The variants and their rewards in one line; of a single run the reward alone."""
        statuses, rest = self.best(MOST_IN_LINE)
        if len(self.variants) == 1:
            return number(statuses[0].reward)
        return " ".join([*(f"{status.label} {number(status.reward)}" for status in statuses), rest]).strip()


def status_of(label: str, runs: Sequence[tuple[bool, float]]) -> VariantStatus:
    """Sum up the runs of one variant, each (alive, reward)."""
    rewards = [reward for alive, reward in runs if alive and math.isfinite(reward)]
    mean = fmean(rewards) if rewards else math.nan
    return VariantStatus(label, sum(bool(alive) for alive, _ in runs), len(runs), mean)


def number(value: float) -> str:
    """Two decimals; a dash for what is not known."""
    return f"{value:.2f}" if math.isfinite(value) else "–"
