"""Successive halving: all points of a grid are trained a little, the best of them more, and so on, rung by rung.

What grows is the number of seeds, or the steps: a run of fewer steps has its own schedule and its own end, no run is
judged on its way. All runs of a rung are known when it is decided. Optuna's ``SuccessiveHalvingPruner`` decides each
trial by those that were told before it: of a batch, the first ones would go on whatever they are worth.
"""

from __future__ import annotations

import copy
import json
import logging
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from rlexp.config.parse import MAX_RUNS, check_size, quote_text
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed, describe_error, relative
from rlexp.launch.hydra_private import CachingConfigLoader, basic_sweeper, cache_compositions, error_of
from rlexp.launch.rungs import WORST, Grid, Rung, rungs_of, shares, survivors, write_study
from rlexp.launch.search import seeds_of, text
from rlexp.record.disk import replace
from rlexp.runfolder.files import MULTIRUN_FILE, RUNGS_FILE, SEARCH_FILE, json_with_checksum, read_json
from rlexp.runfolder.variants import IN_TURNS, key_of, result_overrides, run_name

LOG = logging.getLogger(__name__)
RESOURCES = ("seed", "steps", "completions")


def is_halving(config: DictConfig) -> bool:
    """Whether a composed config's sweeper is this one."""
    return str(config.hydra.sweeper.get("_target_", "")).endswith(".HalvingSweeper")


def probed_jobs(config: DictConfig, most: int | None) -> list[list[str]]:
    """Check the settings of a halving and what its folder holds; return jobs that are to be composed beforehand.

    Args:
        config: the sweep's, as Hydra composed it.
        most: runs that the launcher takes for no mistake; None for any number.

    Returns:
        The overrides of one run for each point, as it is in the first rung and in the last.

    Raises:
        ConfigError: the halving cannot be made, or the folder holds another one.
    """
    halving = Halving(config, most)
    halving.check_folder()
    seed, ends = f"seed={halving.grid.seeds[0]}", (halving.rungs[0], halving.rungs[-1])
    jobs = [(*halving.overrides(place, rung), seed) for rung in ends for place in range(len(halving.grid.points))]
    return [list(job) for job in dict.fromkeys(jobs)]


def read_grid(config: DictConfig, most: int | None) -> Grid:
    """Read the points and seeds from the overrides; ConfigError if there are no seeds, or more runs than ``most``."""
    settings = OmegaConf.to_container(config.hydra.sweeper, resolve=True)
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    written = [f"{key}={value}" for key, value in (settings["params"] or {}).items()]
    written += OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    last = {each.get_key_element(): each for each in parser.parse_overrides(written)}
    seeds = seeds_of(last.pop("seed")) if "seed" in last else []
    if not seeds:
        raise ConfigError(["hydra/sweeper=halving: there are no seeds; list them, as seed=range(0,9)"])
    overrides = parser.parse_overrides([spread(each, settings["points"]) for each in last.values()])
    check_size(overrides, most)
    points = [job for jobs in basic_sweeper(max_batch_size=None).split_arguments(overrides, None) for job in jobs]
    tuned = settings["tune"] or ()
    return Grid(points, seeds, (tuned,) if isinstance(tuned, str) else tuple(tuned))


def spread(override: Override, points: int) -> str:
    """Return an override with an interval as so many values, evenly spaced; by their ratio if it is tagged `log`."""
    value = override.value()
    if not isinstance(value, IntervalSweep):
        return override.input_line
    log, whole = "log" in value.tags, isinstance(value.start, int) and isinstance(value.end, int)
    if not value.start < value.end or log and value.start <= 0:
        raise ConfigError([f"{override.input_line}: goes from a lower to a higher number, above 0 with log"])
    values = (np.geomspace if log else np.linspace)(value.start, value.end, points).tolist()
    texts = dict.fromkeys(text(round(each) if whole else each) for each in values)
    return f"{override.get_key_element()}={','.join(texts)}"


def check_settings(settings: DictConfig, config: DictConfig) -> None:
    """Raise ConfigError for a setting that is wrong by itself, or that belongs to another kind of sweep."""
    if settings.resource not in RESOURCES:
        raise ConfigError([f"hydra.sweeper.resource={settings.resource}: must be one of {', '.join(RESOURCES)}"])
    for key, least in (("factor", 2), ("min_resources", 1), ("points", 2)):
        if settings[key] is not None and settings[key] < least:
            raise ConfigError([f"hydra.sweeper.{key}={settings[key]}: must be at least {least}"])
    for key in (*IN_TURNS, "baseline", "study"):
        if config.get(key) is not None:
            line = f"{key}: is of a sweep whose arms are known beforehand; hydra/sweeper=halving leaves some out"
            raise ConfigError([line])


