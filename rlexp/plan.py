"""From the overrides of jobs to jobs that can start: composed, checked, each with a folder of its own."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hydra._internal.config_loader_impl import get_overrides_dirname
from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf, open_dict

from rlexp.compose import plain
from rlexp.config import Config, read
from rlexp.errors import ConfigError
from rlexp.executors import executor_problem
from rlexp.explain import explain
from rlexp.naming import run_name, variant_name
from rlexp.resume import refusal

NOT_SHARED = ("overrides", "runtime", "job")
SEED = re.compile(r"^seed=\d+$")


@dataclass(frozen=True)
class Planned:
    """A job that can start; ``settings`` is what Hydra composed, its own node included."""

    number: int
    overrides: tuple[str, ...]
    settings: DictConfig
    config: Config
    folder: Path
    name: str

    @property
    def variant(self) -> str:
        """The overrides without the seed."""
        return variant_name(self.overrides)


class Remembering:
    """A config loader that composes each variant once: Hydra takes 90 ms, and check, sweeper and launcher all ask.

    Another seed is a copy with the seed replaced: it is a value, and values do not decide which files are composed.
    """

    def __init__(self, loader: ConfigLoader):
        self.loader, self.jobs, self.variants = loader, {}, {}

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """Return the job's config; the same object each time."""
        job, variant = tuple(sweep_overrides), tuple(SEED.sub("seed=", override) for override in sweep_overrides)
        if job not in self.jobs and variant in self.variants:
            self.jobs[job] = reseeded(self.variants[variant], job)
        elif job not in self.jobs:
            self.jobs[job] = self.loader.load_sweep_config(master_config, sweep_overrides)
            self.variants[variant] = copy.deepcopy(self.jobs[job])
        return self.jobs[job]

    def __getattr__(self, name: str):
        return getattr(self.loader, name)


def reseeded(settings: DictConfig, overrides: Sequence[str]) -> DictConfig:
    """Return a copy of a composed config for overrides that differ from its own in the number of the seed only."""
    settings = copy.deepcopy(settings)
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    settings.hydra.overrides.task = list(overrides)
    settings.hydra.job.override_dirname = get_overrides_dirname(parsed, **settings.hydra.job.config.override_dirname)
    settings.seed = next(int(override.partition("=")[2]) for override in overrides if SEED.match(override))
    return settings


Loader = ConfigLoader | Remembering


def plan(loader: Loader, master: DictConfig, batch: Sequence[Sequence[str]], first: int = 0) -> list[Planned]:
    """Compose and check all jobs; ConfigError with a line for each distinct problem if any cannot run."""
    planned, problems = [], {}
    for number, overrides in enumerate(batch, first):
        try:
            planned.append(plan_job(loader, master, list(overrides), number))
        except Exception as error:
            for line in explain(error, overrides).splitlines():
                problems.setdefault(line, []).append(label_of(number, overrides))
    if not problems:
        problems = dict(sweep_problems(planned))
    if problems:
        raise ConfigError([f"job {jobs[0]}{also(jobs)}: {problem}" for problem, jobs in problems.items()])
    return planned


def label_of(number: int, overrides: Sequence[str]) -> str:
    """Return what a job is called in an error."""
    return f"{number} ({run_name(overrides)})"


def also(jobs: Sequence[str]) -> str:
    """Say how many further jobs have the same problem."""
    return f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""


def plan_job(loader: Loader, master: DictConfig, overrides: list[str], number: int) -> Planned:
    """Compose and check one job of a sweep."""
    settings = loader.load_sweep_config(master, overrides)
    with open_dict(settings):
        settings.hydra.job.id = settings.hydra.job.num = number
    config = read(plain(settings))
    with hydra_config(settings):
        sweep, name = Path(settings.hydra.sweep.dir), settings.hydra.sweep.subdir
    folder = Path(os.path.abspath(sweep / name))
    return Planned(number, tuple(settings.hydra.overrides.task), settings, config, folder, str(name))


def sweep_problems(planned: Sequence[Planned]) -> Iterator[tuple[str, list[str]]]:
    """Say what is wrong between jobs that are each right by themselves, and for which jobs."""
    folders: dict[Path, str] = {}
    for job in planned:
        label = label_of(job.number, job.overrides)
        if other := folders.get(job.folder):
            yield f"would write to the folder of job {other}: {job.folder}", [label]
        if shared(job) != shared(planned[0]):
            yield "differs in its hydra node from the first job; a sweep has one launcher, folder and logging", [label]
        folders[job.folder] = label
        if problem := folder_problem(job.folder) or refusal(job.config, job.folder):
            yield problem, [label]


def folder_problem(folder: Path) -> str | None:
    """Say why a run cannot be written to ``folder``, if so."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not existing.is_dir():
        return f"cannot write to {folder}: {existing} is not a folder"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"cannot write to {folder}: no permission in {existing}"
    return None


def shared(job: Planned) -> dict:
    """Return what all jobs of a sweep must have in common of Hydra's node."""
    node = OmegaConf.to_container(job.settings.hydra, resolve=False)
    return {key: value for key, value in node.items() if key not in NOT_SHARED} | {"chdir": node["job"]["chdir"]}


def launcher_problem(settings: DictConfig) -> str | None:
    """Say why the fused launcher cannot run a sweep, if it is chosen and cannot."""
    launcher = settings.hydra.launcher
    if not launcher._target_.endswith(".FusedLauncher"):
        return None
    if settings.hydra.job.chdir:
        return "hydra.job.chdir=true: jobs that train in one process share its folder; take hydra/launcher=basic"
    return executor_problem(OmegaConf.to_container(launcher, resolve=True))


@contextmanager
def hydra_config(settings: DictConfig) -> Iterator[None]:
    """Let ``${hydra:...}`` mean these settings; they can be changed again afterwards."""
    singleton = HydraConfig.instance()
    before = singleton.cfg
    try:
        singleton.set_config(settings)
        yield
    finally:
        singleton.cfg = before
        OmegaConf.set_readonly(settings.hydra, None)
