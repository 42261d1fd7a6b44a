"""What every question does: check a number and a grid, write down what is asked, train arms over seeds as one sweep."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.metric_spec import RATES, better_direction
from rlexp.analysis.stats.arms import FITTED
from rlexp.analysis.stats.endpoints import Endpoint, parse_endpoint
from rlexp.analysis.stats.scales import scale_name
from rlexp.config.checks import evaluated_metrics
from rlexp.config.schema import Config
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.launch.hooks import run_sweep
from rlexp.launch.launcher import unfinished
from rlexp.question.composition import composition
from rlexp.record.disk import replace
from rlexp.runfolder.files import json_with_checksum, read_json
from rlexp.runfolder.variants import key_of, split_commas
from rlexp.train import hydra_main

Run = tuple[str, int]
"""An arm, as its overrides joined by commas, and a seed."""
START = (0.5, 1.0, 2.0)
"""Where a grid that is not given starts, in units of the baseline's own value."""


def of_hydra(override: str) -> bool:
    """Whether an override is of Hydra itself, as its launcher: it is in no run's name."""
    return key_of(override).startswith("hydra")


def known_metric(metric: str | None, config: Config) -> str:
    """Return the name of the evaluated metric that a name is part of, else the name; of None that of the score."""
    return next(
        (name for name in evaluated_metrics(config) if metric and metric in name), metric or config.score.metric
    )


def check_number(metric: str | None, endpoint: str, smallest: float | None, config: Config, at: str = "--") -> None:
    """Check the number of a run that a question is about, as far as can be told before anything is trained.

    Args:
        metric: of which the endpoint is; None: the score.
        endpoint: see ``parse_endpoint``.
        smallest: the smallest effect that counts; None: that of the scale.
        config: of the runs.
        at: what stands before the name of an option in an error.

    Raises:
        ConfigError: no endpoint; a metric that is not evaluated; a share above 1 as a target; a budget that no run gets
            to; an unknown smallest effect.
    """
    asked = parsed_endpoint(endpoint, at)
    if smallest is not None and not smallest > 0:
        raise ConfigError([f"{at}smallest {smallest:g}: must be above 0"])
    known = evaluated_metrics(config)
    for option, named in (("metric", metric), ("endpoint", asked.metric)):  # what else is logged is not known yet
        if named is None or named in RATES:
            continue
        evaluated = named.startswith("eval/") or (option == "metric" and "/" not in named)
        if evaluated and not any(named in name for name in known):
            raise ConfigError([f"{at}{option} {named}: is not evaluated; there are {', '.join(known)}"])
    if asked.value is not None and scale_name(asked.metric) == "log-odds" and not 0 < asked.value <= 1:
        raise ConfigError([f"{at}endpoint {endpoint}: {asked.metric} is a share; its target is above 0, at most 1"])
    most = most_spent(config, asked.unit)
    if asked.budget is not None and most is not None and asked.budget > most:
        raise ConfigError(
            [f"{at}endpoint {endpoint}: no run gets to {asked.budget:,.6g} {asked.unit}; the most is {most:,}"]
        )
    name = known_metric(metric, config)
    has_scale = asked.kind == "cost" or (asked.kind not in FITTED and scale_name(name) in ("log-odds", "log"))
    if smallest is None and not has_scale:
        where, option = ("", "--smallest") if at == "--" else (at, "smallest")
        raise ConfigError([f"{where}{name}, {asked}: which effect counts is not known by itself; declare {option}"])


def parsed_endpoint(text: str, at: str = "--") -> Endpoint:
    """Return the endpoint; ConfigError instead of AnalysisError."""
    try:
        return parse_endpoint(text)
    except AnalysisError as error:
        raise ConfigError([f"{at}endpoint {error}"]) from None


def better_end(metric: str | None, endpoint: Endpoint, config: Config) -> str | None:
    """Return `higher` or `lower` where one end of an endpoint is better, else None."""
    ends = {"cost": "lower", "speed": "higher"}
    return ends.get(endpoint.kind) or better_direction(known_metric(metric, config), config.score.metric)


def most_spent(config: Config, unit: str) -> int | None:
    """Return the most that a run spends in a unit of budgets; None where only training tells."""
    completions = config.steps * config.group_size.prompts * config.group_size.completions
    completions *= config.filter.refill.rounds
    longest = getattr(config.backend, "max_completion_length", None) or config.task.cap
    return {
        "steps": config.steps,
        "updates": config.steps * config.inner_steps * config.minibatches,
        "completions": completions,
        "tokens": completions * longest,
    }.get(unit)


