"""The launcher's registration. Every Hydra program of the environment imports this file: nothing heavy here.

Hydra runs it without entering it in `sys.modules`, where dataclasses would look up annotations that are strings.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class BatchesConf:
    """What all launchers share."""

    _target_: str = "hydra_plugins.rlexp_launcher.fused.FusedLauncher"
    max_replicas: int | None = None  # most runs that are trained as one batch; null for what fits memory
    max_runs: int | None = 10_000  # most runs of a sweep, more are taken for a mistake; null for any number


@dataclass
class FusedConf(BatchesConf):
    """`hydra/launcher=fused`: one batch in this process, or several in as many processes as have enough to do."""

    executor: str = "local"
    workers: Any = "auto"  # processes at a time; auto for as many as have enough to do


@dataclass
class ProcessesConf(FusedConf):
    """`hydra/launcher=processes`: the same, with a process on every core."""

    workers: Any = None  # null for one a core


@dataclass
class RayConf(BatchesConf):
    """`hydra/launcher=ray`: batches as tasks of a Ray cluster."""

    executor: str = "ray"
    address: str | None = None  # of a cluster; null starts one on this machine, for this sweep
    workers: int | None = None  # tasks at a time; null for as many as the cluster has room for
    cpus: int = 1  # of a task


@dataclass
class SlurmConf(BatchesConf):
    """`hydra/launcher=slurm`: batches as jobs of a SLURM cluster that shares the sweep's folder."""

    executor: str = "slurm"
    workers: int = 2  # jobs at a time
    partition: str | None = None  # null for the cluster's default
    cpus: int = 1  # of a job, as the next three
    mem_gb: int = 4
    minutes: int = 60
    options: dict[str, Any] = field(default_factory=dict)  # further ones of sbatch, as +hydra.launcher.options.qos=long


for name, node in {"fused": FusedConf, "processes": ProcessesConf, "ray": RayConf, "slurm": SlurmConf}.items():
    ConfigStore.instance().store(group="hydra/launcher", name=name, node=node, provider="rlexp")


class FusedLauncher(Launcher):
    """Trains all jobs of a sweep whose tensors have equal shapes as one batch, or as one for each worker."""

    def __init__(self, **settings: Any):
        self.settings = settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Make the launcher that does the work; it is heavy."""
        from rlexp.launch.checks import LauncherSettings
        from rlexp.launch.launcher import SweepLauncher

        settings = LauncherSettings(**self.settings)
        self.launcher = SweepLauncher(settings, hydra_context, task_function, config)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Train the jobs; one JobReturn each, in order."""
        return self.launcher.launch(job_overrides, initial_job_idx)
