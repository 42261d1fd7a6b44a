"""What the comparison at the end of a sweep could not answer, known before the first run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlexp.analysis.data.configs import changes
from rlexp.launch.studies.claims import metric_problem, study_problems
from rlexp.launch.studies.design import count, design_of, names_arm, no_variant, reachable
from rlexp.launch.studies.questions import question_problems
from rlexp.sweep.job import Job

TUNED = "lr"  # what a claim wants tuned for each arm


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
    if not changes(overrides):  # else nothing is judged
        yield from study_problems(jobs, design)


def comparison_notes(jobs: Sequence[Job], overrides: Sequence[str]) -> Iterator[str]:
    """Say what is allowed, but leaves the sweep without an answer."""
    if not jobs:
        return
    study, seeds = jobs[0].config.study, len({job.config.seed for job in jobs})
    changed = changes(overrides)
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
