"""Training the arms of an ablation, all seeds of all of them as one sweep; a tuned key gets a grid that grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlexp.ablation.parts import Part, check_parts, overrides_of, parse_parts, parts_between
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.ablation import ABLATION_FILE, Ablation, analyze, units_of
from rlexp.analysis.stats.designs import Arm, arms_of
from rlexp.analysis.stats.rates import extend
from rlexp.api import mistakes_as_config_errors
from rlexp.config.compose import compose
from rlexp.core.errors import ConfigError, format_value
from rlexp.question import new_folder
from rlexp.question.sweep import (
    Run,
    budget_overrides,
    check_number,
    of_hydra,
    read_before,
    runs_of,
    train_arms,
    tuned_values,
    write_down,
)
from rlexp.runfolder.variants import result_overrides

FORMAT = 1
ONE_AT_A_TIME = ("add-one", "leave-one-out")


def ablate(
    *recipe: str,
    against: str | Sequence[str] = (),
    parts: str | None = None,
    designs: Sequence[str] = ONE_AT_A_TIME,
    order: Sequence[str] | None = None,
    tune: str | None = None,
    seeds: int | Iterable[int] = 10,
    starts: int | None = None,
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
        starts: how many starts (``start.seed``), with so many ``seeds`` each. An arm's number from a start is then the
            mean over its seeds, and intervals count starts.
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
    if starts is not None and starts < 2:
        raise ConfigError([f"--starts {starts}: must be at least 2; a difference from one start has no interval"])
    if len(numbers) < (1 if starts else 2):
        raise ConfigError([f"--seeds {len(numbers)}: must be at least 2; a difference of one seed has no interval"])
    if bool(recipe) == (parts is not None):
        raise ConfigError(["name a recipe, as preset=dapo --against preset=grpo, or its --parts; one of the two"])
    first = [*shared, "start.seed=0"] if starts else shared  # as `model.path=models/${start.seed}` may be read from it
    with mistakes_as_config_errors([*recipe, *shared]):
        if parts is None:
            found = parts_between([*recipe, *overrides], shared)
        else:
            check_parts(found := parse_parts(parts), first, alone=[*designs] == ["add-one"])
        check_number(metric, endpoint, smallest, compose(*first, *budget_overrides(budget, shared)))
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
        **({"starts": list(range(starts))} if starts else {}),
        "budget": budget,
        "metric": metric,
        "endpoint": endpoint,
        "smallest": smallest,
    }
    hydra, for_all = ([each for each in shared if of_hydra(each) == of] for of in (True, False))

    def points(arm: Arm, values: Sequence[float]) -> list[list[str]]:
        own = overrides_of([found[part] for part in sorted(arm)], ())
        own = [*for_all, *own, *budget_overrides(budget, [*shared, *own])]
        return [[*own, f"{key}={format_value(value)}"] for value in values] if key else [own]

    def plan(values: Sequence[float]) -> dict[Arm, list[list[str]]]:
        return {arm: points(arm, values) for arm in arms}

    return train_until_inside(Path(folder or new_folder("ablation")), declared, hydra, plan, rates)


def train_until_inside(
    place: Path,
    declared: Mapping[str, Any],
    hydra: Sequence[str],
    plan: Callable[[Sequence[float]], Mapping[Arm, list[list[str]]]],
    values: Sequence[float],
) -> Ablation:
    """Train all arms at all values, at first those given, until no arm's best is at an end that can be left.

    Args:
        place: the folder, which may hold what an earlier call trained.
        declared: what was asked, as it is written down.
        hydra: overrides of Hydra's own, for all runs.
        plan: the runs of each arm, as overrides, for these values of the tuned key.
        values: of the tuned key; empty without one.

    Raises:
        ConfigError: an arm that cannot be trained.
        RunFailed: runs that did not complete.
    """
    file = place / ABLATION_FILE
    values = (read_before(file, declared) or {"values": values})["values"]
    trained: set[Run] = set()
    while True:
        arms = plan(values)
        written = [{"parts": sorted(arm), "overrides": each} for arm, each in arms.items()]
        write_down(file, declared, {"values": values, "arms": written})
        try:  # what all arms share is in each of them: Hydra's sweeper would write True for true, and runs be named so
            seeds = declared["seeds"] if declared.get("starts") else None
            points = [point for each in arms.values() for point in each]
            wanted = [run for point in points for run in runs_of(point, units_of(declared), seeds)]
            train_arms(file, hydra, wanted, trained, "the same command with --with resume=failed trains them again")
        except ConfigError as error:
            alone = any(problem.startswith("job ") for problem in error.problems)  # of some arms, not of all
            hint = "parts that need each other are joined with +, as --parts critic=ppo+norm=gae,agg=token"
            raise ConfigError([*error.problems, *[hint] * alone]) from None
        result = analyze(place)
        grids = result.grids.values() if declared["tune"] else ()
        grown = {rate for grid in grids for rate in extend(grid, result.smallest).rates}
        if not grown - {*values}:
            return result
        values = sorted({*values, *grown})


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
