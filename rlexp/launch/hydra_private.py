"""All that this project uses of Hydra's insides, read in 1.3.8 and 1.4.0rc3. Only instances are changed, no class.

Hydra's ``run_job`` does everything for one job in one go: it sets the global HydraConfig, makes the folder, writes
``.hydra/``, sets environment variables, calls the callbacks and the task. Jobs that train together need its halves
before and after the task, each for all of them; they are here.
"""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from hydra._internal.callbacks import Callbacks
from hydra._internal.hydra import Hydra
from hydra._internal.utils import get_args_parser
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobReturn, JobRuntime, JobStatus, configure_log, env_override, setup_globals
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext
from omegaconf import Container, DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from rlexp.config.choices import GROUPS
from rlexp.config.fast import copy_tree, masked_copy, read_once
from rlexp.config.parse import MAX_RUNS, as_typed, check_size, quote_numbers
from rlexp.core.errors import ConfigError
from rlexp.runfolder.files import to_yaml
from rlexp.runfolder.variants import key_of, split_overrides

__all__ = ["Callbacks", "Hydra", "JobRuntime", "env_override", "setup_globals"]

NUMBER = re.compile(r"^(?!hydra\.)\w+(\.\w+)*=[-+.\deE]+$")


@contextmanager
def hydra_config(settings: DictConfig) -> Iterator[None]:
    """Let ``${hydra:...}`` mean these settings; they can be changed again afterwards.

    As ``run_job`` does with the global HydraConfig, which also makes its node read-only; without the copy that
    ``HydraConfig.set_config`` makes of the node, which takes longer than the rest of a job's plan.
    """
    singleton = HydraConfig.instance()
    before = singleton.cfg
    try:
        OmegaConf.set_readonly(settings.hydra, True)
        singleton.cfg = settings
        yield
    finally:
        singleton.cfg = before
        OmegaConf.set_readonly(settings.hydra, None)


def configure_logging(config: Mapping[str, Any], verbose: Any) -> None:
    """Configure logging as ``hydra_logging`` and ``job_logging`` are written; plain values will do."""
    config = config if isinstance(config, DictConfig) else OmegaConf.create(dict(config))
    configure_log(config, OmegaConf.create({"verbose": verbose}).verbose)


def check_options(arguments: Sequence[str]) -> Namespace:
    """Return what Hydra reads; ConfigError for unknown options, for which its parser would print a page of usage."""
    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        raise ConfigError([f"{message} (rlexp --help, rlexp --hydra-help)"])

    parser.error = refuse
    chosen = parser.parse_args(list(arguments))
    if chosen.package and not chosen.cfg:
        refuse(f"--package {chosen.package}: is of --cfg, and would be ignored without it")
    return chosen


def typed_overrides(settings: DictConfig) -> list[str]:
    """Return the overrides of the task as texts: one that holds ``${...}`` is not worked out, which may fail."""
    return OmegaConf.to_container(settings.hydra.overrides.task, resolve=False)


class FailedJob(JobReturn):
    """A failed job, worth nan: reading the value of Hydra's own raises and would end the sweep before later batches."""

    @property
    def return_value(self) -> float:
        """Not a number; ``error_of`` has the exception."""
        return float("nan")


def error_of(job_return: JobReturn) -> Exception | None:
    """Return the exception of a failed job, which its public ``return_value`` would raise; None if it completed."""
    return job_return._return_value if job_return.status is JobStatus.FAILED else None


def begin_job(settings: DictConfig) -> tuple[JobReturn, dict[Path, str]]:
    """Return what ``run_job`` knows before the task, of settings with an output folder, and the files that it writes.

    These are path -> text; none if ``hydra.output_subdir`` is null.
    """
    with hydra_config(settings):
        own_node = masked_copy(settings, ["hydra"])
    job_return = JobReturn(
        overrides=list(settings.hydra.overrides.task),
        cfg=masked_copy(settings, [key for key in settings if key != "hydra"]),
        hydra_cfg=own_node,
        working_dir=os.getcwd(),
        task_name=JobRuntime.instance().get("name"),
    )
    nodes = (job_return.cfg, own_node, settings.hydra.overrides.task)
    return job_return, dict(zip(file_paths(settings), map(as_yaml, nodes), strict=False))


