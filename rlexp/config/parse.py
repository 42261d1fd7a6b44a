"""From what is typed to what Hydra reads, and the mistakes that show in the text alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep, Transformer
from hydra.errors import HydraException

from rlexp.config.choices import choices_of, groups, keys, no_such_choice
from rlexp.core.errors import ConfigError
from rlexp.runfolder.variants import key_of, number

INPUT_FOLDERS = ("teacher.run", "model.path")
QUOTED = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "baseline", "study.baseline", *INPUT_FOLDERS)
WITH_VALUE = "--config-path -cp --config-name -cn --config-dir -cd --cfg -c --package -p --info -i".split()
FLAGS = ("-m", "--multirun", "--resolve")
MAX_RUNS = "hydra.launcher.max_runs"
NUMBERED_GROUP = r"([+]{0,2}group_size(?:@[^=]*)?)"  # a group whose choices are called by numbers
SINGLE_CHOICE = re.compile(r"^([^=]+)=choice\(([^,()]*)\)$")


def for_hydra(arguments: Sequence[str]) -> list[str]:
    """Return arguments as Hydra reads them: see ``quote_text``, ``quote_numbers`` and ``below_swept_choices``."""
    return quote_numbers(below_swept_choices([quote_text(argument) for argument in arguments]))


def overrides_in(arguments: Iterable[str]) -> list[str]:
    """Return those of the arguments that are overrides; options, and what they take, have no ``=`` outside."""
    return [argument for argument in arguments if "=" in argument and not argument.startswith("-")]


def parse_override(override: str) -> Override | None:
    """Return an override as Hydra reads it, None if it cannot."""
    try:
        return OverridesParser.create().parse_override(*quote_numbers([override]))
    except HydraException:
        return None


def quote_numbers(overrides: Iterable[str]) -> list[str]:
    """`group_size=8` → `group_size='8'`: Hydra reads 8 as an integer, and refuses an integer as a choice."""
    return [re.sub(rf"^{NUMBERED_GROUP}=(-?\d+)$", r"\1='\2'", override) for override in overrides]


def quote_text(argument: str) -> str:
    """`hydra.run.dir=a b/lr=1,seed=0` → `hydra.run.dir='a b/lr=1,seed=0'`; `baseline=norm=local`, too.

    A folder that is read may be one of several in a sweep: it is quoted if the whole of it exists.
    """
    key, _, text = argument.partition("=")
    if key not in QUOTED or text[:1] in ("", "'", '"', "$") or key in INPUT_FOLDERS and not Path(text).exists():
        return argument
    parsed = parse_override(argument)
    plain = parsed is not None and not parsed.is_sweep_override() and parsed.value() in (text, None)
    return argument if plain else "{}='{}'".format(key, text.replace("'", r"\'"))


def is_sweep(arguments: Sequence[str]) -> bool:
    """Whether the arguments say by themselves that a sweep is meant."""
    return any(argument in ("-m", "--multirun", "hydra.mode=MULTIRUN") for argument in arguments)


def options_first(arguments: Sequence[str]) -> list[str]:
    """`norm=local -m lr=1` → `-m norm=local lr=1`: Hydra's parser takes overrides in one stretch only."""
    return sorted(arguments, key=lambda argument: argument not in FLAGS)


def below_swept_choices(arguments: Sequence[str]) -> list[str]:
    """`-m start=sft,flattened start.accuracy=0.3` → `start.accuracy=choice(0.3)`.

    Hydra composes a sweep without what is swept before it composes the jobs: it would refuse a key that only the swept
    choices have. What one of several recipes chooses is not known here, so they count for every axis. A value that is
    swept already, or no plain one, stays.
    """
    if not is_sweep(arguments):
        return list(arguments)
    parsed = {argument: parse_override(argument) for argument in overrides_in(arguments)}
    swept = {key_of(argument) for argument, override in parsed.items() if override and override.is_sweep_override()}
    axes = groups() if swept & {"preset", "study"} else swept & groups().keys()
    read = list(arguments)
    for place, argument in enumerate(arguments):
        (axis, dot, _), (key, _, text) = key_of(argument).partition("."), argument.partition("=")
        override = parsed.get(argument) if dot and axis in axes and re.fullmatch(r"[\w.+-]+", text) else None
        if override and not override.is_sweep_override():
            read[place] = f"{key}=choice({text})"
    return read


def as_typed(overrides: Iterable[str]) -> list[str]:
    """Undo ``quote_numbers`` and ``below_swept_choices``: names and records hold what was typed."""
    unquoted = (re.sub(rf"^{NUMBERED_GROUP}='(-?\d+)'$", r"\1=\2", override) for override in overrides)
    return [SINGLE_CHOICE.sub(r"\1=\2", override) for override in unquoted]


