"""From the overrides of jobs to jobs that can start, composed and checked, each with a folder, and in which order."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from rlexp.analysis import load
from rlexp.analysis.data.errors import AnalysisError
from rlexp.config.compose import plain, plain_value
from rlexp.config.messages import explain
from rlexp.config.schema import read
from rlexp.core.errors import ConfigError
from rlexp.core.exits import relative
from rlexp.launch.hydra_private import CachingConfigLoader, hydra_config, set_output_folder
from rlexp.record.resume import RunStatus, inspect, refusal
from rlexp.runfolder.files import link_out
from rlexp.runfolder.variants import run_name, variant_name
from rlexp.sweep.job import Job, LogSettings

LOG = logging.getLogger(__name__)
NOT_SHARED = ("overrides", "runtime", "job")


@dataclass(frozen=True)
class Plan:
    """Jobs that can start, in the order of the overrides that they were asked for with.

    By the job's number: what Hydra composed for each of them, its own node included, and what its folder is.
    """

    asked: list[list[str]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    composed: dict[int, DictConfig] = field(default_factory=dict)
    statuses: dict[int, RunStatus] = field(default_factory=dict)

    def inspect(self, place: int) -> RunStatus:
        """Look what the folder of a job is; one that has ended is not trained again."""
        job = self.jobs[place]
        status = self.statuses[job.number] = inspect(job.folder, job.config.model_dump(mode="json"))
        self.jobs[place] = replace(job, ended=status.result)
        return status

    def part(self, overrides: Sequence[Sequence[str]], first: int) -> Plan | None:
        """Return what was planned for jobs from this number on; None if other jobs were."""
        places = slice(first, first + len(overrides))
        asked = [list(each) for each in overrides]
        return replace(self, asked=asked, jobs=self.jobs[places]) if self.asked[places] == asked else None


Loader = ConfigLoader | CachingConfigLoader


def plan_jobs(loader: Loader, master: DictConfig, overrides: Sequence[Sequence[str]], first: int = 0) -> Plan:
    """Compose and check all jobs; ConfigError with a line for each distinct problem if any cannot run."""
    plan, problems = Plan([list(each) for each in overrides]), {}
    for number, job_overrides in enumerate(plan.asked, first):
        try:
            plan.composed[number] = compose_job(loader, master, job_overrides, number)
            plan.jobs.append(job_of(plan.composed[number]))
        except Exception as error:
            for line in explain(error, job_overrides).splitlines():
                problems.setdefault(line, []).append(job_label(number, job_overrides))
    if not problems:
        problems = dict(sweep_problems(plan))
    if problems:
        raise ConfigError([f"{job_prefix(jobs, len(overrides))}{problem}" for problem, jobs in problems.items()])
    return plan


def stages(jobs: Sequence[Job], sweep: Path) -> Iterator[list[Job]]:
    """Yield the jobs that train together; the next are asked for when those before have ended.

    A study with ``choose_first`` trains every point of its grid on the seeds that choose, and on the other seeds, for
    each arm within each stratum, the best point alone: no table shows the others. An arm of which no run was completed
    has no best point, and ends there. With ``until_decided`` those seeds come in turns.
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
    yield from seed_batches(jobs, sweep)


def seed_batches(jobs: Sequence[Job], sweep: Path) -> Iterator[list[Job]]:
    """Yield the jobs of as many seeds as can decide anything, then a quarter more each time, until all is decided."""
    margin = jobs[0].config.until_decided if jobs else None
    if margin is None:
        yield list(jobs)
        return
    seeds, done = sorted({job.config.seed for job in jobs}), 0
    for end in look_schedule(jobs, len(seeds)):
        take, done = {*seeds[done:end]}, end
        yield [job for job in jobs if job.config.seed in take]
        left, of = undecided(sweep)
        LOG.info("%d of %d seeds: %d of %d differences are decided", done, len(seeds), of - left, of)
        if of and not left:
            return


def look_schedule(jobs: Sequence[Job], most: int) -> list[int]:
    """Return how many seeds there are after each turn, for all the differences that these jobs will show."""
    from rlexp.analysis.stats.significance import ALPHA, look_schedule

    return [*look_schedule(most, ALPHA / max(len({job.variant for job in jobs}) - 1, 1))]


def undecided(sweep: Path) -> tuple[int, int]:
    """Return how many differences of a sweep are open, and of how many; of none, where nothing can be compared yet."""
    from rlexp.analysis.stats.answer import Question, answer

    try:
        comparisons = answer(load(sweep), Question()).comparisons
    except AnalysisError as error:
        LOG.warning("nothing is decided: %s", error)
        return 0, 0
    found = [comparison.decision(variant) for comparison in comparisons for variant in comparison.others]
    return found.count("open"), len(found)


