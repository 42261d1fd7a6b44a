"""Everything that is checked before a run or a sweep writes anything; ConfigError with a line for each problem.

For a sweep that is its plan: its jobs, composed and checked, each with a folder.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from rlexp.config import parse
from rlexp.config.checks import remarks
from rlexp.config.compose import plain, plain_value
from rlexp.config.messages import explain
from rlexp.config.schema import Config, read
from rlexp.core.errors import ConfigError
from rlexp.core.exits import printable, relative, shortened
from rlexp.language.backend import CAPABILITIES
from rlexp.launch import halving, search
from rlexp.launch.comparison import comparison_notes, comparison_problems, metric_problem, turn_problems
from rlexp.launch.hydra_private import (
    CachingConfigLoader,
    cache_compositions,
    file_paths,
    hydra_config,
    job_overrides,
    set_output_folder,
    typed_overrides,
)
from rlexp.launch.worker import SECONDS_TO_SAVE, unwritable_file
from rlexp.record import lock
from rlexp.record.disk import remove_drafts
from rlexp.record.provenance import setting_notes
from rlexp.record.resume import RunStatus, inspect, refusal
from rlexp.runfolder.files import link_out
from rlexp.runfolder.variants import (
    IN_TURNS,
    key_of,
    run_name,
    variant_name,
)
from rlexp.sweep.build import bucket_key, memory_problem
from rlexp.sweep.job import Job, LogSettings
from rlexp.sweep.machine import device_problem

LIBRARIES = {"local": None, "slurm": "submitit", "ray": "ray"}  # of the executors
COUNTS = ("workers", "cpus", "mem_gb", "minutes")
NOT_SHARED = ("overrides", "runtime", "job")  # by the jobs of a sweep, of Hydra's node
EARLIER = {
    "finished": "finished already: skipped",
    "failed": "failed before: skipped; resume=failed trains them again",
    "resumable": "begun already: training goes on from the last checkpoint",
}
SECONDS_A_VARIANT, SECONDS_A_RUN, SECONDS_WITHOUT_A_WORD = 0.1, 0.01, 10.0  # of planning, on a laptop


class LauncherSettings:
    """Where batches are trained, how many runs a batch and a sweep have at most, and what only this executor has."""

    def __init__(self, executor: str, max_replicas: int | None, max_runs: int | None, **options: Any):
        self.executor, self.max_replicas, self.max_runs, self.options = executor, max_replicas, max_runs, options

    @classmethod
    def read(cls, config: DictConfig) -> LauncherSettings | None:
        """Return those of a composed config; None if another launcher is chosen."""
        if config.hydra.launcher is None:
            raise ConfigError(["hydra.launcher=null: a sweep needs one; hydra/launcher=basic is Hydra's own"])
        node = OmegaConf.to_container(config.hydra.launcher, resolve=True)
        return cls(**node) if node.pop("_target_").endswith(".FusedLauncher") else None

    def problem(self) -> str | None:
        """Say why batches cannot be trained like this, if so, or what has to be installed first."""
        if self.executor not in LIBRARIES:
            return f"hydra.launcher.executor={self.executor}: must be one of {', '.join(LIBRARIES)}"
        limits = ("max_replicas", self.max_replicas, "what fits memory"), ("max_runs", self.max_runs, "any number")
        for key, most, none in limits:
            if most is not None and most < 1:
                return f"hydra.launcher.{key}={most}: must be at least 1, or null for {none}"
        words = ["auto"] if self.executor == "local" else []
        for key in COUNTS:
            value = self.options.get(key)
            if value is not None and value not in words and not (isinstance(value, int) and value >= 1):
                return f"hydra.launcher.{key}={value}: must be {' or '.join([*words, 'at least 1'])}"
        library = LIBRARIES[self.executor]
        if library and not find_spec(library):
            return f"hydra/launcher={self.executor} needs {library}, which is not installed: pip install {library}"
        if self.executor == "slurm" and not shutil.which("sbatch"):
            return "hydra/launcher=slurm needs sbatch, which is not on the PATH: start the sweep on a login node"
        return None


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


def check_run(composed: DictConfig) -> None:
    """Check that a single run can start; its job is kept for ``hydra_main``."""
    loader = cache_compositions(GlobalHydra.instance().hydra)
    config = read(plain(composed))
    with hydra_config(composed):
        folder = Path(os.path.abspath(composed.hydra.run.dir))
    if problem := hydra_problem(composed, "hydra.run.dir"):
        raise ConfigError([problem])
    status = check_single(config, folder, parse.remarks(composed.hydra.overrides.task))
    loader.plan = Plan(jobs=[Job(config, folder, folder.name, variant_name(typed_overrides(composed)))])
    # Hydra writes no .hydra/ for a run that has ended and has one, or where it cannot: that is said
    set_output_folder(composed, folder)
    paths = file_paths(composed)
    keep = status.result is not None and all(map(os.path.lexists, paths))
    problem = None if keep else unwritable_file(paths)
    print_notes([problem] if problem else [])
    if keep or problem:
        with read_write(composed.hydra):
            composed.hydra.output_subdir = None


def check_single(config: Config, folder: Path, notes: Iterable[str] = ()) -> RunStatus:
    """Check that a run can start in a folder; say what there is to say, and return what the folder is."""
    if problem := machine_problem(config) or folder_problem(folder):
        raise ConfigError([problem])
    status = inspect(folder, config.model_dump(mode="json"))
    if problem := refusal(folder, config.resume, status) or metric_problem([config]):
        raise ConfigError([problem])
    acquire_lock(folder)
    print_notes([*notes, *remarks(config), *setting_notes(), *earlier_runs({folder: status})])
    return status


def check_sweep(composed: DictConfig) -> None:
    """Check that every job of a sweep can start; what was composed is kept for the sweeper and the launcher."""
    loader = cache_compositions(GlobalHydra.instance().hydra)
    folder = composed.hydra.sweep.dir  # fixes `${now:}` for all jobs, which copy what is resolved here
    launcher = LauncherSettings.read(composed)
    problem = hydra_problem(composed, "hydra.sweep.dir") or folder_problem(Path(folder).absolute())
    if problem := problem or launcher_problem(composed, launcher):
        raise ConfigError([problem])
    if halving.is_halving(composed) or search.is_search(composed):
        check_search(composed, launcher)
        return
    wanted = job_overrides(composed, launcher and launcher.max_runs)
    print_notes(planning_notes(wanted))
    loader.plan = plan = plan_jobs(loader, composed, wanted)
    jobs = plan.jobs
    overrides = [*typed_overrides(composed), *composed.hydra.overrides.hydra]
    problems = [*islice(machine_problems(jobs, launcher), 1), *comparison_problems(jobs, overrides)]
    if problems := [*problems, *islice(turn_problems(jobs, launcher is not None), 1)]:
        raise ConfigError(problems)
    for place in acquire_lock(Path(folder), [job.folder for job in jobs]):
        plan.inspect(place)
    print_notes([*parse.remarks(composed.hydra.overrides.task), *setting_notes()])
    print_notes([line for job in jobs for line in remarks(job.config)])
    if "arms" not in composed.hydra.sweeper:  # whoever chose the arms compares them
        print_notes(comparison_notes(jobs, overrides))
    print_notes(earlier_runs({job.folder: plan.statuses[job.number] for job in jobs}))


def check_search(composed: DictConfig, launcher: LauncherSettings | None) -> None:
    """Check runs of a sweep that is not known yet: of all points that are halved; at all ends of what is searched."""
    probed_jobs = (halving if halving.is_halving(composed) else search).probed_jobs
    wanted = probed_jobs(composed, launcher and launcher.max_runs)
    jobs = plan_jobs(cache_compositions(GlobalHydra.instance().hydra), composed, wanted).jobs
    if problem := metric_problem(job.config for job in jobs) or next(machine_problems(jobs, launcher), None):
        raise ConfigError([problem])
    acquire_lock(Path(composed.hydra.sweep.dir))
    print_notes([*parse.remarks(composed.hydra.overrides.task), *setting_notes()])
    print_notes([line for job in jobs for line in remarks(job.config)])


def planning_notes(wanted: Sequence[Sequence[str]]) -> Iterator[str]:
    """Say that it will be a while until all runs are composed and checked."""
    variants = len({tuple(each for each in overrides if key_of(each) != "seed") for overrides in wanted})
    seconds = SECONDS_A_VARIANT * variants + SECONDS_A_RUN * len(wanted)
    if seconds > SECONDS_WITHOUT_A_WORD:
        yield f"{len(wanted)} runs of {variants} variants are composed and checked, which takes about {seconds:.0f} s"


def acquire_lock(folder: Path, runs: Sequence[Path] = ()) -> list[int]:
    """Lock a folder until the program ends; ConfigError if another one writes there, or to one of the runs in it.

    Workers whose launcher was killed still save for a while: they are waited for. Returns the places of their runs.
    """
    try:
        lock.keep(folder)
    except (lock.Locked, lock.Unlockable) as error:
        raise ConfigError([str(error)]) from None
    end, waited = time.monotonic() + 2 * SECONDS_TO_SAVE, []
    for number, run in enumerate(runs):
        if lock.is_held(run):
            waited.append(number)
            print_notes([f"{relative(run)} is still being written by {lock.holder(run)}, which is waited for"])
        while lock.is_held(run):
            if time.monotonic() > end:
                raise ConfigError([f"{relative(run)} is being written by {lock.holder(run)}: end it, or wait for it"])
            time.sleep(lock.BETWEEN_TRIES)
    for place in (folder, starts_of(folder)):
        remove_drafts(place)
    return waited


def hydra_problem(composed: DictConfig, key: str) -> str | None:
    """Say what is wrong with Hydra's own node, if so; ``key`` names the folder of this run or sweep.

    A group has no choice, as after `~hydra/job_logging`, and would fail in a made folder; or the other folder is typed.
    """
    for group in ("job_logging", "hydra_logging", "launcher", "sweeper"):
        if OmegaConf.is_missing(composed.hydra, group):
            return f"hydra/{group}: nothing is chosen; leave it, or choose one"
    kinds = ("hydra.run.dir", "a single run", "a single run"), ("hydra.sweep.dir", "a sweep", "a sweep (-m)")
    (_, this, _), (other, _, that) = kinds if key == "hydra.run.dir" else kinds[::-1]
    for override in composed.hydra.overrides.hydra:
        name, _, value = override.partition("=")
        if name == other:
            return f"{override}: is the folder of {that}, and this is {this}; write {key}={value}"
    return None


def launcher_problem(composed: DictConfig, launcher: LauncherSettings | None) -> str | None:
    """Say why the launcher cannot run a sweep, if so; of another than this project's, which key it does not have."""
    if launcher is None:
        return foreign_key(composed.hydra.launcher)
    if isinstance(most := composed.hydra.sweeper.get("max_batch_size"), int) and most < 1:
        return f"hydra.sweeper.max_batch_size={most}: must be at least 1, or null for all"
    if most and OmegaConf.select(composed, "study.choose_first"):
        return f"hydra.sweeper.max_batch_size={most}: study {composed.study.name} chooses first, from all runs"
    for key in IN_TURNS if most else ():
        if composed[key] is not None:
            return f"hydra.sweeper.max_batch_size={most}: {key} adds seeds by itself"
    if composed.hydra.job.chdir:
        return "hydra.job.chdir=true: jobs that train in one process share its folder; take hydra/launcher=basic"
    return launcher.problem()


