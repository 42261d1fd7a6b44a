"""A question as it is written: assertions about arms over conditions, in YAML. rlexp/question/declare.py checks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from annotated_types import Len
from pydantic import BeforeValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from rlexp.config.choices import CONF, GROUPS
from rlexp.core.errors import ConfigError, format_value, problem_lines
from rlexp.core.numbers import Positive, PositiveInt, Seed, Share
from rlexp.core.registry import StrictModel
from rlexp.runfolder.variants import key_of, parse_override, variant_name

SHIPPED = CONF / "study" / "questions"


def split_arm(value: Any) -> Any:
    """Return the overrides of `clip=higher+inner_steps=2`, which may be a list, too."""
    parts = value.split("+") if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) and "=" in part for part in parts):
        raise PydanticCustomError("arm", "must be overrides, as clip=higher or clip=higher+inner_steps=2")
    return parts


def split_conditions(value: Any) -> Any:
    """Return the overrides of each condition: all combinations of some keys' values, or those that are listed."""
    if isinstance(value, list) and value:
        return [split_arm(each) for each in value]
    if not isinstance(value, Mapping) or not all(isinstance(values, list) and values for values in value.values()):
        raise PydanticCustomError("conditions", "must be keys, each with a list of values, or a list of overrides")
    axes = [
        [f"{key}={each if isinstance(each, str) else format_value(each)}" for each in values]
        for key, values in value.items()
    ]
    return [list(each) for each in product(*axes)]


def said(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise PydanticCustomError("question", "must say what is asked, in a sentence")
    return value


def listed_seeds(value: Any) -> Any:
    return list(range(value)) if type(value) is int else value


Arm = Annotated[list[str], BeforeValidator(split_arm)]


class Assertion(StrictModel):
    """What is said of the difference of two arms."""

    arm: Arm
    versus: Arm = []
    kind: Literal["superior", "equivalent", "not inferior"]
    direction: Literal["higher", "lower"] | None = None
    """Of a superior arm's number; the better end of the metric unless given."""
    metric: str | None = None
    endpoint: str | None = None
    smallest: Positive | None = None
    budget: str | None = None
    moderators: Annotated[list[str], Len(0, 2)] | None = None


class Check(StrictModel):
    """A manipulation check: the mean of a metric over a run, of the assertion's arm unless another one is named."""

    metric: str
    arm: Arm | None = None
    above: float | None = None
    below: float | None = None


class Control(StrictModel):
    """Two arms that must not differ; or, without ``versus``, one that must end where it began."""

    arm: Arm
    versus: Arm | None = None


class Written(StrictModel):
    """The keys of a question's file; docs/ask.md explains them."""

    question: Annotated[str, BeforeValidator(said)]
    source: str = ""
    assertions: Annotated[list[Assertion], Len(1, 2)]
    conditions: Annotated[list[Arm], BeforeValidator(split_conditions)] = [[]]
    moderators: Annotated[list[str], Len(0, 2)] = []
    shared: Arm = Field(default=[], alias="with")
    tune: str | None = None
    starts: Annotated[list[Seed], BeforeValidator(listed_seeds), Len(2)] | None = None
    seeds: Annotated[list[Seed], BeforeValidator(listed_seeds), Len(1)] = list(range(10))
    most_seeds: PositiveInt | None = None
    budget: str | None = None
    metric: str | None = None
    endpoint: str = "final"
    smallest: Positive | None = None
    attainable: Share = 1.0
    checks: list[Check] = []
    controls: list[Control] = []
    secondary: list[str] = []


def read_question(source: str | Path | Mapping[str, Any]) -> Written:
    """Read a question from a YAML file, from one in conf/study/questions by its name, or from a mapping.

    Raises:
        ConfigError: it cannot be read, or has a wrong key or value, a line for each.
    """
    values = source if isinstance(source, Mapping) else read_yaml(source)
    try:
        return Written.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(problem_lines(error, values)) from None


def asked_elsewhere(written: Written, overrides: Sequence[str]) -> tuple[Written, list[str]]:
    """Let what is typed stand in place of what a question says of the same, so that it can be asked of another model.

    A typed key replaces that of ``with``, and a value of the tuned key its grid. A choice of a group, as `task=jsonl`,
    replaces all that ``with`` and ``conditions`` say of that group; conditions that are the same then are one.

    Returns:
        The question, and the overrides that are left for all runs.
    """
    typed = {key_of(override) for override in overrides}
    key = (written.tune or "").partition("=")[0]

    def kept(arm: list[str], replaced: Set[str]) -> list[str]:
        return [each for each in arm if not replaced & {key_of(each), key_of(each).partition(".")[0]}]

    conditions = [kept(each, typed & GROUPS.keys()) for each in written.conditions]
    left = {key_of(each) for condition in conditions for each in condition}
    changed = {
        "conditions": [each for place, each in enumerate(conditions) if each not in conditions[:place]],
        "shared": kept(written.shared, typed),
        "tune": next((override for override in overrides if key_of(override) == key), written.tune),
    }
    if conditions != written.conditions:
        changed["moderators"] = [each for each in written.moderators if each in left]
    return written.model_copy(update=changed), [override for override in overrides if key_of(override) != key]


def read_yaml(source: str | Path) -> Mapping[str, Any]:
    named = SHIPPED / f"{source}.yaml"
    path = named if named.is_file() else Path(source)
    try:
        written = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        names = sorted(file.stem for file in SHIPPED.glob("*.yaml"))
        close = get_close_matches(str(source), names, 1)
        hint = f"did you mean {close[0]}?" if close else f"name a YAML file, or one of {', '.join(names)}"
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError([f"{source}: cannot be read ({reason}); {hint}"]) from None
    except yaml.YAMLError as error:
        raise ConfigError([f"{path}: is no YAML: {' '.join(str(error).split())}"]) from None
    if not isinstance(written, Mapping):
        raise ConfigError([f"{path}: must hold keys, as question and assertions"])
    return written


def arm_name(overrides: list[str]) -> str:
    return "+".join(overrides) or "default"


def named_conditions(conditions: list[list[str]]) -> list[dict[str, Any]]:
    """Return each condition with its name and its level of each key; ConfigError for one that is there twice."""
    found = [
        {"name": variant_name(each), "overrides": each, "levels": dict(map(parse_override, each))}
        for each in conditions
    ]
    names = [each["name"] for each in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError([f"conditions: {twice} is there twice"])
    return found