def as_yaml(node: Container) -> str:
    """Return what reads as the text of ``OmegaConf.to_yaml``, which takes longer."""
    return to_yaml(OmegaConf.to_container(node, enum_to_str=True))


def end_job(settings: DictConfig, job_return: JobReturn, result: float | Exception, callbacks: Callbacks) -> JobReturn:
    """Record a result and call the callbacks for the end of a job, as ``run_job`` does after the task."""
    failed = isinstance(result, Exception)
    job_return.status = JobStatus.FAILED if failed else JobStatus.COMPLETED
    job_return._return_value = result
    with hydra_config(settings):
        callbacks.on_job_end(config=settings, job_return=job_return)
    return FailedJob(**vars(job_return)) if failed else job_return


def file_paths(settings: DictConfig) -> list[Path]:
    """Return where Hydra writes the config, its own node and the overrides of a job; nothing where it is not to."""
    node = settings.hydra
    names = ("config.yaml", "hydra.yaml", "overrides.yaml") if node.output_subdir is not None else ()
    return [Path(node.runtime.output_dir, node.output_subdir, name) for name in names]


def set_output_folder(settings: DictConfig, folder: Path) -> None:
    """Let ``${hydra.runtime.output_dir}`` be known before the folder exists, as log files are named with it."""
    with read_write(settings.hydra.runtime), open_dict(settings.hydra.runtime):
        settings.hydra.runtime.output_dir = str(folder)


def set_overrides(settings: DictConfig, overrides: Sequence[str]) -> None:
    """Replace the texts of overrides in a composed config, and what Hydra derived of them."""
    parsed = [parse_override(override) for override in overrides]
    with read_write(settings.hydra):
        settings.hydra.overrides.task = list(overrides)
        if not OmegaConf.is_interpolation(settings.hydra.job, "override_dirname"):  # which 1.4 works out when asked
            how = settings.hydra.job.config.override_dirname
            lines = sorted(override.input_line for override in parsed if override.key_or_group not in how.exclude_keys)
            settings.hydra.job.override_dirname = how.item_sep.join(lines).replace("=", how.kv_sep)


@cache
def parse_override(override: str) -> Override:
    """Return what Hydra reads in one override; the jobs of a sweep share most of theirs."""
    return OverridesParser.create().parse_override(override)


def restore_overrides(settings: DictConfig) -> None:
    """Let a composed config hold the overrides as they were typed."""
    read = typed_overrides(settings)
    if (typed := as_typed(read)) != read:
        set_overrides(settings, typed)