def foreign_key(node: DictConfig) -> str | None:
    """Name a key that a launcher is not made for: Hydra would find out when the folder of the sweep is there."""
    takes = signature(get_class(node._target_)).parameters.values()
    unknown = [key for key in node if not str(key).startswith("_") and key not in {each.name for each in takes}]
    if not unknown or any(each.kind is each.VAR_KEYWORD for each in takes):
        return None
    return f"hydra.launcher.{unknown[0]}: {node._target_.rpartition('.')[2]} has no such key"


def machine_problem(config: Config) -> str | None:
    return device_problem(config) or (memory_problem(config) if CAPABILITIES[config.backend.name].batched else None)


def machine_problems(jobs: Sequence[Job], launcher: LauncherSettings | None) -> Iterator[str]:
    """Say what jobs need that this machine does not have, if it is this one that trains them."""
    if launcher is None or launcher.executor not in ("ray", "slurm"):
        one_of_each_size = {bucket_key(job.config): job for job in reversed(jobs)}.values()
        yield from filter(None, (machine_problem(job.config) for job in one_of_each_size))


def earlier_runs(statuses: Mapping[Path, RunStatus]) -> Iterator[str]:
    """Say what becomes of runs that are in their folders already."""
    for kind, then in EARLIER.items():
        there = [folder for folder, status in statuses.items() if status.kind == kind]
        if there and len(statuses) == 1:
            yield f"the run in {relative(there[0])} was {then}"
        elif there:
            yield f"{len(there)} of {len(statuses)} runs {'was' if len(there) == 1 else 'were'} {then}"


