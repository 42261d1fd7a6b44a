"""A sweeper that halves a grid: `hydra/sweeper=halving`. Every Hydra program imports this file."""

from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class HalvingConf:
    """`hydra/sweeper=halving`: all points of a grid get few seeds (or steps), the best of them more, and so on."""

    _target_: str = "hydra_plugins.rlexp_launcher.halving.HalvingSweeper"
    params: dict[str, str] | None = None
    resource: str = "seed"  # what a later rung has more of: seed, steps or completions
    factor: int = 3  # one in so many goes on, with so many times as much
    min_resources: int | None = None  # of the first rung; null for as little as leaves fewer than `factor` points
    tune: Any = None  # the key that is halved within each arm, or a list of them; the other keys make the arms
    points: int = 9  # values of an interval, as lr=tag(log,interval(1e-3,1))


ConfigStore.instance().store(group="hydra/sweeper", name="halving", node=HalvingConf, provider="rlexp")


class HalvingSweeper(Sweeper):
    """Trains a grid rung by rung, and of each rung lets the best go on."""

    def __init__(self, **settings: Any):
        self.settings = settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Read the grid and its rungs."""
        from rlexp.launch.halving import Halving

        self.halving, self.started_by = Halving(config), (hydra_context, task_function)

    def sweep(self, arguments: list[str]) -> Any:
        """Train all rungs; the arguments stand in the config, as they were typed."""
        return self.halving.run(*self.started_by)
