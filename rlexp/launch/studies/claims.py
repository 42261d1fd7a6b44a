"""Which claims of a study could not be judged, known before the first run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rlexp.config.schema import Config
from rlexp.config.study import Difference, Study
from rlexp.core.errors import format_value
from rlexp.launch.studies.design import Design, no_variant, reachable
from rlexp.launch.studies.questions import named_problems, question_problems
from rlexp.sweep.job import Job

if TYPE_CHECKING:
    from rlexp.analysis.stats.verdicts.hypotheses import StudySpec


def study_problems(jobs: Sequence[Job], design: Design) -> Iterator[str]:
    """Say what of the study of these jobs could not be judged."""
    config = jobs[0].config
    study = config.study
    unclear = [*claim_problems(study, [job.config for job in jobs])]
    yield from unclear
    if unclear or any(question_problems("study", study)):
        return
    written = design.written_study(config)
    yield from name_problems(written, study, design)
    yield from expectation_problems(written, study)
    yield from seed_problems(written, study, jobs, design)


def metric_problem(configs: Iterable[Config]) -> str | None:
    """Say that some run does not evaluate what its study compares or matches, if so."""
    for config in configs:
        if config.study is not None and not any(question_problems("study", config.study)):
            if problem := next(named_problems("study", config.study, [config]), None):
                return problem
    return None


def claim_problems(study: Study, configs: Sequence[Config]) -> Iterator[str]:
    """Say which claims ask for a number that their runs will not have."""
    for place, expectation in enumerate(study.expect):
        key = f"study.expect[{place}]"
        unclear = [*question_problems(key, expectation)]
        yield from unclear or named_problems(key, expectation, configs)


def name_problems(written: StudySpec, study: Study, design: Design) -> Iterator[str]:
    """Say which claims name no variant, by the rule of the analysis: some of its overrides will do."""
    from rlexp.analysis.data.errors import AnalysisError

    wrong = False
    for key, name in study.variant_names():
        if name is None:
            yield f"{key}: is missing, and there is no study.baseline to compare with"
        elif not written.names_arm(name):
            yield no_variant(key, name, design.claimable)
        else:
            continue
        wrong = True
    for place, expectation in enumerate(() if wrong else written.written["expect"]):
        try:
            written.hypotheses(expectation)
        except AnalysisError as error:
            yield f"study.expect[{place}]: {error}"


def expectation_problems(written: StudySpec, study: Study) -> Iterator[str]:
    """Say which claims could come out only one way."""
    for place, expectation in enumerate(study.expect):
        if isinstance(expectation, Difference) and expectation.direction == "equal":
            if not written.minimum_effect(written.written["expect"][place]):
                yield f"study.expect[{place}].minimum_effect: is missing; equal means that the difference is smaller"


def seed_problems(written: StudySpec, study: Study, jobs: Sequence[Job], design: Design) -> Iterator[str]:
    """Say that a study, as it is written, has too few seeds for any of its differences to be shown."""
    from rlexp.analysis.stats.verdicts.hypotheses import further_tests

    seeds = {job.config.seed for job in jobs}
    left, choosing = len(seeds - study.choosing(seeds)), bool(study.best_of)
    further = further_tests(written, None if study.baseline is None else written.arm_of(study.baseline))
    tested = any(isinstance(expectation, Difference) for expectation in study.expect)
    problem = reachable(left, design.differences + len(further), choosing) if tested else None
    if problem:
        key = f"study.best_of={format_value(study.best_of)}" if choosing else f"study={study.name}"
        of = f" of {len(seeds)}" if choosing else ""
        yield f"{key}: is judged on {left}{of} seeds, which cannot show a difference: {problem}"
