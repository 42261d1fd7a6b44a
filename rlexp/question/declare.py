"""From a question to what is trained for it; what cannot be answered is refused before any run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlexp.analysis.stats.scales import scale_name
from rlexp.analysis.stats.words import EQUIVALENT
from rlexp.config.schema import Config
from rlexp.core.errors import ConfigError, format_value
from rlexp.question.composition import composition, config_of
from rlexp.question.spec import Written, arm_name, named_conditions
from rlexp.question.sweep import (
    START,
    better_end,
    budget_overrides,
    check_number,
    known_metric,
    of_hydra,
    parsed_endpoint,
    tuned_values,
)
from rlexp.runfolder.variants import SEEDS, key_of, result_overrides, split_commas

FORMAT = 1
APART = 1000
"""Between the seeds of two conditions: runs of one seed have much in common, and pooled errors must be independent."""
ArmKey = tuple[str, str | None]  # name and budget


class Cell(NamedTuple):
    """An arm in a condition: what is trained over all seeds, at each value of the tuned key."""

    condition: str
    arm: str
    """Its overrides, joined by ``+``; ``default`` where there are none."""
    budget: str | None
    overrides: tuple[str, ...]
    """Of its runs, without the tuned key and the seed."""


class Question(NamedTuple):
    """What is asked, and what has to be trained for it."""

    declared: dict[str, Any]
    cells: list[Cell]
    grids: dict[str, list[float]]
    """The first values of the tuned key, by condition; empty where none is tuned."""
    of_sweep: list[str]
    """Overrides that change no number, as those of Hydra's launcher."""


def declare(written: Written, overrides: Sequence[str] = ()) -> Question:
    """Complete a question, and plan what is trained for it.

    Args:
        written: as it was read.
        overrides: what all runs share, beside its own ``with``.

    Raises:
        ConfigError: no run can answer it, in a line.
    """
    for_all = [*written.shared, *overrides]
    shared = [each for each in result_overrides(for_all) if not of_hydra(each)]
    conditions = named_conditions(written.conditions)
    unit, units = ("seed", written.seeds) if written.starts is None else ("start", written.starts)
    if len(units) < 2:
        raise ConfigError([f"{unit}s={format_value(units)}: must be at least 2; one has no interval"])
    if written.most_seeds is not None and written.most_seeds < len(units):
        raise ConfigError([f"most_seeds={written.most_seeds}: must be at least the {len(units)} {unit}s"])
    if len(conditions) > 1 and (largest := max(*units, written.most_seeds or 0)) >= APART:
        raise ConfigError(
            [f"{unit}s: {largest} is too large; must be below {APART}, of which each condition has its own"]
        )
    for name, listed in (("start", written.starts or []), ("seed", written.seeds)):
        if len(set(listed)) < len(listed):
            raise ConfigError([f"{name}s={format_value(listed)}: a {name} is there twice"])
    declared = declaration(written, shared, conditions)
    if (seed := next((each for each in shared if key_of(each) in SEEDS), None)) is not None:
        key = "starts" if key_of(seed) == SEEDS[0] else "seeds"
        raise ConfigError([f"{seed}: {key} says which are trained; leave it out of with"])
    if len(declared["assertions"]) == 2 and declared["assertions"][0] == declared["assertions"][1]:
        raise ConfigError(["assertion 2: is the same as assertion 1"])
    for place, assertion in enumerate(declared["assertions"], 1):
        if assertion["kind"] == EQUIVALENT and assertion["direction"] is not None:
            raise ConfigError([f"assertion {place}: equivalent has no direction; leave it out"])
        check_moderators(assertion["moderators"], conditions, f"assertion {place}: ")
    for place, check in enumerate(declared["checks"], 1):
        low, high = check["above"], check["below"]
        if low is None and high is None:
            raise ConfigError([f"check {place}: says no bound, as above: 0.01"])
        if low is not None and high is not None and low >= high:
            raise ConfigError([f"check {place}: nothing is above {low:g} and below {high:g}"])
    cells, grids = planned(declared)
    of_sweep = {key_of(each): each for each in for_all if each not in shared}  # the last one of a key counts
    return Question(declared, cells, grids, [*of_sweep.values()])