def completions_a_step(config: DictConfig) -> int:
    return config.group_size.prompts * config.group_size.completions


class Halving:
    """The rungs of one sweep. The last one stands in its folder as any sweep does, the others in folders below it."""

    def __init__(self, config: DictConfig, most: int | None = None):
        """Read the grid and its rungs; ConfigError for what cannot be halved, or makes more than ``most`` runs."""
        self.config, self.settings, self.folder = config, config.hydra.sweeper, Path(config.hydra.sweep.dir)
        check_settings(self.settings, config)
        self.resource, self.factor = self.settings.resource, self.settings.factor
        self.grid = read_grid(config, most)
        varying = self.grid.varying
        if unknown := [key for key in self.grid.tuned if key not in varying]:
            swept = ", ".join(varying) or "nothing"
            raise ConfigError([f"hydra.sweeper.tune={unknown[0]}: is not swept; there is {swept}"])
        if self.resource != "seed" and "steps" in varying:
            raise ConfigError([f"hydra.sweeper.resource={self.resource}: sets the steps, which are swept too"])
        self.steps = [] if self.resource == "seed" else self.full_steps()
        self.most = len(self.grid.seeds) if self.resource == "seed" else min(self.steps)
        if self.resource == "completions":
            self.most = config.steps * completions_a_step(config)
        sizes = [len(arm) for arm in self.grid.by_arm(range(len(self.grid.points)))]
        share = shares(max(sizes), self.most, self.factor, self.settings.min_resources or 1)
        if len(share) == 1:
            what = f"points: {max(sizes)}, {'seeds' if self.resource == 'seed' else self.resource}: {self.most}"
            raise ConfigError([f"hydra/sweeper=halving: that is a single rung ({what}), and an ordinary sweep"])
        self.rungs = rungs_of(share, self.grid.seeds, self.resource)
        runs = 0
        for rung in self.rungs:
            runs += sum(sizes) * len(rung.seeds)
            sizes = [math.ceil(size / self.factor) for size in sizes]
        if most is not None and runs > most:
            line = f"{len(self.grid.points)} points make {runs} runs in {len(share)} rungs, more than {most}"
            raise ConfigError([f"{line}; if they are meant, write {MAX_RUNS}={runs}"])

    def full_steps(self) -> list[int]:
        """Return the steps of each point in the last rung: its own, or as many as have the recipe's completions."""
        loader, seed = cache_compositions(GlobalHydra.instance().hydra), f"seed={self.grid.seeds[0]}"
        composed = [loader.load_sweep_config(self.config, [*point, seed]) for point in self.grid.points]
        if self.resource == "steps":
            return [own.steps for own in composed]
        if any(own.filter.refill.rounds > 1 for own in composed):
            raise ConfigError(["hydra.sweeper.resource=completions: a filter that refills samples as many as it needs"])
        completions = self.config.steps * completions_a_step(self.config)
        return [max(1, completions // completions_a_step(own)) for own in composed]

    def overrides(self, place: int, rung: Rung) -> list[str]:
        """Return the overrides of a point in a rung, without the seed."""
        point = self.grid.points[place]
        if self.resource == "seed" or (self.resource == "steps" and rung.share == 1):
            return point
        steps = max(1, round(rung.share * self.steps[place]))
        return [*(each for each in point if key_of(each) != "steps"), f"steps={steps}"]

    def amount(self, rung: Rung) -> str:
        """Return how much of the resource a rung's means are of: of seeds the last rung has its own alone."""
        last = rung is self.rungs[-1]
        return f"{len(rung.seeds)} new" if last and self.resource == "seed" else str(round(rung.share * self.most))

    def declared(self) -> dict[str, Any]:
        """Return what must be the same for a halving to go on."""
        settings = {key: self.settings[key] for key in ("resource", "factor", "min_resources")}
        points = [result_overrides(point) for point in self.grid.points]
        return settings | {"tune": list(self.grid.tuned), "seeds": self.grid.seeds, "points": points}

    def check_folder(self) -> None:
        """Raise ConfigError if the folder holds another halving, or a search."""
        written, now, place = read_json(self.folder / RUNGS_FILE), self.declared(), relative(self.folder)
        if written is None and (self.folder / SEARCH_FILE).exists():
            raise ConfigError([f"{place} holds a search: take another hydra.sweep.dir"])
        if written is not None and written["declared"] != now:
            other = ", ".join(key for key in now if written["declared"].get(key) != now[key])
            raise ConfigError([f"{place} holds a halving that differs ({other}): take another hydra.sweep.dir"])

    def run(self, hydra: HydraContext, task_function: TaskFunction) -> None:
        """Train rung by rung, and write down what each kept; runs that have ended are not trained again.

        A rung is decided by the means over its seeds; where seeds are the resource, over those before it too. In the
        last one nothing is decided, and its means are of its own seeds, which have chosen nothing.

        Raises:
            RunFailed: a run of a rung before the last failed, or a run of each point diverged.
        """
        self.check_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, self.folder / MULTIRUN_FILE)  # as Hydra's basic sweeper
        content: dict[str, Any] = {"declared": self.declared(), "of": len(self.rungs), "rungs": []}
        if self.resource != "seed" and "lr" in self.grid.varying:
            LOG.warning("shorter runs want higher learning rates: early rungs may drop the best (docs/search.md)")
        going, scores = list(range(len(self.grid.points))), dict[int, list[float]]()
        for number, rung in enumerate(self.rungs, 1):
            last = rung is self.rungs[-1]
            folder = self.folder if last else self.folder / f"rung_{number}"
            LOG.info("rung %d of %d: %d points", number, len(self.rungs), len(going))
            found = self.train(going, rung, folder, self.launcher(hydra, task_function, folder))
            add = self.resource == "seed" and not last
            scores = {place: [*(scores.get(place, []) if add else []), *own] for place, own in found.items()}
            means = {place: sum(own) / len(own) for place, own in scores.items()}
            going = going if last else survivors(self.grid, means, self.factor)
            content["rungs"].append(self.row(rung, folder, means, going))
            replace(self.folder / RUNGS_FILE, json_with_checksum(json.dumps(content, indent=2) + "\n"))
            if not going:
                raise RunFailed(f"no point of rung {number} can go on: a run of each diverged")
        if find_spec("optuna"):
            try:
                write_study(self.folder / SEARCH_FILE, self.grid, content)
            except Exception as error:  # of SQLAlchemy, SQLite and Optuna; all results are on disk
                LOG.warning("no %s for Optuna: %s", relative(self.folder / SEARCH_FILE), describe_error(error))

    def train(self, going: Sequence[int], rung: Rung, folder: Path, launcher: Launcher) -> dict[int, list[float]]:
        """Train points over the seeds of a rung; return the scores of each, WORST for a run that has none.

        Raises:
            RunFailed: a run failed; not for those of the last rung, which are listed as in any sweep.
        """
        jobs = [[*self.overrides(place, rung), f"seed={seed}"] for place in going for seed in rung.seeds]
        try:
            returns = launcher.launch(jobs, initial_job_idx=0)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"hydra.sweep.dir={relative(self.folder)}") from None
        errors = {run_name(job): error_of(each) for job, each in zip(jobs, returns, strict=True)}
        failed = {name: describe_error(error) for name, error in errors.items() if error and not diverged(error)}
        if failed and folder != self.folder:
            name, reason = next(iter(failed.items()))
            again = "the same command with resume=failed trains them again, and goes on"
            raise RunFailed(f"{len(failed)} runs in {relative(folder)} did not complete ({name}: {reason}); {again}")
        scores = iter([WORST if error_of(each) else float(each.return_value) for each in returns])
        return {place: [next(scores) for _ in rung.seeds] for place in going}

    def launcher(self, hydra: HydraContext, task_function: TaskFunction, folder: Path) -> Launcher:
        """Return a launcher for a folder, which composes its runs anew: what is cached has the folder of the sweep."""
        config = copy.deepcopy(self.config)
        if folder != self.folder:
            OmegaConf.set_readonly(config.hydra, False)
            config.hydra.sweep.dir = str(folder)
            others = [each for each in config.hydra.overrides.hydra if key_of(each) != "hydra.sweep.dir"]
            config.hydra.overrides.hydra = [*others, quote_text(f"hydra.sweep.dir={folder}")]
        loader = getattr(hydra.config_loader, "loader", hydra.config_loader)
        context = HydraContext(config_loader=CachingConfigLoader(loader), callbacks=hydra.callbacks)
        return Plugins.instance().instantiate_launcher(
            hydra_context=context, task_function=task_function, config=config
        )

    def row(self, rung: Rung, folder: Path, means: dict[int, float], going: Sequence[int]) -> dict[str, Any]:
        """Return what is written down of a rung."""
        points = [
            {
                "overrides": self.grid.own(place),
                "arm": self.grid.arm(place),
                "mean": None if mean == WORST else mean,
                "kept": place in going,
            }
            for place, mean in means.items()
        ]
        name = "." if folder == self.folder else folder.name
        return {"folder": name, "amount": self.amount(rung), "share": rung.share, "seeds": rung.seeds, "points": points}


def diverged(error: Exception) -> bool:
    return "diverged" in describe_error(error)
