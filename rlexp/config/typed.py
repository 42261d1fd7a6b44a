"""Between what is typed and what Hydra reads, and the mistakes that show in the text alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep, Transformer
from hydra.errors import HydraException

from rlexp.config.choices import choices_of, groups, keys
from rlexp.config.compose import quote_numbers
from rlexp.config.hints import no_such_choice
from rlexp.core.errors import ConfigError
from rlexp.record.naming import key_of

OUTPUT_FOLDERS = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
INPUT_FOLDERS = ("teacher.run", "model.path")
VARIANTS = ("baseline", "study.baseline")
TAKING_VALUES = ("--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd") + (
    "--cfg",
    "-c",
    "--package",
    "-p",
    "--info",
    "-i",
)
FLAGS = ("-m", "--multirun", "--resolve")
MANY = "hydra.launcher.max_runs"
SINGLE_CHOICE = re.compile(r"^([^=]+)=choice\(([^,()]*)\)$")


def for_hydra(arguments: Sequence[str]) -> list[str]:
    """Return arguments as Hydra reads them: see ``quote_text``, ``quote_numbers`` and ``below_swept_choices``."""
    return quote_numbers(below_swept_choices([quote_text(argument) for argument in arguments]))


def overrides_in(arguments: Iterable[str]) -> list[str]:
    """Return those of the arguments that are overrides; options, and what they take, have no ``=`` outside."""
    return [argument for argument in arguments if "=" in argument and not argument.startswith("-")]


def parse(override: str) -> Override | None:
    """Return an override as Hydra reads it, None if it cannot."""
    try:
        return OverridesParser.create().parse_override(next(iter(quote_numbers([override]))))
    except HydraException:
        return None


def quote_text(argument: str) -> str:
    """`hydra.run.dir=a b/lr=1,seed=0` → `hydra.run.dir='a b/lr=1,seed=0'`; `baseline=norm=local`, too.

    A folder that is read may be one of several in a sweep: it is quoted if the whole of it exists.
    """
    key, _, text = argument.partition("=")
    if key not in (*OUTPUT_FOLDERS, *INPUT_FOLDERS, *VARIANTS) or text[:1] in ("", "'", '"', "$"):
        return argument
    if key in INPUT_FOLDERS and not Path(text).exists():
        return argument
    parsed = parse(argument)
    plain = parsed is not None and not parsed.is_sweep_override() and parsed.value() in (text, None)
    return argument if plain else "{}='{}'".format(key, text.replace("'", r"\'"))


def is_sweep(arguments: Sequence[str]) -> bool:
    """Whether the arguments say by themselves that a sweep is meant."""
    return any(argument in ("-m", "--multirun", "hydra.mode=MULTIRUN") for argument in arguments)


def options_first(arguments: Sequence[str]) -> list[str]:
    """`norm=local -m lr=1` → `-m norm=local lr=1`: Hydra's parser takes overrides in one stretch only."""
    return sorted(arguments, key=lambda argument: argument not in FLAGS)


def shows_config(arguments: Sequence[str]) -> bool:
    """Whether the arguments ask for a config, and not for a run."""
    return any(argument.partition("=")[0] in ("--cfg", "-c", "--info", "-i") for argument in arguments)


def below_swept_choices(arguments: Sequence[str]) -> list[str]:
    """`-m start=sft,flattened start.accuracy=0.3` → `start.accuracy=choice(0.3)`.

    Hydra composes a sweep without what is swept before it composes the jobs: it would refuse a key that only the swept
    choices have. What one of several recipes chooses is not known here, so they count for every axis.
    """
    if not is_sweep(arguments):
        return list(arguments)
    chosen = [argument for argument in overrides_in(arguments) if key_of(argument) in groups()]
    swept = {key_of(argument) for argument in chosen if several(argument)}
    axes = groups() if swept & {"preset", "study"} else swept
    return [
        as_choice(argument) if key_of(argument).partition(".")[0] in axes and "." in key_of(argument) else argument
        for argument in arguments
    ]


def several(override: str) -> bool:
    """Whether an override has several values."""
    parsed = parse(override)
    return parsed is not None and parsed.is_sweep_override()


def as_choice(override: str) -> str:
    """`clip.high=0.3` → `clip.high=choice(0.3)`; what is swept already, or is no plain value, stays."""
    parsed, (key, _, text) = parse(override), override.partition("=")
    plain = parsed is not None and not parsed.is_sweep_override() and re.fullmatch(r"[\w.+-]+", text)
    return f"{key}=choice({text})" if plain else override


def as_typed(overrides: Iterable[str]) -> list[str]:
    """Undo ``below_swept_choices``: names and records hold what was typed."""
    return [SINGLE_CHOICE.sub(r"\1=\2", override) for override in overrides]