def check(arguments: Sequence[str]) -> None:
    """Raise ConfigError, a line for each mistake that shows in the arguments alone."""
    problems = [*word_problems(arguments)]
    for key, same in repeated_keys(arguments).items():  # Hydra would take the last, as it does of other keys
        if key in groups() or key == "seed" and is_sweep(arguments):
            values = ",".join(dict.fromkeys(argument.partition("=")[2] for argument in same))
            problem = f"{key} is given {len(same)} times; to compare them write -m {key}={values}"
            problems.append(f"{' '.join(same)}: {problem}")
    if problems := [*problems, *value_problems(arguments)]:
        raise ConfigError(problems)


def remarks(arguments: Sequence[str]) -> Iterator[str]:
    """`steps=5 steps=7`: allowed, the last holds."""
    yield from (f"{' '.join(same)}: the last holds" for same in repeated_keys(arguments).values())


def repeated_keys(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Return the keys that are set more than once, each with its overrides."""
    found: dict[str, list[str]] = {}
    for argument in overrides_in(arguments):
        if not argument.startswith(("+", "~")):
            found.setdefault(key_of(argument), []).append(argument)
    return {key: same for key, same in found.items() if len(same) > 1}


def word_problems(arguments: Sequence[str]) -> Iterator[str]:
    """`--steps 100`, `norm local`, `norm=local, global`: a space, or dashes, where none belong."""
    known = {*groups(), *keys()}
    for place, argument in enumerate(arguments):
        before, rest = arguments[place - 1] if place else "", arguments[place + 1 : place + 3]
        name, equals, value = argument.lstrip("-").partition("=")
        after = next((word for word in rest if word != "="), "")
        if argument.startswith("--") and name.replace("-", "_").partition(".")[0] in known:
            value = value or ("" if "=" in after or after.startswith("-") else after) or "..."
            yield f"{argument}: keys have no dashes; write {name.replace('-', '_')}={value}"
        elif before not in WITH_VALUE and argument in known and after and "=" not in after and after[0] != "-":
            yield f"{' '.join([argument, *rest[: 1 + ('=' in rest[:1])]])}: write {argument}={after}, without spaces"
        elif equals and argument.endswith(",") and after:
            yield f"{argument} {after}: write {argument}{after}, without a space"
        elif argument != "=" and re.fullmatch(r"[+~]*(=.*)?", argument, re.DOTALL):
            yield f"'{argument}': has no key; write key=value, as norm=local"


def value_problems(arguments: Sequence[str]) -> Iterator[str]:
    """`norm=[local,global]`, `seed=0,0,1`, `study=lecture17,norms`."""
    for argument in overrides_in(arguments):
        parsed, key = parse_override(argument), key_of(argument)
        if parsed is None:
            continue
        if key in groups() and isinstance(parsed._value, list):
            values, known = [str(value) for value in parsed._value], choices_of(key)
            unknown = [value for value in values if value not in known] or ["[]"] * (not values)
            several = f"a run has one {key}; to compare them write -m {key}={','.join(values)}"
            yield f"{argument}: {no_such_choice(key, unknown[0], known) if unknown else several}"
        if key in groups() and isinstance(parsed._value, str) and re.search(r"^/|(^|/)\.\.?(/|$)", parsed._value):
            yield f"{argument}: a choice is a name, not a path; rlexp explain {key} lists them"
        if key.startswith("hydra.callbacks.rlexp"):
            yield f"{argument}: checks every run before it starts, and cannot be changed"
        if key == "study" and parsed.is_sweep_override():
            yield f"{argument}: a study is a sweep of its own; start them one after another"
        if isinstance(parsed.value(), ChoiceSweep) and (twice := repeated_values(parsed)):
            yield f"{argument}: {', '.join(twice)} {'is' if len(twice) == 1 else 'are'} named more than once"


def repeated_values(sweep: Override) -> list[str]:
    """Return the values of a sweep that it has more than once, however they are written."""
    texts = [str(value) for value in sweep.sweep_iterator(transformer=Transformer.encode)]
    values = [text if (value := number(text)) is None else value for text in texts]
    return list(dict.fromkeys(text for place, text in enumerate(texts) if values[place] in values[:place]))


def check_size(overrides: Sequence[Override], most: int | None) -> None:
    """Raise ConfigError for a sweep of more runs than ``most``, by what it would make: `lr=range(0,100000)`."""
    last = {override.get_key_element(): override for override in overrides}.values()
    sweeps = {override.input_line: length(override) for override in last if override.is_sweep_override()}
    swept = " ".join(line for line, runs in sweeps.items() if runs != 1)
    if math.inf in sweeps.values():
        raise ConfigError([f"{swept}: never ends, as its step is 0"])
    if most is not None and (runs := math.prod(sweeps.values())) > most:
        raise ConfigError([f"{swept}: makes {runs} runs, more than {most}; if they are meant, write {MAX_RUNS}={runs}"])


def length(sweep: Override) -> int | float:
    """Return how many values a sweep has; those of a range are not listed."""
    value = sweep.value()
    if not isinstance(value, RangeSweep):
        return sum(1 for _ in sweep.sweep_iterator()) if sweep.is_discrete_sweep() else 1
    return max(0, math.ceil((value.stop - value.start) / value.step)) if value.step else math.inf
