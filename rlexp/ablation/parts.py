"""What a recipe has that another one has not, as parts that can be switched on one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rlexp.config.choices import groups
from rlexp.core.errors import ConfigError, format_override, format_value
from rlexp.question.composition import WHO_ASKS, composition
from rlexp.runfolder.variants import key_of, split_commas


class Part(NamedTuple):
    """A part of a recipe: the overrides that switch it on, as `clip=higher`."""

    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        return "+".join(self.overrides)


def parse_parts(text: str) -> list[Part]:
    """Return the parts of `clip=higher,agg=token,critic=ppo+norm=gae`: those that `+` joins are one part."""
    parts = [Part(tuple(each for each in part.split("+") if each)) for part in split_commas(text)]
    for part in parts:
        if wrong := next((each for each in part.overrides if "=" not in each), None):
            raise ConfigError([f"--parts {wrong}: is no override; write key=value, as clip=higher or entropy_coef=0"])
    if not parts:
        raise ConfigError(["--parts: there are none; write them as clip=higher,agg=token"])
    return parts


def parts_between(recipe: Sequence[str], against: Sequence[str]) -> list[Part]:
    """Return the parts in which the run of some overrides differs from the run of others.

    A group whose choice differs is one part, with those of its keys that differ from the choice's own; of a group with
    the same choice, and of what stands beside the groups, each key is one. Keys that only follow another one, as
    `score.metric` follows the task, are none.

    Raises:
        ConfigError: the two are the same run; or there is no telling how one becomes the other.
    """
    (choices, wanted), (present_choices, present) = composition(recipe), composition(against)
    parts = []
    for group in groups():
        if group in WHO_ASKS or branch(wanted, group) == branch(present, group):
            continue
        if choices[group] != present_choices[group]:
            choice = f"{group}={choices[group]}"
            _, switched = composition([*against, choice])
            parts.append(Part((choice, *differing(switched, wanted, group))))
        else:
            parts += [Part((override,)) for override in differing(present, wanted, group)]
    reached = overrides_of(parts, against)
    parts += [Part((override,)) for override in differing(composition(reached)[1], wanted)]
    if not parts:
        raise ConfigError([f"{' '.join(recipe)}: is the same run as {' '.join(against) or 'the default'}"])
    if left := [*differing(composition(overrides_of(parts, against))[1], wanted)]:
        raise ConfigError([f"{' '.join(recipe)}: is not reached by parts ({left[0]} is left); name them with --parts"])
    return parts


def overrides_of(parts: Iterable[Part], against: Sequence[str]) -> list[str]:
    """Return the overrides of a run with some parts."""
    return [*against, *(override for part in parts for override in part.overrides)]


def check_parts(parts: Sequence[Part], against: Sequence[str], alone: bool = False) -> None:
    """Raise ConfigError for a part that changes nothing, and for a key of two parts unless each is trained `alone`."""
    given: dict[str, str] = {}
    for part in parts:
        given = {} if alone else given
        for override in part.overrides:
            if (key := key_of(override)) in given:
                hint = "a key can be in one part, unless each is alone (--add-one)"
                raise ConfigError([f"{override}: {given[key]} sets the same key; {hint}"])
            given[key] = override
        if composition(overrides_of([part], against))[1] == composition(against)[1]:
            raise ConfigError([f"{part.name}: changes nothing, as {' '.join(against) or 'the default'} has it already"])


def branch(values: Mapping[str, Any], group: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key.partition(".")[0] == group}


def differing(present: Mapping[str, Any], wanted: Mapping[str, Any], group: str | None = None) -> Iterator[str]:
    """Yield the overrides that turn the keys of a group, or all, into what is wanted."""
    for key, value in wanted.items() if group is None else branch(wanted, group).items():
        if key not in present or present[key] != value:
            yield format_override(key, value) if not isinstance(value, str) else f"{key}={format_value(value)}"
