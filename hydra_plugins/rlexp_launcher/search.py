"""A sweeper that searches with Optuna: `hydra/sweeper=search`. Every Hydra program imports this file."""

from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class SearchConf:
    """`hydra/sweeper=search`: what is swept is searched; each trial is trained with all seeds."""

    _target_: str = "hydra_plugins.rlexp_launcher.search.SearchSweeper"
    params: dict[str, str] | None = None
    trials: int = 32  # in all, also when the command goes on in the folder that it has
    batch: int = 8  # trials that train together
    sampler: str = "tpe"  # what asks for the next trials: tpe, gp or random, of Optuna
    sampler_seed: int = 0


ConfigStore.instance().store(group="hydra/sweeper", name="search", node=SearchConf, provider="rlexp")


class SearchSweeper(Sweeper):
    """Asks Optuna for trials, trains them in batches, and tells it the mean score over the seeds."""

    def __init__(self, **settings: Any):
        self.settings = settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Make the search; it is heavy."""
        from hydra.core.plugins import Plugins

        from rlexp.launch.search import Search

        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self.search = Search(config, launcher)

    def sweep(self, arguments: list[str]) -> Any:
        """Train all trials."""
        return self.search.run(arguments)
