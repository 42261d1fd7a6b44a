"""A sweeper for designs that are no product of axes: `hydra/sweeper=arms`. Every Hydra program imports this file."""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class ArmsConf:
    """`hydra/sweeper=arms`: overrides of each arm, as `hydra.sweeper.arms='["default","clip=higher,agg=token"]'`."""

    _target_: str = "hydra_plugins.rlexp_launcher.arms.ArmSweeper"
    max_batch_size: int | None = None
    params: dict[str, str] | None = None
    arms: list[str] = field(default_factory=list)


ConfigStore.instance().store(group="hydra/sweeper", name="arms", node=ArmsConf, provider="rlexp")


class ArmSweeper(Sweeper):
    """Trains each arm with each combination of the other overrides, as Hydra's basic sweeper makes them."""

    def __init__(self, **settings: Any):
        """Keep nothing: in ``settings`` an arm's `${…}` has a value already."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Make the sweeper that does the work; it is heavy."""
        from rlexp.launch.hydra_private import basic_sweeper, sweeper_settings

        self.sweeper = basic_sweeper(**sweeper_settings(config))
        self.sweeper.setup(hydra_context=hydra_context, task_function=task_function, config=config)

    def sweep(self, arguments: list[str]) -> Any:
        """Train all jobs."""
        return self.sweeper.sweep(arguments)