def tuned_values(tune: str | None, shared: Sequence[str], at: str = "--") -> tuple[str | None, list[float]]:
    """Return the key that is tuned and the first values of its grid."""
    if tune is None:
        return None, []
    key, _, text = tune.partition("=")
    own = composition(shared)[1].get(key)
    if isinstance(own, bool) or not isinstance(own, int | float) or not own > 0:
        raise ConfigError([f"{at}tune {tune}: {key} must be a number above 0 to have a geometric grid, as lr"])
    try:
        values = sorted({float(each) for each in split_commas(text)}) if text else [own * step for step in START]
    except ValueError:
        raise ConfigError([f"{at}tune {tune}: must be numbers, as {key}=1e-4,3e-4,1e-3"]) from None
    if len(values) < 2 or values[0] <= 0:
        raise ConfigError([f"{at}tune {tune}: must be at least two numbers above 0"])
    if clash := next((override for override in shared if key_of(override) == key), None):
        raise ConfigError([f"{at}tune {tune}: {clash} fixes it; leave one of them out"])
    return key, values


def budget_overrides(budget: str | None, overrides: Sequence[str], at: str = "--") -> list[str]:
    """Return what trains a run with these overrides to a budget; its schedule ends there."""
    if budget is None:
        return []
    kind, _, text = budget.partition("=")
    if kind not in ("steps", "completions") or not text.isdigit() or not int(text):
        raise ConfigError([f"{at}budget {budget}: must be steps=<number> or completions=<number>"])
    if kind == "steps":
        return [f"steps={text}"]
    choices, values = composition(overrides)
    each = values["group_size.prompts"] * values["group_size.completions"]
    if values["filter.refill.rounds"] > 1:
        raise ConfigError([f"{at}budget {budget}: filter={choices['filter']} samples as many as it needs; use steps="])
    steps = int(text) // each
    if not steps:
        raise ConfigError([f"{at}budget {budget}: a step has {each} completions; must be at least that many"])
    return [f"steps={steps}"]


def read_before(file: Path, declared: Mapping[str, Any], option: str = "--folder") -> dict[str, Any] | None:
    """Return what a question's file holds; None if there is none; ConfigError where it asks something else."""
    written = read_json(file)
    if written is None:
        return None
    before, now = written["declared"], json.loads(json.dumps(declared))
    if before != now:
        other = next(key for key in now if before.get(key) != now[key])
        then = f"{other} was {before.get(other)}, not {now[other]}"
        raise ConfigError([f"{file.parent}: asks another question ({then}); name another {option}"])
    return written


def write_down(file: Path, declared: Mapping[str, Any], rest: Mapping[str, Any]) -> None:
    """Write down what is asked with its hash, and what is trained for it."""
    digest = sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()[:16]
    content = {"declared": declared, "hash": digest} | dict(rest)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace(file, json_with_checksum(json.dumps(content, indent=2) + "\n"))


def runs_of(point: Sequence[str], units: Sequence[int], seeds: Sequence[int] | None) -> list[Run]:
    """Return the runs of an arm: over ``units`` as seeds, or as starts where ``seeds`` says how many each start has.

    No seed is that of two starts: runs that share a seed have their prompts and their luck in common.
    """
    if seeds is None:
        return [(",".join(point) or "default", unit) for unit in units]
    apart = max(seeds) + 1
    return [(",".join([*point, f"start.seed={unit}"]), apart * unit + seed) for unit in units for seed in seeds]


def train_arms(file: Path, of_sweep: Sequence[str], wanted: Iterable[Run], trained: set[Run], again: str) -> None:
    """Train arms over their seeds as one sweep; what ``trained`` holds is not planned again.

    Args:
        file: of the question, in the sweep's folder, which is as it was before where an arm cannot be trained.
        of_sweep: overrides that change no number.
        wanted: arms, each as overrides joined by commas, with a seed.
        trained: what was trained before; what is trained now is added.
        again: how to train runs again that failed.

    Raises:
        ConfigError: an arm cannot be trained.
        RunFailed: some did not complete or diverge.
    """
    folder = file.parent
    fresh = {path.name for path in folder.iterdir()} == {file.name}
    left = [run for run in dict.fromkeys(wanted) if run not in trained]
    if not left:
        return
    arms, seeds = (list(dict.fromkeys(each)) for each in zip(*left, strict=True))
    if len(arms) * len(seeds) > len(left):  # not every arm has every seed, so each names its own
        arms, seeds = [f"{arm},seed={seed}" for arm, seed in left], [0]
    listed, numbers = f"hydra.sweeper.arms={json.dumps(arms)}", f"seed={','.join(map(str, seeds))}"
    try:
        overrides = [*of_sweep, "hydra/sweeper=arms", listed, numbers, f"hydra.sweep.dir={folder}"]
        run_sweep(overrides, hydra_main)
    except ConfigError:
        if fresh:
            file.unlink()
            folder.rmdir()
        raise
    lost = [row for row in unfinished(folder) if row["status"] != "diverged"]
    if lost:
        reason = f"{lost[0]['name']}: {lost[0]['reason']}"
        raise RunFailed(f"{len(lost)} runs in {folder} did not complete ({reason}); {again}")
    trained.update(left)