def numbers_apart(overrides: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the overrides that decide what is composed, and those after it that give a key a number, as `lr=1e-3`.

    Hydra, too, sets values after all files, in the order of the overrides. None are set apart where that order matters:
    where another override is of the same node.
    """
    numbers = [each for each in overrides if NUMBER.match(each) and key_of(each) not in GROUPS]
    others = tuple(each for each in overrides if each not in numbers)
    nodes = {key_of(each) for each in others if key_of(each) not in GROUPS or each[0] in "+~"}
    below = [f"{key_of(number)}." for number in numbers]
    same = any(node.startswith(number) or number.startswith(f"{node}.") for node in nodes for number in below)
    return (tuple(overrides), []) if same else (others, numbers)


def set_numbers(settings: DictConfig, numbers: Sequence[str]) -> DictConfig:
    """Return a copy of a composed config with the numbers, as Hydra sets them; ConfigAttributeError for no such key."""
    settings = copy_tree(settings)
    for number in numbers:
        OmegaConf.update(settings, key_of(number), parse_override(number).value(), merge=True)
    return settings


class CachingConfigLoader:
    """A config loader that composes each variant once: Hydra takes 90 ms, and check, sweeper and launcher all ask.

    Another seed, learning rate or bound is a copy with the number replaced. ``plan`` is what the check has planned for
    the launcher.
    """

    def __init__(self, loader: ConfigLoader):
        self.loader, self.jobs, self.variants, self.plan = loader, {}, {}, None
        for source in loader.repository.get_sources():
            read_once(source)

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """Return the job's config; the same object each time."""
        job = tuple(sweep_overrides)
        if job not in self.jobs:
            variant, numbers = numbers_apart(job)
            if variant not in self.variants:
                self.variants[variant] = self.loader.load_sweep_config(master_config, quote_numbers(variant))
            try:
                settings = set_numbers(self.variants[variant], numbers)
            except OmegaConfBaseException:  # which Hydra tells in a line
                settings = self.loader.load_sweep_config(master_config, quote_numbers(job))
            set_overrides(settings, as_typed(job))
            self.jobs[job] = settings
        return self.jobs[job]

    def __getattr__(self, name: str):
        return getattr(self.loader, name)


def cache_compositions(hydra: Hydra | HydraContext) -> CachingConfigLoader:
    """Give Hydra, or the context of sweeper and launcher where nothing was checked, a caching loader; return it."""
    if not isinstance(hydra.config_loader, CachingConfigLoader):
        hydra.config_loader = CachingConfigLoader(hydra.config_loader)
    return hydra.config_loader


def job_overrides(config: DictConfig, most: int | None) -> list[list[str]]:
    """Return the overrides of each job that Hydra's basic sweeper or that of arms will start; none of another sweeper.

    That sweeper composes and starts in one go; the checks before anything is written need the list alone. ConfigError
    if it would have more than ``most``.
    """
    if not config.hydra.sweeper._target_.endswith((".BasicSweeper", ".ArmSweeper")):
        return []
    sweeper = basic_sweeper(**(settings := sweeper_settings(config)))
    arguments = [*sweeper._parse_config(), *typed_overrides(config)]
    overrides = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader()).parse_overrides(arguments)
    check_size(overrides, most)
    jobs = [job for batch in sweeper.split_arguments(overrides, sweeper.max_batch_size) for job in batch]
    if not jobs:
        sweeps = [override for override in overrides if override.is_sweep_override()]
        empty = [sweep.input_line for sweep in sweeps if not [*sweep.sweep_iterator()]]
        raise ValueError(f"{' '.join(empty)}: a sweep over nothing")
    if most is not None and len(jobs) > most:
        arms = f"hydra.sweeper.arms: {len(settings['arms'])} arms make {len(jobs)} runs, more than {most}"
        raise ConfigError([f"{arms}; if they are meant, write {MAX_RUNS}={len(jobs)}"])
    return jobs


def sweeper_settings(config: DictConfig) -> dict[str, Any]:
    """Return what a sweeper is made with. `${start.seed}` in an arm stays: it is that of each run."""
    settings, written = (OmegaConf.to_container(config.hydra.sweeper, resolve=each) for each in (True, False))
    own = {key: written[key] for key in ("arms",) if key in written}
    return {key: value for key, value in settings.items() if key != "_target_"} | own


def basic_sweeper(arms: Sequence[str] | None = None, **settings: Any) -> Sweeper:
    """Return Hydra's basic sweeper; with arms it trains each of them with each combination of the other overrides.

    An arm is its overrides, joined by commas; what it names is not swept for it. ConfigError if there are no arms.
    """
    # Not earlier: Hydra runs the files of its plugins anew when it looks for them, and then this is another class.
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    sweeper = BasicSweeper(**settings)
    if arms is None:
        return sweeper
    if not arms:
        raise ConfigError(['hydra.sweeper.arms: there are none; name them, as \'["default","clip=higher"]\''])
    combine = sweeper.split_arguments

    def split_arguments(overrides: list[Override], max_batch_size: int | None) -> list[list[list[str]]]:
        (combinations,) = combine(overrides, None)
        jobs = []
        for arm in map(split_overrides, arms):
            own = {key_of(override) for override in arm}  # of these keys the arm's values count
            left = dict.fromkeys(tuple(each for each in one if key_of(each) not in own) for one in combinations)
            jobs += [[*combination, *arm] for combination in left]
        return list(sweeper.split_overrides_to_chunks(jobs, max_batch_size))

    sweeper.split_arguments = split_arguments
    return sweeper
