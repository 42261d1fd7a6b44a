"""The launcher's registration. Every Hydra program of the environment imports this file: nothing heavy here.

Hydra runs it without entering it in `sys.modules`, where dataclasses would look up annotations that are strings.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class FusedConf:
    """`hydra.launcher.max_replicas`: most runs that are trained as one batch; null for no limit."""

    _target_: str = "hydra_plugins.rlexp_launcher.fused.FusedLauncher"
    max_replicas: int | None = None


ConfigStore.instance().store(group="hydra/launcher", name="fused", node=FusedConf, provider="rlexp")


class FusedLauncher(Launcher):
    """Trains all jobs of a sweep whose tensors have equal shapes as one batch."""

    def __init__(self, max_replicas: int | None = None):
        self.max_replicas = max_replicas
        self.rows: list[dict] = []

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what ``launch`` needs."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Train the jobs; one JobReturn each, in order."""
        from hydra_plugins.rlexp_launcher import _core

        return _core.launch(self, job_overrides, initial_job_idx)
