"""How the analysis will compare the jobs of a sweep, known before the first run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from rlexp.config.schema import Config
from rlexp.sweep.job import Job

if TYPE_CHECKING:
    from rlexp.analysis.stats.verdicts.hypotheses import StudySpec


class Design(NamedTuple):
    """What a sweep will be compared as."""

    arms: list[str]
    strata: list[str]
    """Their names; "" if there is one."""

    @property
    def differences(self) -> int:
        """How many are tested together."""
        return len(self.strata) * (len(self.arms) - 1)

    @property
    def claimable(self) -> list[str]:
        """What a study can call its variants: arms, with their stratum where there are several."""
        from rlexp.analysis.data.variants import variant_in_stratum

        return [variant_in_stratum(arm, stratum) for stratum, arm in product(self.strata, self.arms)]

    def written_study(self, config: Config) -> StudySpec:
        """Return the study of a config as the analysis will read it."""
        from rlexp.analysis.stats.verdicts.hypotheses import StudySpec

        labels = {arm: arm for arm in self.arms}
        return StudySpec(config.study.model_dump(mode="json"), labels, self.strata, config.score.metric)


def design_of(jobs: Sequence[Job], grid: Sequence[str] | None = None, within: Sequence[str] | None = None) -> Design:
    """Return how the analysis will compare these jobs, with the best point of a grid for each arm, within strata."""
    from rlexp.analysis.data.variants import arms_and_strata
    from rlexp.runfolder.variants import split_overrides, varying_keys

    variants = list(dict.fromkeys(job.variant for job in jobs))
    varying = varying_keys({variant: split_overrides(variant) for variant in variants})
    within = [axis for axis in within or () if axis in varying] or None
    arms, strata = arms_and_strata(variants, grid or (), within)
    arms = arms if any(strata) or {*(grid or ())} & {*varying} else variants
    return Design(arms, strata)


def names_arm(name: str, arms: Sequence[str]) -> bool:
    """Whether the analysis finds the arm that a baseline names; overrides that make no arms do no harm."""
    from rlexp.analysis.data.variants import is_variant
    from rlexp.runfolder.variants import parse_override, split_overrides

    labels = {arm: arm for arm in arms}
    axes = {parse_override(part)[0] for arm in arms for part in split_overrides(arm)}
    own = ",".join(part for part in split_overrides(name) if parse_override(part)[0] in axes)
    return is_variant(name, labels) or is_variant(own, labels)


def no_variant(key: str, name: str, variants: Sequence[str]) -> str:
    """Say that a name means no variant, and which there are."""
    from rlexp.runfolder.variants import short_labels, split_overrides

    axis, labels = short_labels({variant: split_overrides(variant) for variant in variants})
    names = [label if axis == "variant" or "=" in label else f"{axis}={label}" for label in labels.values()]
    return f"{key}={name}: is no variant of this sweep; there are {'; '.join(names)}"


def reachable(seeds: int, differences: int, choosing: bool = False) -> str | None:
    """Say how many seeds it takes; None if so many are enough."""
    from rlexp.analysis.stats.inference.significance import ALPHA, reachable_p, seeds_for_p, seeds_with_choice

    smallest = reachable_p(seeds, differences)
    if smallest <= ALPHA:
        return None
    needed = (seeds_with_choice if choosing else seeds_for_p)(differences)
    of = f" of {differences} differences" if differences > 1 else ""
    return f'p (Holm){of} cannot fall below {smallest:.2g}; it takes {needed} seeds, as seed="range(0,{needed})"'


def count(seeds: int) -> str:
    """`1 seed`, `5 seeds`."""
    return f"{seeds} seed{'s' * (seeds > 1)}"