def best_names(sweep: Path, seeds: Sequence[int]) -> set[str]:
    """Return the names of the runs on these seeds that are at the best point of their arm; none if none can be."""
    from rlexp.analysis.stats.answer import runs_at_best

    try:
        return {*runs_at_best(load(sweep), seeds)}
    except AnalysisError as error:
        LOG.warning("nothing can be chosen: %s", error)
        return set()


def job_label(number: int, overrides: Sequence[str]) -> str:
    """Return what a job is called in an error."""
    return f"{number} ({run_name(overrides)})"


def job_prefix(jobs: Sequence[str], of: int) -> str:
    """Name the first of the jobs that have a problem, and how many more have it; nothing if all have."""
    if len(jobs) == of:
        return ""
    return f"job {jobs[0]} and {len(jobs) - 1} more: " if len(jobs) > 1 else f"job {jobs[0]}: "


def compose_job(loader: Loader, master: DictConfig, overrides: list[str], number: int) -> DictConfig:
    """Return what Hydra composes for a job of a sweep, with its number and its folder."""
    settings = loader.load_sweep_config(master, overrides)
    with open_dict(settings):
        settings.hydra.job.id, settings.hydra.job.num = str(number), number
    with hydra_config(settings):
        folder = Path(settings.hydra.sweep.dir) / settings.hydra.sweep.subdir
    set_output_folder(settings, Path(os.path.abspath(folder)))
    return settings


def job_of(settings: DictConfig) -> Job:
    """Check a composed config and return its job; ConfigError if it cannot run."""
    config, node = read(plain(settings)), settings.hydra
    with hydra_config(settings):
        name = str(node.sweep.subdir)
        logs = LogSettings(
            {"handlers": {}} | OmegaConf.to_container(node.job_logging, resolve=True),
            plain_value(node.verbose),
        )
    folder, overrides = Path(node.runtime.output_dir), tuple(node.overrides.task)
    return Job(
        config=config,
        folder=folder,
        name=name,
        variant=variant_name(overrides),
        number=node.job.num,
        overrides=overrides,
        starts=starts_of(folder.parent),
        logs=logs,
    )


def checked_job(settings: DictConfig) -> Job:
    """Return the job of a composed config that trains by itself; a config that a check has read is not read again."""
    node, hydra = HydraConfig.get(), GlobalHydra.instance().hydra
    folder = Path(node.runtime.output_dir)
    checked = getattr(hydra and hydra.config_loader, "plan", None) or Plan()
    config = next((job.config for job in checked.jobs if job.folder == folder), None) or read(plain(settings))
    return Job(config, folder, folder.name, variant_name(node.overrides.task))


def starts_of(sweep: Path) -> Path:
    """Return where the runs of a sweep keep what they start from."""
    return sweep / "starts"


def sweep_problems(plan: Plan) -> Iterator[tuple[str, list[str]]]:
    """Say what is wrong between jobs that are each right by themselves, and for which jobs."""
    labels: dict[Path, str] = {}
    first = shared_settings(plan, plan.jobs[0]) if plan.jobs else {}
    variants: dict[str, bool] = {}  # whether its node is the first job's; a seed is not in the node
    for place, job in enumerate(plan.jobs):
        label = job_label(job.number, job.overrides)
        if other := labels.get(job.folder):
            yield f"would write to the folder of job {other}: {job.folder}", [label]
        if job.variant not in variants:
            variants[job.variant] = shared_settings(plan, job) == first
        if not variants[job.variant]:
            yield "differs in its hydra node from the first job; a sweep has one launcher, folder and logging", [label]
        labels[job.folder] = label
        if problem := folder_problem(job.folder) or refusal(job.folder, job.config.resume, plan.inspect(place)):
            yield problem, [label]


def folder_problem(folder: Path) -> str | None:
    """Say why a run cannot be written to ``folder``, if so."""
    try:
        folder.exists()
    except (OSError, ValueError) as error:  # a name that is too long, or has a null byte
        return f"cannot write to {str(folder)[:200]!r}: {getattr(error, 'strerror', None) or error}"
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not existing.is_dir():
        return f"cannot write to {folder}: {existing} is not a folder"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"cannot write to {folder}: no permission in {existing}"
    if link := link_out(folder):
        return f"{relative(link)} is a link to another folder, where a run would write: remove it"
    return None


def shared_settings(plan: Plan, job: Job) -> dict:
    """Return what all jobs of a sweep must have in common of Hydra's node."""
    node = OmegaConf.to_container(plan.composed[job.number].hydra, resolve=False)
    return {key: value for key, value in node.items() if key not in NOT_SHARED} | {"chdir": node["job"]["chdir"]}
