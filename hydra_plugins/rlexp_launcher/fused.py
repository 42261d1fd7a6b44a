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
class FusedConf:
    """`hydra/launcher=fused`: batches one after another, in this process."""

    _target_: str = "hydra_plugins.rlexp_launcher.fused.FusedLauncher"
    max_replicas: int | None = None  # most runs that are trained as one batch; null for what fits memory
    executor: str = "inline"


@dataclass
class ProcessesConf(FusedConf):
    """`hydra/launcher=processes`: batches side by side, in processes of this machine."""

    executor: str = "processes"
    workers: int | None = None  # processes at a time; null for one a core


@dataclass
class RayConf(FusedConf):
    """`hydra/launcher=ray`: batches as tasks of a Ray cluster."""

    executor: str = "ray"
    address: str | None = None  # of a cluster; null starts one on this machine, for this sweep
    workers: int | None = None  # tasks at a time; null for as many as the cluster has room for
    cpus: int = 1  # of a task


@dataclass
class SlurmConf(FusedConf):
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

    def __init__(self, max_replicas: int | None = None, executor: str = "inline", **knobs: Any):
        self.max_replicas, self.executor, self.knobs = max_replicas, executor, knobs
        self.rows: list[dict] = []

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what ``launch`` needs."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Train the jobs; one JobReturn each, in order."""
        from hydra_plugins.rlexp_launcher import _core

        return _core.launch(self, job_overrides, initial_job_idx)
