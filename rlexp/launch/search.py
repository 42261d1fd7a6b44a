"""Search: Optuna asks for trials, the launcher trains a batch of them over the same seeds, Optuna is told their means.

By Optuna's ask-and-tell interface: https://optuna.readthedocs.io/en/stable/tutorial/20_recipes/009_ask_and_tell.html.
Hydra's own plugin trains one run a trial, and takes seeds for something to search; its release for Hydra 1.3 needs
Optuna 2.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf

from rlexp.config.parse import MAX_RUNS
from rlexp.core.errors import ConfigError
from rlexp.core.exits import describe_error, relative
from rlexp.launch.hydra_private import error_of
from rlexp.runfolder.files import MULTIRUN_FILE, SEARCH_FILE
from rlexp.runfolder.variants import IN_TURNS, number, result_overrides

LOG = logging.getLogger(__name__)
NAME = "rlexp"  # of the search, in its file
SAMPLERS = {"tpe": "TPESampler", "gp": "GPSampler", "random": "RandomSampler"}
DIGITS = 4  # of a number that is searched: shorter names, and no score tells finer ones apart
MOST_PROBES = 64  # combinations that are composed before training


@dataclass(frozen=True)
class Space:
    """What a search varies, and over which seeds each trial is trained."""

    fixed: dict[str, str] = field(default_factory=dict)
    """Overrides that all runs share, by their key."""
    searched: dict[str, Any] = field(default_factory=dict)
    """Optuna's distributions by key."""
    seeds: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    """All keys but the seed, as they were typed."""

    def overrides(self, values: Mapping[str, Any]) -> list[str]:
        """Return the overrides of a trial, without the seed."""
        return [self.fixed[key] if key in self.fixed else f"{key}={text(values[key])}" for key in self.order]

    def runs(self, trial: Sequence[str]) -> list[list[str]]:
        """Return the overrides of each run of a trial."""
        return [[*trial, f"seed={seed}"] for seed in self.seeds]

    def probes(self) -> list[dict[str, Any]]:
        """Return trials with every choice and both ends of every interval: all combinations, if these are few."""
        ends = {key: getattr(each, "choices", None) or (each.low, each.high) for key, each in self.searched.items()}
        if math.prod(map(len, ends.values())) <= MOST_PROBES:
            return [dict(zip(ends, values, strict=True)) for values in product(*ends.values())]
        longest = max(map(len, ends.values()))
        return [{key: values[place % len(values)] for key, values in ends.items()} for place in range(longest)]

    def described(self) -> dict[str, Any]:
        """Return what must be the same for a search to go on."""
        from optuna.distributions import distribution_to_json

        return {
            "fixed": result_overrides(self.fixed.values()),
            "searched": {key: distribution_to_json(each) for key, each in self.searched.items()},
            "seeds": self.seeds,
        }


def text(value: Any) -> str:
    """A searched value as in an override: 0.00123456 is 0.001235."""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


def same(one: str, another: str) -> bool:
    """Whether two values of an override are the same: 1e-3 is 0.001, and true is True."""
    return one.lower() == another.lower() or number(one) is not None and number(one) == number(another)


def is_search(config: DictConfig) -> bool:
    """Whether a composed config's sweeper is this one."""
    return str(config.hydra.sweeper.get("_target_", "")).endswith(".SearchSweeper")


def read_space(config: DictConfig, arguments: Sequence[str]) -> Space:
    """Read what is searched from the overrides; ConfigError if nothing is, or if Optuna cannot search it."""
    params = OmegaConf.to_container(config.hydra.sweeper, resolve=True)["params"] or {}
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    written = parser.parse_overrides([*(f"{key}={value}" for key, value in params.items()), *arguments])
    space = Space()
    for key, override in {each.get_key_element(): each for each in written}.items():
        if key == "seed":
            space.seeds.extend(seeds_of(override))
            continue
        space.order.append(key)
        found = distribution(override) if override.is_sweep_override() else None
        if found is not None and not found.single():
            space.searched[key] = found
        elif found is not None:
            space.fixed[key] = f"{key}={text(getattr(found, 'choices', [getattr(found, 'low', None)])[0])}"
        elif override.is_delete():
            space.fixed[key] = override.input_line
        else:
            space.fixed[key] = f"{key}={override.get_value_element_as_str()}"
    if not space.seeds:
        raise ConfigError(["hydra/sweeper=search: there are no seeds; list them, as seed=range(0,5)"])
    if not space.searched:
        raise ConfigError(
            ["hydra/sweeper=search: nothing is searched; name values, or as lr='tag(log,interval(1e-4,1e-2))'"]
        )
    return space


