"""What a sweep will be compared as, and whether it can answer: its arms, its names, its study, its number of seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from rlexp.analysis.data import metric_spec
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.starts import in_units
from rlexp.analysis.data.variants import arms_and_strata, changes, is_variant, variant_in_stratum
from rlexp.config.checks import evaluated_metrics
from rlexp.config.schema import Config
from rlexp.config.settings import Difference, Expectation, Study
from rlexp.core.errors import format_value
from rlexp.launch.stages import first_turn, rule_of
from rlexp.runfolder.variants import parse_override, short_labels, split_overrides, varying_keys
from rlexp.sweep.job import Job

TUNED = "lr"  # what a claim wants tuned for each arm
EVALUATED = ("eval/", "curve/")  # how the metrics begin of which all are known beforehand


class Design(NamedTuple):
    """What a sweep will be compared as: arms within strata, of which one is called "" if it is the only one."""

    arms: list[str]
    strata: list[str]

    @property
    def differences(self) -> int:
        """How many are tested together."""
        return len(self.strata) * (len(self.arms) - 1)


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
    yield from question_problems("study", study)
    if study.baseline is not None and not names_arm(study.baseline, design.arms):
        yield no_variant("study.baseline", study.baseline, design.arms)
    if changes(overrides):  # then nothing is judged
        return
    unclear = []
    for place, expectation in enumerate(study.expect):
        key = f"study.expect[{place}]"
        wrong = [*question_problems(key, expectation)]
        unclear += wrong or named_problems(key, expectation, [job.config for job in jobs])
    yield from unclear
    if not unclear and not any(question_problems("study", study)):
        yield from claim_problems(jobs, design)


def turn_problems(jobs: Sequence[Job], fused: bool) -> Iterator[str]:
    """Say why seeds cannot come in turns until enough is known, if the sweep asks for that; fused: by our launcher."""
    rule = rule_of(jobs[0].config) if jobs else None
    if rule is None:
        return
    asked, study, design = f"{rule.key}={format_value(rule.value)}", jobs[0].config.study, design_of(jobs)
    seeds, arms = len({job.config.seed for job in jobs}), len({job.variant for job in jobs})
    if len({job.config.start.seed for job in jobs}) > 1:
        yield f"{asked}: seeds come in turns, and here starts are counted; leave start.seed out"
    needed = first_turn(rule.key, arms)
    if not fused:
        yield f"{asked}: seeds come in turns only with this project's launchers: hydra/launcher=fused"
    if arms < 2:
        yield f"{asked}: there is one variant, and nothing to compare it with; name several, as norm=local,hybrid"
    if rule.key == "until_best" and study is not None:
        yield f"{asked}: study {study.name} judges all of its variants, and a race stops some"
    if rule.key == "until_best" and len(design.strata) > 1:
        yield f"{asked}: the best of one task is found, and there are {'; '.join(design.strata)}"
    if rule.key != "until_decided" and seeds < needed:  # of that there is a note
        some = f"{seeds} seed{'s' * (seeds > 1)}"
        yield f'{asked}: {some} can decide nothing; it takes {needed}, as seed="range(0,{needed})"'


def comparison_notes(jobs: Sequence[Job], overrides: Sequence[str]) -> Iterator[str]:
    """Say what is allowed, but leaves the sweep without an answer."""
    if not jobs:
        return
    study, units = jobs[0].config.study, {job.config.start.seed for job in jobs}
    unit = "start" if len(units) > 1 else "seed"
    seeds = len(units if unit == "start" else {job.config.seed for job in jobs})
    changed = changes(overrides)
    if study is not None and changed:
        yield f"study {study.name} is changed by {' '.join(changed)}, so none of its claims is judged"
    if study is not None and study.best_of:
        return
    design, said = design_of(jobs), f"{seeds} seed{'s' * (seeds > 1)}"
    if design.differences and (problem := unreachable(seeds, design.differences)):
        yield in_units(f"{said} cannot show a difference: {problem}", unit)
    tuned, left = design_of(jobs, [TUNED]), seeds - seeds // 2
    if len(tuned.arms) < len(design.arms) and tuned.differences and unreachable(left, tuned.differences):
        yield (
            f"compared with --best-of {TUNED}, {seeds - left} of {said} choose and {left} are left, too few to "
            f"show a difference: {unreachable(left, tuned.differences, choosing=True)}"
        )


def metric_problem(configs: Iterable[Config]) -> str | None:
    """Say that some run does not evaluate what its study compares or matches, if so."""
    for config in configs:
        if config.study is not None and not any(question_problems("study", config.study)):
            if problem := next(named_problems("study", config.study, [config]), None):
                return problem
    return None


def design_of(jobs: Sequence[Job], grid: Sequence[str] | None = None, within: Sequence[str] | None = None) -> Design:
    """Return how the analysis will compare these jobs, with the best point of a grid for each arm, within strata."""
    variants = list(dict.fromkeys(job.variant for job in jobs))
    varying = varying_keys({variant: split_overrides(variant) for variant in variants})
    within = [axis for axis in within or () if axis in varying] or None
    arms, strata = arms_and_strata(variants, grid or (), within)
    arms = arms if any(strata) or {*(grid or ())} & {*varying} else variants
    return Design(arms, strata)


def names_arm(name: str, arms: Sequence[str]) -> bool:
    """Whether the analysis finds the arm that a baseline names; overrides that make no arms do no harm."""
    labels = {arm: arm for arm in arms}
    axes = {parse_override(part)[0] for arm in arms for part in split_overrides(arm)}
    own = ",".join(part for part in split_overrides(name) if parse_override(part)[0] in axes)
    return is_variant(name, labels) or is_variant(own, labels)


def no_variant(key: str, name: str, variants: Sequence[str]) -> str:
    """Say that a name means no variant, and which there are."""
    axis, labels = short_labels({variant: split_overrides(variant) for variant in variants})
    names = [label if axis == "variant" or "=" in label else f"{axis}={label}" for label in labels.values()]
    return f"{key}={name}: is no variant of this sweep; there are {'; '.join(names)}"


def unreachable(seeds: int, differences: int, choosing: bool = False) -> str | None:
    """Say how many seeds it takes to show one of the differences; None if so many are enough."""
    from rlexp.analysis.stats.significance import ALPHA, reachable_p, seeds_for_p, seeds_with_choice

    smallest = reachable_p(seeds, differences)
    if smallest <= ALPHA:
        return None
    needed = (seeds_with_choice if choosing else seeds_for_p)(differences)
    of = f" of {differences} differences" if differences > 1 else ""
    return f'p (Holm){of} cannot fall below {smallest:.2g}; it takes {needed} seeds, as seed="range(0,{needed})"'


def question_problems(key: str, asking: Study | Expectation) -> Iterator[str]:
    """Say what a study, or an expectation, asks for that is no number of a run."""
    metric, at, matched = (getattr(asking, name, None) for name in ("metric", "at", "matched"))
    try:
        at = metric_spec.parse_option(f"{key}.at=", at, metric_spec.parse_budget)
        matched = metric_spec.parse_option(f"{key}.matched=", matched, metric_spec.parse_target)
    except AnalysisError as error:
        yield str(error)
        return
    if problem := metric_spec.contradiction(metric_spec.MetricSpec(metric, at, matched)):
        yield f"{key}: {problem}"


def named_problems(key: str, asking: Study | Expectation, configs: Iterable[Config]) -> Iterator[str]:
    """Say which metric, to compare or to match, some run of these configs will not log, where that can be known.

    Metrics of evaluations are known, and what is computed from them. Any other name must be written in full, as
    policy/entropy. A part of the name of an evaluated metric will do, but for what a study compares.
    """
    metric, matched = (getattr(asking, name, None) for name in ("metric", "matched"))
    for named, name in (("metric", metric), ("matched", matched and matched.rpartition("=")[0])):
        exactly = isinstance(asking, Study) and named == "metric"
        for config in configs if name else ():
            evaluated = [*evaluated_metrics(config), *metric_spec.OF_WHOLE_RUNS]
            unknowable = "/" in name and not name.startswith(EVALUATED)
            loosely = not exactly and (unknowable or any(name in each for each in evaluated))
            if name not in evaluated and not loosely:
                yield f"{key}.{named}={name}: is not evaluated; there are {', '.join(evaluated)}"
                break


def claim_problems(jobs: Sequence[Job], design: Design) -> Iterator[str]:
    """Say which expectations of a study name no variant or can come out only one way, and whether its seeds suffice."""
    from rlexp.analysis.stats.hypotheses import StudySpec, further_tests

    config = jobs[0].config
    study, labels = config.study, {arm: arm for arm in design.arms}
    written = StudySpec(study.model_dump(mode="json"), labels, design.strata, config.score.metric)
    expected = written.written["expect"]

    unnamed = []
    for key, name in study.variant_names():
        if name is None:
            unnamed.append(f"{key}: is missing, and there is no study.baseline to compare with")
        elif not written.names_arm(name):
            named = [variant_in_stratum(arm, stratum) for stratum, arm in product(design.strata, design.arms)]
            unnamed.append(no_variant(key, name, named))
    yield from unnamed
    for place, expectation in enumerate(() if unnamed else expected):
        try:
            written.hypotheses(expectation)
        except AnalysisError as error:
            yield f"study.expect[{place}]: {error}"

    for place, expectation in enumerate(study.expect):
        if isinstance(expectation, Difference) and expectation.direction == "equal":
            if not written.minimum_effect(expected[place]):
                yield f"study.expect[{place}].minimum_effect: is missing; equal means that the difference is smaller"

    if any(isinstance(expectation, Difference) for expectation in study.expect):
        seeds = {job.config.seed for job in jobs}
        left, choosing = len(seeds - study.choosing(seeds)), bool(study.best_of)
        further = further_tests(written, None if study.baseline is None else written.arm_of(study.baseline))
        if problem := unreachable(left, design.differences + len(further), choosing):
            key = f"study.best_of={format_value(study.best_of)}" if choosing else f"study={study.name}"
            of = f" of {len(seeds)}" if choosing else ""
            yield f"{key}: is judged on {left}{of} seeds, which cannot show a difference: {problem}"