def declaration(written: Written, shared: Sequence[str], conditions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is declared, before it is checked and the directions are found."""
    key, _, values = (written.tune or "").partition("=")
    declared = written.model_dump(exclude={"shared"}) | {
        "format": FORMAT,
        "assertions": [completed(written, place) for place in range(len(written.assertions))],
        "conditions": conditions,
        "with": shared,
        "tune": {"key": key, "values": values or None} if key else None,
    }
    del declared["moderators"]
    if written.starts is None:
        del declared["starts"]
    return declared


def first_runs(declared: Mapping[str, Any]) -> int:
    """Return how many runs a question trains to begin with."""
    values = 1
    if tune := declared["tune"]:
        values = len({float(each) for each in split_commas(tune["values"])}) if tune["values"] else len(START)
    units = len(declared["seeds"]) * len(declared.get("starts") or [0])
    return len(declared["conditions"]) * len(arms_of(declared)) * values * units


def completed(written: Written, place: int) -> dict[str, Any]:
    """Return an assertion with what the question says for all of them."""
    assertion = written.assertions[place]
    found = assertion.model_dump()
    own = assertion.metric is not None or assertion.endpoint is not None
    for key in ("metric", "endpoint", "budget", "moderators"):
        found[key] = getattr(written, key) if found[key] is None else found[key]
    if found["smallest"] is None and not own:  # the question's is of the question's number
        found["smallest"] = written.smallest
    return found


def check_moderators(moderators: Sequence[str], conditions: Sequence[Mapping[str, Any]], at: str) -> None:
    """Raise ConfigError for a moderator that does not vary, or that a condition does not have."""
    if len({*moderators}) < len(moderators):
        raise ConfigError([f"{at}moderator {moderators[0]}: is there twice"])
    for moderator in moderators:
        levels = {each["levels"].get(moderator) for each in conditions}
        if None in levels:
            raise ConfigError([f"{at}moderator {moderator}: not every condition sets it"])
        if len(levels) < 2:
            raise ConfigError([f"{at}moderator {moderator}: does not vary, it is {levels.pop()} in all conditions"])


def planned(declared: dict[str, Any]) -> tuple[list[Cell], dict[str, list[float]]]:
    """Return what is trained, and complete the directions of assertions; ConfigError for what cannot be asked."""
    arms = arms_of(declared)
    trained = {name for name, _ in arms}
    for place, check in enumerate(declared["checks"], 1):
        if check["arm"] is not None and arm_name(check["arm"]) not in trained:
            raise ConfigError([f"check {place}: {arm_name(check['arm'])} is no arm of an assertion or a control"])
    cells, grids, configs = [], {}, {}
    for condition in declared["conditions"]:
        before = [*declared["with"], *condition["overrides"]]
        if tune := declared["tune"]:
            text = tune["key"] if tune["values"] is None else f"{tune['key']}={tune['values']}"
            grids[condition["name"]] = tuned_values(text, before, "")[1]
        made = {}
        for key, own in arms.items():
            check_once([*before, *own], tune)
            made[key] = [*before, *own, *budget_overrides(key[1], [*before, *own], "")]
            config_of(made[key])  # what is wrong with an arm is said before any condition is trained
            cells.append(Cell(condition["name"], *key, tuple(made[key])))
        configs[condition["name"]] = check_condition(declared, condition["name"], made)
    check_scales(declared, configs)
    return cells, grids


def arms_of(declared: Mapping[str, Any]) -> dict[ArmKey, list[str]]:
    """Return the overrides of all arms that are trained; an assertion with a budget of its own has arms of its own."""
    pairs = [(each[side], each["budget"]) for each in declared["assertions"] for side in ("versus", "arm")]
    for control in declared["controls"]:
        pairs += [(control[side], declared["budget"]) for side in ("arm", "versus") if control[side] is not None]
    return {(arm_name(overrides), budget): overrides for overrides, budget in pairs}


def check_once(overrides: Sequence[str], tune: Mapping[str, Any] | None) -> None:
    """Raise ConfigError for a key that is set twice, or set and tuned."""
    given: dict[str, str] = {}
    for override in overrides:
        if (key := key_of(override)) in given:
            raise ConfigError([f"{override}: {given[key]} sets the same key; with, conditions and arms set a key once"])
        if tune and key == tune["key"]:
            raise ConfigError([f"{override}: {key} is tuned; leave one of them out"])
        given[key] = override


def check_condition(declared: dict[str, Any], condition: str, made: Mapping[ArmKey, list[str]]) -> Config:
    """Check the numbers and the pairs of arms in one condition, find the directions, and return the config."""
    for place, each in enumerate(declared["assertions"], 1):
        at = f"assertion {place}: "
        config = config_of(made[arm_name(each["versus"]), each["budget"]])
        if place == 1:
            check_number(declared["metric"], declared["endpoint"], declared["smallest"] or 1.0, config, "")
            for option in ("checks", "secondary"):
                for named in declared[option]:
                    metric = named["metric"] if option == "checks" else named
                    check_number(metric, "final", 1.0, config, f"{option}: ")
            end = better_end(declared["metric"], parsed_endpoint(declared["endpoint"], ""), config)
            if declared["tune"] and end is None:
                raise ConfigError([f"metric={declared['metric']}: has no better end, so nothing is tuned by it"])
        check_number(each["metric"], each["endpoint"], each["smallest"], config, at)
        if each["direction"] is None and each["kind"] != EQUIVALENT:
            each["direction"] = better_end(each["metric"], parsed_endpoint(each["endpoint"], at), config)
            if each["direction"] is None:
                raise ConfigError([f"{at}{each['metric']} has no better end; say direction: higher or lower"])
        check_pair(each, each["budget"], condition, made, at)
    for place, control in enumerate(declared["controls"], 1):
        if control["versus"] is not None:
            check_pair(control, declared["budget"], condition, made, f"control {place}: ")
    return config


def check_pair(
    pair: Mapping[str, Any], budget: str | None, condition: str, made: Mapping[ArmKey, list[str]], at: str
) -> None:
    """Raise ConfigError for two arms that are the same run."""
    names = arm_name(pair["arm"]), arm_name(pair["versus"])
    first, second = (composition(made[name, budget])[1] for name in names)
    if first == second:
        where = "" if condition == "default" else f" in {condition}"
        raise ConfigError([f"{at}{names[0]} and {names[1]} are the same run{where}"])


def check_scales(declared: Mapping[str, Any], configs: Mapping[str, Config]) -> None:
    """Raise ConfigError where conditions measure an assertion on different scales: such effects cannot be pooled."""
    for place, each in enumerate(declared["assertions"], 1):
        metrics = {name: known_metric(each["metric"], config) for name, config in configs.items()}
        scales = {scale_name(metric): f"{metric} in {name}" for name, metric in metrics.items()}
        if len(scales) > 1:
            found = ", ".join(f"{where} ({scale})" for scale, where in scales.items())
            raise ConfigError([f"assertion {place}: conditions have different scales: {found}; name one metric"])