def seeds_of(override: Override) -> list[str]:
    if override.is_sweep_override() and not override.is_discrete_sweep():
        raise ConfigError([f"{override.input_line}: seeds are listed, as seed=range(0,5); each trial has all of them"])
    return list(override.sweep_string_iterator()) if override.is_sweep_override() else [str(override.value())]


def distribution(override: Override) -> Any:
    """Return Optuna's distribution of what Hydra reads in a sweep; ConfigError if it has none."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    value = override.value()
    try:
        if isinstance(value, IntervalSweep):
            whole = isinstance(value.start, int) and isinstance(value.end, int)
            kind = IntDistribution if whole else FloatDistribution
            return kind(value.start, value.end, log="log" in value.tags)
        values = list(override.sweep_iterator())
        if isinstance(value, RangeSweep) and values and all(isinstance(each, int) for each in values):
            return IntDistribution(min(values), max(values), step=abs(int(value.step)))
        return CategoricalDistribution(list(override.sweep_string_iterator()))
    except ValueError as error:
        raise ConfigError([f"{override.input_line}: {error}"]) from None


def probed_jobs(config: DictConfig, most: int | None) -> list[list[str]]:
    """Check the settings of a search and the one that its folder holds; return jobs that are to be composed beforehand.

    Args:
        config: the sweep's, as Hydra composed it.
        most: runs that the launcher takes for no mistake; None for any number.

    Returns:
        The overrides of one run for each of ``Space.probes``.

    Raises:
        ConfigError: the search cannot be made, or the folder holds another one.
    """
    settings = config.hydra.sweeper
    if not find_spec("optuna"):
        raise ConfigError(["hydra/sweeper=search needs optuna, which is not installed: pip install optuna"])
    for key in ("trials", "batch"):
        if not (isinstance(settings[key], int) and settings[key] >= 1):
            raise ConfigError([f"hydra.sweeper.{key}={settings[key]}: must be at least 1"])
    if settings.sampler not in SAMPLERS:
        raise ConfigError([f"hydra.sweeper.sampler={settings.sampler}: must be one of {', '.join(SAMPLERS)}"])
    for key in (*IN_TURNS, "baseline", "study"):
        if config.get(key) is not None:
            raise ConfigError(
                [f"{key}: is of a sweep whose arms are known beforehand; hydra/sweeper=search finds its own"]
            )
    space = read_space(config, OmegaConf.to_container(config.hydra.overrides.task, resolve=False))
    if most is not None and (runs := settings.trials * len(space.seeds)) > most:
        line = f"{settings.trials} trials of {len(space.seeds)} seeds make {runs} runs, more than {most}"
        raise ConfigError([f"{line}; if they are meant, write {MAX_RUNS}={runs}"])
    storage = Path(config.hydra.sweep.dir) / SEARCH_FILE
    if storage.exists():
        open_study(storage, settings, space)
    return [space.runs(space.overrides(values))[0] for values in space.probes()]


def open_study(storage: Path, settings: DictConfig, space: Space) -> Any:
    """Return Optuna's study in a file, made if it is not there; ConfigError if that is of another search."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        made = optuna.create_study(
            storage=f"sqlite:///{storage.absolute()}",
            study_name=NAME,
            direction="maximize",
            load_if_exists=True,
        )
    except Exception as error:  # of SQLAlchemy, SQLite and Optuna
        line = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError([f"{relative(storage)} cannot be opened as Optuna's: {line}"]) from None
    described = space.described()
    before = made.user_attrs.get("search")
    if before is None:
        made.set_user_attr("search", described)
    elif before != described:
        other = ", ".join(key for key in described if before.get(key) != described[key])
        raise ConfigError([f"{relative(storage)} holds a search that differs ({other}): take another hydra.sweep.dir"])
    return made