def print_notes(lines: Iterable[str]) -> None:
    """Print each line once, on stderr."""
    for line in dict.fromkeys(lines):
        print(printable(f"note: {shortened(line, sys.argv[1:])}"), file=sys.stderr)


Loader = ConfigLoader | CachingConfigLoader


def plan_jobs(loader: Loader, master: DictConfig, overrides: Sequence[Sequence[str]], first: int = 0) -> Plan:
    """Compose and check all jobs; ConfigError with a line for each distinct problem if any cannot run."""
    plan, problems = Plan([list(each) for each in overrides]), {}
    for number, asked in enumerate(plan.asked, first):
        try:
            plan.composed[number] = compose_job(loader, master, asked, number)
            plan.jobs.append(job_of(plan.composed[number]))
        except Exception as error:
            for line in explain(error, asked).splitlines():
                problems.setdefault(line, []).append(job_label(number, asked))
    if not problems:
        problems = dict(sweep_problems(plan))
    lines = []
    for problem, jobs in problems.items():  # the first of the jobs that have it, unless all have
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        lines.append(problem if len(jobs) == len(overrides) else f"job {jobs[0]}{more}: {problem}")
    if lines:
        raise ConfigError(lines)
    return plan


def job_label(number: int, overrides: Sequence[str]) -> str:
    return f"{number} ({run_name(overrides)})"


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
        logging = {"handlers": {}} | OmegaConf.to_container(node.job_logging, resolve=True)
        logs = LogSettings(logging, plain_value(node.verbose))
    folder, overrides = Path(node.runtime.output_dir), tuple(typed_overrides(settings))
    return Job(config, folder, name, variant_name(overrides), node.job.num, overrides, starts_of(folder.parent), logs)


