"""Training the arms of an ablation, all seeds of all of them as one sweep; a tuned key gets a grid that grows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from rlexp.ablation import new_folder
from rlexp.ablation.parts import Part, check_parts, composition, overrides_of, parse_parts, parts_between
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.ablation import ABLATION_FILE, FITTED, Ablation, analyze
from rlexp.analysis.stats.designs import Arm, arms_of
from rlexp.analysis.stats.endpoints import parse_endpoint
from rlexp.analysis.stats.rates import extend
from rlexp.analysis.stats.scales import scale_name
from rlexp.api import mistakes_as_config_errors
from rlexp.config.checks import evaluated_metrics
from rlexp.config.compose import compose
from rlexp.config.schema import Config
from rlexp.core.errors import ConfigError, format_value
from rlexp.core.exits import RunFailed
from rlexp.launch.hooks import run_sweep
from rlexp.launch.launcher import unfinished
from rlexp.record.disk import replace
from rlexp.runfolder.files import json_with_checksum, read_json
from rlexp.runfolder.variants import key_of, result_overrides, split_commas
from rlexp.train import hydra_main

FORMAT = 1
ONE_AT_A_TIME = ("add-one", "leave-one-out")
START = (0.5, 1.0, 2.0)
"""Where a grid that is not given starts, in units of the baseline's own value."""


def ablate(
    *recipe: str,
    against: str | Sequence[str] = (),
    parts: str | None = None,
    designs: Sequence[str] = ONE_AT_A_TIME,
    order: Sequence[str] | None = None,
    tune: str | None = None,
    seeds: int | Iterable[int] = 10,
    budget: str | None = None,
    metric: str | None = None,
    endpoint: str = "final",
    smallest: float | None = None,
    overrides: Sequence[str] = (),
    folder: str | Path | None = None,
) -> Ablation:
    """Train a recipe with and without its parts, and say what each part is worth.

    Args:
        recipe: the overrides of the recipe, as ``"preset=dapo"``; none where ``parts`` are named.
        against: the overrides that it is compared with, as ``"preset=grpo"``.
        parts: the parts, as ``"clip=higher,agg=token"``; by default all in which the two differ.
        designs: which arms are trained: ``add-one``, ``leave-one-out``, ``ladder``, ``factorial``, or several of them.
        order: of the parts of a ladder, by their names.
        tune: a key of which each arm is judged at its best value: ``"lr"``, or ``"lr=1e-4,3e-4,1e-3"``. The grid is the
            same for all arms, and grows until the best value of each is inside, or its curve is flat at the end.
        seeds: how many, or which. All arms share them.
        budget: ``"steps=200"`` or ``"completions=20000"``: each arm is trained to it with its own schedule.
        metric: another one than the score.
        endpoint: the number of a run: ``"final"``, ``"auc:completions"``, ``"asymptote"``, ``"speed"``,
            ``"cost:eval/greedy_accuracy>=0.8:completions"``, ``"matched:kl=0.5"``; see ``parse_endpoint``.
        smallest: the smallest effect that counts, on the metric's scale: .25 log-odds of a share unless given.
        overrides: what all arms share, as ``"task=bandit"``.
        folder: where the runs go, runs/<time> unless given. The same call goes on there.

    Returns:
        Tables and notes; see ``Ablation``.

    Raises:
        ConfigError: a wrong question, in a line, before anything is trained.
        RunFailed: runs that did not complete.
    """
    against = [against] if isinstance(against, str) else list(against)
    shared = [*against, *overrides]
    numbers = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if len(numbers) < 2:
        raise ConfigError([f"--seeds {len(numbers)}: must be at least 2; a difference of one seed has no interval"])
    if bool(recipe) == (parts is not None):
        raise ConfigError(["name a recipe, as preset=dapo --against preset=grpo, or its --parts; one of the two"])
    with mistakes_as_config_errors([*recipe, *shared]):
        if parts is None:
            found = parts_between([*recipe, *overrides], shared)
        else:
            check_parts(found := parse_parts(parts), shared, alone=[*designs] == ["add-one"])
        check_metric(metric, endpoint, smallest, compose(*shared))
    ladder = ladder_order(order, found)
    arms = list(dict.fromkeys(arm for design in designs for arm in designed(design, len(found), ladder)))
    key, rates = tuned_values(tune, shared)
    declared = {
        "format": FORMAT,
        "against": against,
        "overrides": [each for each in result_overrides(overrides) if not of_hydra(each)],
        "parts": [list(part.overrides) for part in found],
        "designs": list(designs),
        "order": ladder,
        "tune": {"key": key, "values": rates} if key else None,
        "seeds": numbers,
        "budget": budget,
        "metric": metric,
        "endpoint": endpoint,
        "smallest": smallest,
    }
    place = Path(folder or new_folder())

    def points(arm: Arm, values: Sequence[float]) -> list[list[str]]:
        own = overrides_of([found[part] for part in sorted(arm)], budget_of(budget, shared, found, arm))
        return [[*own, f"{key}={format_value(value)}"] for value in values] if key else [own]

    for_all = [each for each in shared if not of_hydra(each)]
    values = declare(place, declared, list(rates))
    while True:
        plan = {arm: points(arm, values) for arm in arms}
        write(place, declared, values, {arm: [[*for_all, *point] for point in plan[arm]] for arm in arms})
        train_arms(place, shared, [",".join(point) for each in plan.values() for point in each], numbers)
        result = analyze(place)
        grids = result.grids.values() if key else ()
        grown = {rate for grid in grids for rate in extend(grid, result.smallest).rates}
        if not grown - {*values}:
            return result
        values = sorted({*values, *grown})


