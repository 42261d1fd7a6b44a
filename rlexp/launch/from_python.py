"""What Hydra does for the command line, for a Python that goes on afterwards.

No sys.argv, no exit, no callbacks that print, no logging set up; what Hydra keeps globally is as it was before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, RunMode, TaskFunction
from hydra.version import VersionBase
from omegaconf import DictConfig

from rlexp.config import parse, trust
from rlexp.config.conf_folder import CONF
from rlexp.core.exits import safe_stdio
from rlexp.core.hydra_compat import VERSION_BASE
from rlexp.launch.checks import check_run, check_sweep
from rlexp.launch.hooks import restore_values
from rlexp.launch.hydra_private import Callbacks, Hydra, JobRuntime, restore_overrides
from rlexp.record.lock import released_at_the_end

QUIET = ("~hydra.callbacks.rlexp", "hydra/hydra_logging=none", "hydra/job_logging=none")


def run_sweep(overrides: Sequence[str], task_function: TaskFunction) -> Path:
    """Train what `rlexp -m <overrides>` trains; return the sweep's folder. Whatever is wrong is raised."""
    with own_hydra() as hydra:
        config = compose_master(hydra, overrides, RunMode.MULTIRUN)
        check_sweep(config)
        context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(config))
        sweeper = Plugins.instance().instantiate_sweeper(
            config=config, hydra_context=context, task_function=task_function
        )
        sweeper.sweep(arguments=list(config.hydra.overrides.task))
        return Path(config.hydra.sweep.dir)


def run_single(overrides: Sequence[str], task_function: TaskFunction) -> Path:
    """Train what `rlexp <overrides>` trains; return the run's folder. Whatever is wrong is raised."""
    with own_hydra() as hydra:
        config = compose_master(hydra, overrides, RunMode.RUN)
        check_run(config)
        folder = Path(config.hydra.run.dir)
        again = [*overrides, f"hydra.run.dir={folder}"]  # its name holds the time
        again += [] if config.hydra.output_subdir else ["hydra.output_subdir=null"]
        hydra.run("config", task_function, for_hydra(again, RunMode.RUN), with_log_configuration=False)
        return folder


def compose_master(hydra: Hydra, overrides: Sequence[str], mode: RunMode) -> DictConfig:
    """Return what Hydra composes of overrides that it reads as those of the command line."""
    config = hydra.compose_config("config", for_hydra(overrides, mode), run_mode=mode, with_log_configuration=False)
    config.hydra.mode = mode
    restore_overrides(config)
    restore_values(config)
    return config


def for_hydra(overrides: Sequence[str], mode: RunMode) -> list[str]:
    """Return overrides as Hydra reads them; ConfigError for mistakes, and for untrusted code."""
    option = ["-m"] if mode is RunMode.MULTIRUN else []
    overrides, trusted = trust.split_option(overrides)
    parse.check([*option, *overrides])
    if not trusted:
        trust.check_folders(overrides)
    return [*parse.for_hydra([*option, *overrides])[len(option) :], *QUIET]


@contextmanager
def own_hydra() -> Iterator[Hydra]:
    """Context with a Hydra of its own; the one of a program around it, and the settings of torch, are put back."""
    outer, node = GlobalHydra.instance().hydra, HydraConfig.instance().cfg
    base, name = VersionBase.instance().version_base, JobRuntime.instance().get("name")
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), **VERSION_BASE), released_at_the_end(), safe_stdio():
            yield GlobalHydra.instance().hydra
    finally:
        GlobalHydra.instance().hydra, HydraConfig.instance().cfg = outer, node
        VersionBase.instance().version_base = base
        JobRuntime.instance().set("name", name)
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