def checked_job(settings: DictConfig) -> Job:
    """Return the job of a composed config that trains by itself; a config that a check has read is not read again."""
    node, hydra = HydraConfig.get(), GlobalHydra.instance().hydra
    folder = Path(node.runtime.output_dir)
    checked = getattr(hydra and hydra.config_loader, "plan", None) or Plan()
    config = next((job.config for job in checked.jobs if job.folder == folder), None) or read(plain(settings))
    return Job(config, folder, folder.name, variant_name(OmegaConf.to_container(node.overrides.task, resolve=False)))


def starts_of(sweep: Path) -> Path:
    """Return where the runs of a sweep keep what they start from."""
    return sweep / "starts"


def sweep_problems(plan: Plan) -> Iterator[tuple[str, list[str]]]:
    """Say what is wrong between jobs that are each right by themselves, and for which jobs."""
    labels: dict[Path, str] = {}
    shared: dict[str, dict] = {}  # by the variant: a seed is not in Hydra's node
    for place, job in enumerate(plan.jobs):
        label = job_label(job.number, job.overrides)
        if other := labels.get(job.folder):
            yield f"would write to the folder of job {other}: {job.folder}", [label]
        if job.variant not in shared:
            node = OmegaConf.to_container(plan.composed[job.number].hydra, resolve=False)
            shared[job.variant] = {key: value for key, value in node.items() if key not in NOT_SHARED}
            shared[job.variant]["chdir"] = node["job"]["chdir"]
        if shared[job.variant] != shared[plan.jobs[0].variant]:
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