def of_hydra(override: str) -> bool:
    """Whether an override is of Hydra itself, as its launcher: it is in no run's name."""
    return key_of(override).startswith("hydra")


def check_metric(metric: str | None, endpoint: str, smallest: float | None, config: Config) -> None:
    """Raise ConfigError for what is no endpoint, a metric that is not evaluated, an unknown smallest effect."""
    try:
        asked = parse_endpoint(endpoint)
    except AnalysisError as error:
        raise ConfigError([f"--endpoint {error}"]) from None
    if smallest is not None and not smallest > 0:
        raise ConfigError([f"--smallest {smallest:g}: must be above 0"])
    known = evaluated_metrics(config)
    for option, named in (("--metric", metric), ("--endpoint", asked.metric)):  # what else is logged is not known yet
        evaluated = named is not None and (named.startswith("eval/") or (option == "--metric" and "/" not in named))
        if evaluated and not any(named in name for name in known):
            raise ConfigError([f"{option} {named}: is not evaluated; there are {', '.join(known)}"])
    name = next((name for name in known if metric and metric in name), metric or config.score.metric)
    has_scale = asked.kind == "cost" or (asked.kind not in FITTED and scale_name(name) in ("log-odds", "log"))
    if smallest is None and not has_scale:
        raise ConfigError([f"{name}, {asked}: which effect counts is not known by itself; declare --smallest"])


def designed(design: str, k: int, order: Sequence[int] | None) -> list[Arm]:
    try:
        return arms_of(design, k, order)
    except AnalysisError as error:
        raise ConfigError([str(error)]) from None


def ladder_order(names: Sequence[str] | None, parts: Sequence[Part]) -> list[int] | None:
    """Return the places of the named parts; ConfigError unless each part is named once."""
    if names is None:
        return None
    known = [part.name for part in parts]
    if sorted(names) != sorted(known):
        raise ConfigError([f"--ladder {','.join(names)}: must name each part once: {', '.join(known)}"])
    return [known.index(name) for name in names]


def tuned_values(tune: str | None, shared: Sequence[str]) -> tuple[str | None, list[float]]:
    """Return the key that is tuned and the first values of its grid."""
    if tune is None:
        return None, []
    key, _, text = tune.partition("=")
    own = composition(shared)[1].get(key)
    if isinstance(own, bool) or not isinstance(own, int | float) or not own > 0:
        raise ConfigError([f"--tune {tune}: {key} must be a number above 0 to have a geometric grid, as lr"])
    try:
        values = sorted({float(each) for each in split_commas(text)}) if text else [own * step for step in START]
    except ValueError:
        raise ConfigError([f"--tune {tune}: must be numbers, as {key}=1e-4,3e-4,1e-3"]) from None
    if len(values) < 2 or values[0] <= 0:
        raise ConfigError([f"--tune {tune}: must be at least two numbers above 0"])
    if clash := next((override for override in shared if key_of(override) == key), None):
        raise ConfigError([f"--tune {tune}: {clash} fixes it; leave one of them out"])
    return key, values


