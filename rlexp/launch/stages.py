"""Which jobs of a sweep train next: what a study has chosen, and seeds in turns until enough is known."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rlexp.analysis import load
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import InTurns, SweepData
from rlexp.config.schema import Config
from rlexp.runfolder.variants import IN_TURNS
from rlexp.sweep.job import Job

LOG = logging.getLogger(__name__)

Eliminate = Callable[..., None]  # lists jobs that are not trained, and why


def rule_of(config: Config) -> InTurns | None:
    """Return when a sweep of this config adds no more seeds; None if all train at once."""
    return InTurns.of({key: getattr(config, key) for key in IN_TURNS})


def first_turn(key: str, arms: int) -> int:
    """Return the fewest seeds of so many arms with which anything can be decided."""
    from rlexp.analysis.stats.racing import race_alpha
    from rlexp.analysis.stats.significance import ALPHA, WIDTH_SEEDS, fewest_seeds

    if key == "until_width":
        return WIDTH_SEEDS
    return fewest_seeds(2 * race_alpha(arms) if key == "until_best" else ALPHA / max(arms - 1, 1))


def stages(jobs: Sequence[Job], sweep: Path, eliminate: Eliminate) -> Iterator[list[Job]]:
    """Yield the jobs that train together; the next are asked for when those before have ended.

    A study with ``choose_first`` trains every point of its grid on the seeds that choose, and on the other seeds, for
    each arm within each stratum, the best point alone: no table shows the others. An arm of which no run was completed
    has no best point, and ends there. With a key of ``IN_TURNS`` those seeds come in turns.
    """
    study = jobs[0].config.study if jobs else None
    if study is not None and study.choose_first:
        seeds = study.choosing({job.config.seed for job in jobs})
        choosing = [job for job in jobs if job.config.seed in seeds]
        yield choosing
        best = best_names(sweep, sorted(seeds))
        variants = {job.variant for job in choosing if job.name in best}
        jobs = [job for job in jobs if job.config.seed not in seeds and job.variant in variants]
        if not jobs:
            return
    yield from seed_batches(jobs, sweep, eliminate)


def seed_batches(jobs: Sequence[Job], sweep: Path, eliminate: Eliminate) -> Iterator[list[Job]]:
    """Yield the jobs of as many seeds as can decide anything, then a quarter more each time, until enough is known.

    With ``until_best`` a variant that is worse than another gets no more. A look sees the seeds before it alone, so a
    sweep that was killed goes on as it would have.
    """
    rule = rule_of(jobs[0].config) if jobs else None
    if rule is None:
        yield list(jobs)
        return
    from rlexp.analysis.stats.significance import turns

    seeds, done = sorted({job.config.seed for job in jobs}), 0
    arms = len({job.variant for job in jobs})
    for end in turns(first_turn(rule.key, arms), len(seeds)):
        take, done = {*seeds[done:end]}, end
        yield [job for job in jobs if job.config.seed in take]
        left, later = list(dict.fromkeys(job.variant for job in jobs)), seeds[done:]
        try:
            data = data_without(sweep, later)
            look = look_at_race(data, left, arms, rule.value) if rule.key == "until_best" else look_at_differences(data)
        except AnalysisError as error:
            LOG.warning("nothing is decided: %s", error)
            continue
        LOG.info("%d of %d seeds: %s", done, len(seeds), look.found)
        for variant, why in look.out.items():
            never = [job for job in jobs if job.variant == variant and job.config.seed in later]
            eliminate(never, reason=f"{why} after {done} seeds")
        jobs = [job for job in jobs if job.variant not in look.out]
        if look.enough:
            return


class Look(NamedTuple):
    """What was found after a turn: in words, whether it is enough, and by their variant why some get no more seeds."""

    found: str
    enough: bool
    out: Mapping[str, str] = {}


def data_without(sweep: Path, seeds: Sequence[int]) -> SweepData:
    """Return the runs of a sweep on all seeds but these, which an earlier command may have begun."""
    data = load(sweep)
    return data._replace(runs=data.runs[~data.runs["seed"].isin(seeds)].reset_index(drop=True))


def look_at_differences(data: SweepData) -> Look:
    """Return how many differences are known well enough."""
    from rlexp.analysis.stats.answer import Question, answer

    comparisons = answer(data, Question()).comparisons
    found = [comparison.is_open(variant) for comparison in comparisons for variant in comparison.others]
    known = f"{found.count(False)} of {len(found)} differences are decided"
    return Look(known, bool(found) and not any(found))


def look_at_race(data: SweepData, left: Sequence[str], arms: int, margin: float) -> Look:
    """Return which of the variants that are left, of so many, are out by now."""
    from rlexp.analysis.data.run_values import values_per_run
    from rlexp.analysis.stats.comparison import seed_table
    from rlexp.analysis.stats.racing import race

    names = {variant: data.aliases.get(variant, variant) for variant in left}
    scores = seed_table(data, values_per_run(data)).reindex(columns=list(dict.fromkeys(names.values())))
    found = race(scores, margin, arms)
    out = {
        variant: f"worse than {found.out[name]}" if found.out[name] else "no run completed"
        for variant, name in names.items()
        if name in found.out
    }
    kept = f"{len(left) - len(out)} of {arms} variants are left"
    return Look(kept, found.best is not None or not found.left, out)


def best_names(sweep: Path, seeds: Sequence[int]) -> set[str]:
    """Return the names of the runs on these seeds that are at the best point of their arm; none if none can be."""
    from rlexp.analysis.stats.answer import runs_at_best

    try:
        return {*runs_at_best(load(sweep), seeds)}
    except AnalysisError as error:
        LOG.warning("nothing can be chosen: %s", error)
        return set()