class Search:
    """One search: the trials of the file, if it holds some, and then those that Optuna asks for."""

    def __init__(self, config: DictConfig, launcher: Launcher):
        self.config, self.settings, self.launcher = config, config.hydra.sweeper, launcher
        self.started = 0  # jobs
        self.scores: dict[tuple[str, ...], list[float] | Exception] = {}  # of the runs of a trial, by its overrides

    def run(self, arguments: Sequence[str]) -> None:
        """Train until there are as many trials as asked for; the runs of earlier ones are finished, not trained again.

        Raises:
            ConfigError: the file holds another search, or what Optuna asks for cannot be trained.
        """
        folder = Path(self.config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / MULTIRUN_FILE)  # as Hydra's basic sweeper
        self.space = read_space(self.config, arguments)
        self.study = open_study(folder / SEARCH_FILE, self.settings, self.space)
        refused = self.study.user_attrs.get("refused", [])
        earlier = [
            (trial.number, trial.user_attrs["overrides"])
            for trial in self.trials()
            if "overrides" in trial.user_attrs and trial.number not in refused
        ]
        for start in range(0, len(earlier), self.settings.batch):
            self.train(earlier[start : start + self.settings.batch])
        while (left := self.settings.trials - len(self.trials())) > 0:
            self.train(self.ask(min(left, self.settings.batch)))
        self.say_best()

    def trials(self) -> list[Any]:
        return self.study.get_trials(deepcopy=False)

    def ask(self, trials: int) -> list[tuple[int, list[str]]]:
        """Return the numbers and overrides of new trials; the first of all has the values that the config has anyway.

        The sampler starts anew: a search that was killed goes on as it would have.
        """
        import optuna

        there = len(self.trials())
        sampler = getattr(optuna.samplers, SAMPLERS[self.settings.sampler])
        self.study.sampler = sampler(seed=self.settings.sampler_seed + there)
        if not there and (usual := self.usual_values()):
            self.study.enqueue_trial(usual)
        asked = []
        for _ in range(trials):
            trial = self.study.ask(self.space.searched)
            asked.append((trial.number, self.space.overrides(trial.params)))
            trial.set_user_attr("overrides", asked[-1][1])
        return asked

    def usual_values(self) -> dict[str, Any] | None:
        """Return what the config has where nothing is searched; None if some of it lies outside what is searched."""
        values, choices = {}, OmegaConf.to_container(self.config.hydra.runtime.choices)
        for key, each in self.space.searched.items():
            value = choices.get(key.lstrip("+"), OmegaConf.select(self.config, key.lstrip("+")))
            if hasattr(each, "choices"):
                found = [choice for choice in each.choices if same(choice, str(value))]
            else:
                found = [value] if isinstance(value, int | float) and each.low <= value <= each.high else []
            if not found:
                return None
            values[key] = found[0]
        return values

    def train(self, batch: Sequence[tuple[int, list[str]]]) -> None:
        """Train the runs of some trials together, those of equal trials once, and tell Optuna what came out."""
        new = list(dict.fromkeys(tuple(each) for _, each in batch if tuple(each) not in self.scores))
        jobs = [run for each in new for run in self.space.runs(each)]
        if jobs:
            try:
                returns = self.launcher.launch(jobs, initial_job_idx=self.started)
            except ConfigError:
                numbers = [number for number, _ in batch]  # the same command must not train them again
                self.study.set_user_attr("refused", [*self.study.user_attrs.get("refused", []), *numbers])
                for number in numbers:
                    self.tell(number, ValueError())
                raise
            self.started += len(jobs)
            for place, each in enumerate(new):
                self.scores[each] = scores_of(returns[place * len(self.space.seeds) :][: len(self.space.seeds)])
        for number, each in batch:
            self.tell(number, self.scores[tuple(each)])

    def tell(self, number: int, scores: list[float] | Exception) -> None:
        """Tell Optuna the mean score of a trial, unless it was told before.

        A trial of which a run diverged is told as pruned: worse than any other. One that failed says nothing.
        """
        from optuna.trial import TrialState

        if self.trials()[number].state.is_finished():
            return
        if isinstance(scores, Exception):
            diverged = "diverged" in describe_error(scores)
            self.study.tell(number, state=TrialState.PRUNED if diverged else TrialState.FAIL)
        else:
            self.study.tell(number, sum(scores) / len(scores))

    def say_best(self) -> None:
        """Say which trial was best, and that its mean is too high."""
        from optuna.trial import TrialState

        done = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if not done:
            LOG.info("no trial was completed")
            return
        best = max(done, key=lambda trial: trial.value)
        LOG.info("best of %d trials: %s, %.3f", len(done), " ".join(self.searched_of(best)), best.value)
        LOG.info("chosen on these seeds, so that is too high: train it and what it is compared with on other seeds")

    def searched_of(self, trial: Any) -> list[str]:
        return [each for each in trial.user_attrs["overrides"] if each not in self.space.fixed.values()]


def scores_of(returns: Sequence[JobReturn]) -> list[float] | Exception:
    """Return the score of each run of a trial; the exception of the first that has none."""
    errors = [error for error in map(error_of, returns) if error is not None]
    return errors[0] if errors else [float(each.return_value) for each in returns]