def budget_of(budget: str | None, shared: Sequence[str], parts: Sequence[Part], arm: Arm) -> list[str]:
    """Return the override that trains an arm to a budget; its schedule ends there."""
    if budget is None:
        return []
    kind, _, text = budget.partition("=")
    if kind not in ("steps", "completions") or not text.isdigit() or not int(text):
        raise ConfigError([f"--budget {budget}: must be steps=<number> or completions=<number>"])
    if kind == "steps":
        return [f"steps={text}"]
    overrides = overrides_of([parts[part] for part in sorted(arm)], shared)
    choices, values = composition(overrides)
    each = values["group_size.prompts"] * values["group_size.completions"]
    if values["filter.refill.rounds"] > 1:
        raise ConfigError([f"--budget {budget}: filter={choices['filter']} samples as many as it needs; use steps="])
    steps = int(text) // each
    if not steps:
        raise ConfigError([f"--budget {budget}: a step has {each} completions; must be at least that many"])
    return [f"steps={steps}"]


def declare(folder: Path, declared: dict[str, Any], values: list[float]) -> list[float]:
    """Return the grid as far as it has grown before; ConfigError where the folder asks something else."""
    written = read_json(folder / ABLATION_FILE)
    if written is None:
        return values
    before, now = written["declared"], json.loads(json.dumps(declared))
    if before != now:
        other = next(key for key in now if before.get(key) != now[key])
        then = f"{other} was {before.get(other)}, not {now[other]}"
        raise ConfigError([f"{folder}: asks another question ({then}); name another --folder"])
    return written["values"]


def write(folder: Path, declared: dict[str, Any], values: list[float], arms: dict[Arm, list[list[str]]]) -> None:
    """Write down what is asked, with its hash, the grid, and the overrides of each arm at each of its points."""
    text = json.dumps(declared, sort_keys=True)
    content = {
        "declared": declared,
        "hash": sha256(text.encode()).hexdigest()[:16],
        "values": values,
        "arms": [{"parts": sorted(arm), "overrides": overrides} for arm, overrides in arms.items()],
    }
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / ABLATION_FILE, json_with_checksum(json.dumps(content, indent=2) + "\n"))


def train_arms(folder: Path, shared: Sequence[str], arms: Sequence[str], seeds: Sequence[int]) -> None:
    """Train the arms over the seeds, those that are not there yet; RunFailed if some did not complete or diverge."""
    fresh = {path.name for path in folder.iterdir()} == {ABLATION_FILE}
    # what all arms share is in each of them: Hydra's sweeper would write True for true, and runs be named so
    for_all = [each for each in shared if not of_hydra(each)]
    whole = [",".join(filter(None, [*for_all, arm])) or "default" for arm in arms]
    try:
        run_sweep(
            [
                *filter(of_hydra, shared),
                "hydra/sweeper=arms",
                f"hydra.sweeper.arms={json.dumps(whole)}",
                f"seed={','.join(map(str, seeds))}",
                f"hydra.sweep.dir={folder}",
            ],
            hydra_main,
        )
    except ConfigError as error:
        if fresh:
            (folder / ABLATION_FILE).unlink()
            folder.rmdir()
        alone = any(problem.startswith("job ") for problem in error.problems)  # of some arms, not of all
        hint = "parts that need each other are joined with +, as --parts critic=ppo+norm=gae,agg=token"
        raise ConfigError([*error.problems, *[hint] * alone]) from None
    lost = [row for row in unfinished(folder) if row["status"] != "diverged"]
    if lost:
        reason = f"{lost[0]['name']}: {lost[0]['reason']}"
        again = "the same command with --with resume=failed trains them again"
        raise RunFailed(f"{len(lost)} runs in {folder} did not complete ({reason}); {again}")
