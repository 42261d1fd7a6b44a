"""What the comparison at the end of a sweep could not answer, known before the first run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from rlexp.config.checks import evaluated_metrics
from rlexp.config.schema import Config
from rlexp.config.study import Difference, Study
from rlexp.core.errors import format_value
from rlexp.sweep.job import Job

TUNED = "lr"  # what a claim wants tuned for each arm


class Design(NamedTuple):
    """What a sweep will be compared as."""

    arms: list[str]
    claimable: list[str]
    """What a study can call its variants: arms, with their stratum where there are several."""
    differences: int
    """How many are tested together."""
    strata: list[str]
    """Within which arms are compared; one empty text where there are none."""


def comparison_problems(jobs: Sequence[Job], overrides: Sequence[str]) -> Iterator[str]:
    """Say which names mean no variant of a sweep of these jobs, and what of its study could not be judged."""
    if not jobs:
        return
    config = jobs[0].config
    study = config.study
    design = design_of(jobs, study.best_of, study.within) if study else design_of(jobs)
    if config.baseline is not None and not names_arm(config.baseline, design.arms):
        yield no_variant("baseline", config.baseline, design.arms)
    if study is None:
        return
    if problem := metric_problem(job.config for job in jobs):
        yield problem
    if study.baseline is not None and not names_arm(study.baseline, design.arms):
        yield no_variant("study.baseline", study.baseline, design.arms)
    if not study_changes(overrides):  # else nothing is judged
        yield from name_problems(study, design)
        yield from expectation_problems(study)
        yield from seed_problems(study, jobs, design)


def comparison_notes(jobs: Sequence[Job], overrides: Sequence[str]) -> Iterator[str]:
    """Say what is allowed, but leaves the sweep without an answer."""
    if not jobs:
        return
    study, seeds = jobs[0].config.study, len({job.config.seed for job in jobs})
    changed = study_changes(overrides)
    if study is not None and changed:
        yield f"study {study.name} is changed by {' '.join(changed)}, so none of its claims is judged"
    if study is not None and study.best_of:
        return
    design = design_of(jobs)
    if design.differences and reachable(seeds, design.differences) is not None:
        yield f"{count(seeds)} cannot show a difference: {reachable(seeds, design.differences)}"
    tuned, left = design_of(jobs, [TUNED]), seeds - seeds // 2
    if len(tuned.arms) < len(design.arms) and tuned.differences and reachable(left, tuned.differences) is not None:
        yield (
            f"compared with --best-of {TUNED}, {seeds - left} of {count(seeds)} choose and {left} are left, too few to "
            f"show a difference: {reachable(left, tuned.differences, choosing=True)}"
        )


def reachable(seeds: int, differences: int, choosing: bool = False) -> str | None:
    """Say how many seeds it takes; None if so many are enough."""
    from analysis.stats.inference.significance import ALPHA, reachable_p, seeds_for_p, seeds_with_choice

    smallest = reachable_p(seeds, differences)
    if smallest <= ALPHA:
        return None
    needed = (seeds_with_choice if choosing else seeds_for_p)(differences)
    of = f" of {differences} differences" if differences > 1 else ""
    return f'p (Holm){of} cannot fall below {smallest:.2g}; it takes {needed} seeds, as seed="range(0,{needed})"'


def count(seeds: int) -> str:
    """`1 seed`, `5 seeds`."""
    return f"{seeds} seed{'s' * (seeds > 1)}"


def study_changes(overrides: Sequence[str]) -> list[str]:
    """Return the overrides that make a study another one than was written down."""
    from analysis.data.configs import changes

    return changes(list(overrides))


def design_of(jobs: Sequence[Job], grid: Sequence[str] | None = None, within: Sequence[str] | None = None) -> Design:
    """Return how the analysis will compare these jobs, with the best point of a grid for each arm, within strata."""
    from analysis.data.variants import arms_and_strata, split_overrides, variant_in_stratum, varying_keys

    variants = list(dict.fromkeys(job.variant for job in jobs))
    varying = varying_keys({variant: split_overrides(variant) for variant in variants})
    arms, strata = arms_and_strata(variants, grid or (), within)
    arms = arms if any(strata) or {*(grid or ())} & {*varying} else variants
    claimable = [variant_in_stratum(arm, stratum) for stratum, arm in product(strata, arms)]
    return Design(arms, claimable, len(strata) * (len(arms) - 1), strata)


def names_arm(name: str, arms: Sequence[str]) -> bool:
    """Whether the analysis finds the arm that a baseline names; overrides that make no arms do no harm."""
    from analysis.data.variants import is_variant, parse_override, split_overrides

    labels = {arm: arm for arm in arms}
    axes = {parse_override(part)[0] for arm in arms for part in split_overrides(arm)}
    own = ",".join(part for part in split_overrides(name) if parse_override(part)[0] in axes)
    return is_variant(name, labels) or is_variant(own, labels)


def no_variant(key: str, name: str, variants: Sequence[str]) -> str:
    """Say that a name means no variant, and which there are."""
    from analysis.data.variants import short_labels, split_overrides

    axis, labels = short_labels({variant: split_overrides(variant) for variant in variants})
    names = [label if axis == "variant" or "=" in label else f"{axis}={label}" for label in labels.values()]
    return f"{key}={name}: is no variant of this sweep; there are {'; '.join(names)}"


def metric_problem(configs: Iterable[Config]) -> str | None:
    """Say that some run does not evaluate the metric of its study, if so."""
    for config in configs:
        metric, evaluated = config.study and config.study.metric, evaluated_metrics(config)
        if metric is not None and metric not in evaluated:
            return f"study.metric={metric}: is not evaluated; there are {', '.join(evaluated)}"
    return None


def name_problems(study: Study, design: Design) -> Iterator[str]:
    """Say which claims name no variant, by the rule of the analysis: some of its overrides will do."""
    for key, name in study.variant_names():
        if name is None:
            yield f"{key}: is missing, and there is no study.baseline to compare with"
        elif not names_claimable(name, design):
            yield no_variant(key, name, design.claimable)


def names_claimable(name: str, design: Design) -> bool:
    """Whether a name means one variant, or one in every stratum that it leaves open."""
    from analysis.data.variants import is_variant, parse_override, split_overrides

    labels = {each: each for each in design.claimable}
    own = dict(map(parse_override, split_overrides(name)))
    strata = [dict(map(parse_override, split_overrides(stratum))) for stratum in design.strata]
    places = [own | stratum for stratum in strata if all(own.get(key, stratum[key]) == stratum[key] for key in stratum)]
    full = [",".join(f"{key}={value}" for key, value in place.items()) for place in places]
    return is_variant(name, labels) or bool(full) and all(is_variant(each, labels) for each in full)


def expectation_problems(study: Study) -> Iterator[str]:
    """Say which claims could come out only one way."""
    for place, expectation in enumerate(study.expect):
        if isinstance(expectation, Difference) and expectation.direction == "equal":
            least = study.minimum_effect if expectation.minimum_effect is None else expectation.minimum_effect
            if not least:
                yield f"study.expect[{place}].minimum_effect: is missing; equal means that the difference is smaller"


def seed_problems(study: Study, jobs: Sequence[Job], design: Design) -> Iterator[str]:
    """Say that a study, as it is written, has too few seeds for any of its differences to be shown."""
    seeds = {job.config.seed for job in jobs}
    left, choosing = len(seeds - study.choosing(seeds)), bool(study.best_of)
    claims = {frozenset(pair) for pair in study.pairs() if study.baseline not in pair}
    problem = reachable(left, design.differences + len(claims), choosing) if [*study.pairs()] else None
    if problem:
        key = f"study.best_of={format_value(study.best_of)}" if choosing else f"study={study.name}"
        of = f" of {len(seeds)}" if choosing else ""
        yield f"{key}: is judged on {left}{of} seeds, which cannot show a difference: {problem}"