def check(arguments: Sequence[str]) -> None:
    """Raise ConfigError, a line for each mistake that shows in the arguments alone."""
    if problems := [*word_problems(arguments), *repeated_keys(arguments), *value_problems(arguments)]:
        raise ConfigError(problems)


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
        elif before not in TAKING_VALUES and argument in known and after and "=" not in after and after[0] != "-":
            yield f"{' '.join([argument, *rest[: 1 + ('=' in rest[:1])]])}: write {argument}={after}, without spaces"
        elif equals and argument.endswith(",") and after:
            yield f"{argument} {after}: write {argument}{after}, without a space"
        elif argument != "=" and re.fullmatch(r"[+~]*(=.*)?", argument, re.DOTALL):
            yield f"'{argument}': has no key; write key=value, as norm=local"


def repeated_keys(arguments: Sequence[str]) -> Iterator[str]:
    """`preset=grpo preset=dapo`: Hydra would take the last, as it does of other keys (`remarks`)."""
    found: dict[str, list[str]] = {}
    for argument in overrides_in(arguments):
        if not argument.startswith(("+", "~")):
            found.setdefault(key_of(argument), []).append(argument)
    for key, same in found.items():
        if len(same) > 1 and (key in groups() or key == "seed" and is_sweep(arguments)):
            values = ",".join(dict.fromkeys(argument.partition("=")[2] for argument in same))
            yield f"{' '.join(same)}: {key} is given {len(same)} times; to compare them write -m {key}={values}"


def value_problems(arguments: Sequence[str]) -> Iterator[str]:
    """`norm=[local,global]`, `seed=0,0,1`, `study=lecture17,norms`."""
    for argument in overrides_in(arguments):
        parsed, key = parse(argument), key_of(argument)
        if parsed is None:
            continue
        if key in groups() and isinstance(parsed._value, list):
            yield f"{argument}: {one_choice(key, [str(value) for value in parsed._value])}"
        if key in groups() and isinstance(parsed._value, str) and re.search(r"^/|(^|/)\.\.?(/|$)", parsed._value):
            yield f"{argument}: a choice is a name, not a path; rlexp explain {key} lists them"
        if key.startswith("hydra.callbacks.rlexp"):
            yield f"{argument}: checks every run before it starts, and cannot be changed"
        if key == "study" and parsed.is_sweep_override():
            yield f"{argument}: a study is a sweep of its own; start them one after another"
        if isinstance(parsed.value(), ChoiceSweep) and (twice := repeated(parsed)):
            yield f"{argument}: {', '.join(twice)} {'is' if len(twice) == 1 else 'are'} named more than once"


def one_choice(group: str, values: Sequence[str]) -> str:
    """Say that a run has one choice of a group, and how several that exist are compared."""
    unknown = [value for value in values if value not in choices_of(group)]
    if unknown or not values:
        return no_such_choice(group, unknown[0] if unknown else "[]", choices_of(group))
    return f"a run has one {group}; to compare them write -m {group}={','.join(values)}"


def check_size(overrides: Sequence[Override], most: int | None) -> None:
    """Raise ConfigError for a sweep of more runs than ``most``, by what it would make: `lr=range(0,100000)`."""
    last = {override.get_key_element(): override for override in overrides}.values()
    sweeps = {override.input_line: length(override) for override in last if override.is_sweep_override()}
    swept = " ".join(line for line, number in sweeps.items() if number != 1)
    if math.inf in sweeps.values():
        raise ConfigError([f"{swept}: never ends, as its step is 0"])
    if most is not None and (runs := math.prod(sweeps.values())) > most:
        raise ConfigError([f"{swept}: makes {runs} runs, more than {most}; if they are meant, write {MANY}={runs}"])


def length(sweep: Override) -> int | float:
    """Return how many values a sweep has; those of a range are not listed."""
    value = sweep.value()
    if not isinstance(value, RangeSweep):
        return sum(1 for _ in sweep.sweep_iterator()) if sweep.is_discrete_sweep() else 1
    return max(0, math.ceil((value.stop - value.start) / value.step)) if value.step else math.inf


def repeated(sweep: Override) -> list[str]:
    """Return the values of a sweep that it has more than once, however they are written."""
    texts = [str(value) for value in sweep.sweep_iterator(transformer=Transformer.encode)]
    numbers = [number(text) for text in texts]
    return list(dict.fromkeys(text for place, text in enumerate(texts) if numbers[place] in numbers[:place]))


def number(text: str) -> str | float:
    """Return the number that a text is, else the text."""
    try:
        return float(text)
    except ValueError:
        return text


def remarks(arguments: Sequence[str]) -> Iterator[str]:
    """`steps=5 steps=7`: allowed, the last holds."""
    overrides = overrides_in(arguments)
    for key in dict.fromkeys(map(key_of, overrides)):
        same = [override for override in overrides if key_of(override) == key and override[0] not in "+~"]
        if len(same) > 1:
            yield f"{' '.join(same)}: the last holds"
