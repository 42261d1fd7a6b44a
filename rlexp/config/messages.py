"""One line for whatever Hydra, YAML or the file system complains about, in the words of this project."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlexp.config.choices import choices_of, groups, groups_with, keys, no_key, no_such_choice, value_at
from rlexp.config.compose import composed
from rlexp.config.parse import parse_override
from rlexp.core.errors import ConfigError
from rlexp.runfolder.variants import key_of

EXPECTED = (HydraException, OmegaConfBaseException, OSError, ValueError)


def explain(error: BaseException, overrides: Sequence[str]) -> str:
    """Return what is wrong; ``overrides`` are those that were typed. Only a ConfigError can have several lines."""
    if isinstance(error, ConfigError):
        return "\n".join(deleted(line, overrides) for line in error.problems)
    if isinstance(error, yaml.MarkedYAMLError):
        place = error.problem_mark
        return f"{place.name}, line {place.line + 1}: {error.problem}"
    if isinstance(error, yaml.YAMLError | UnicodeDecodeError):
        return f"a YAML file cannot be read: {flat(error)}"
    if isinstance(error, OverrideParseException):
        return unreadable(error)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, RecursionError):
        return "brackets are nested too deeply"
    whole = f"{error}\n{error.__cause__ or ''}"
    for pattern, sentence in SENTENCES:
        if match := re.search(pattern, whole, re.DOTALL):
            found = match.groupdict(default="a key")
            return sentence.format_map(found) if isinstance(sentence, str) else sentence(found, overrides)
    text = flat(error)
    return text if isinstance(error, EXPECTED) else f"{type(error).__name__}: {text} (HYDRA_FULL_ERROR=1 shows where)"


def deleted(problem: str, overrides: Sequence[str]) -> str:
    """Say of a key that is missing because of `~norm.eps` what to write instead."""
    key = problem.removesuffix(": is missing")
    if f"~{key}" not in overrides:
        return problem
    kind = "choice" if key in groups() else "value"
    return f"~{key}: a default cannot be deleted; write {key}=... for another {kind}"


def flat(error: BaseException) -> str:
    """Join the lines of a message, and of its cause if that is what says something."""
    texts = [text for text in (str(error), str(error.__cause__ or "")) if text] or [type(error).__name__]
    return ": ".join(re.sub(r"\s*\n\s*", "; ", text.strip()) for text in texts)


def unreadable(error: OverrideParseException) -> str:
    """`foo`, `norm=local,`, `teacher.run=runs/x/norm=local,seed=0`."""
    text = error.override.strip()
    if "=" not in text:
        meant = [f"{group}={text}" for group in groups_with(text)] or [f"{text}=..."] * (text in (*groups(), *keys()))
        hint = f"; did you mean {' or '.join(meant)}?" if meant else ", as norm=local"
        return f"{text}: cannot be read as key=value{hint}"
    key, _, value = text.partition("=")
    if not key.strip() or value.rstrip().endswith(","):
        return f"{text}: write key=value and key=one,other without spaces"
    line = re.sub(r"^Error when parsing index.*\n", "", str(error)).partition("\n")[0]  # which Hydra 1.4 puts in front
    line = re.sub(r"^LexerNoViableAltException: .*", "a character that is not allowed there", line)
    hint = f"a text with = , or brackets needs quotes of its own: {key}='\"{value}\"'"
    return f"{text}: cannot be read as key=value ({line}); {hint}"


def wrong_choice(found: dict[str, str], overrides: Sequence[str]) -> str:
    """`norm=typo`: the group has no such file."""
    group, _, choice = found["config"].rpartition("/")
    text = no_such_choice(group, choice, found["choices"].split())
    return text if found["parent"] in ("config", "hydra/config") else f"{found['parent']}.yaml: {text}"


def choice_not_text(found: dict[str, str], overrides: Sequence[str]) -> str:
    """`norm=null`, `kl=0.1`."""
    for override in filter(None, map(parse_override, overrides)):
        if (known := choices_of(override.key_or_group)) and not isinstance(override.value(), str):
            return no_such_choice(override.key_or_group, override.input_line.partition("=")[2], known)
    return found["error"]


def wrong_key(found: dict[str, str], overrides: Sequence[str]) -> str:
    """`nrm=local`: Hydra's hint, to put a plus in front, would only hide the mistake."""
    key = found["key"]
    text = next((override for override in overrides if key_of(override) == key), key)
    return f"{text}: {no_key(key, settings_without(key, overrides))}"


def needs_multirun(found: dict[str, str], overrides: Sequence[str]) -> str:
    """`norm=local,global` in a single run."""
    key, _, values = found["override"].partition("=")
    value = value_at(settings_without(key, overrides), key)
    if isinstance(value, list):
        return f"{key}={values}: a list is written {key}=[{values}]"
    one_number = isinstance(value, float) and re.fullmatch(r"\d+,\d+", values)
    meant = f"; if one number is meant, write {key}={values.replace(',', '.')}" if one_number else ""
    return f"{key}={values}: a sweep over several values needs -m{meant}"


def settings_without(key: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the settings that the overrides of other keys give; none if these cannot be composed either."""
    try:
        others = [override for override in overrides if key_of(override) != key and not override.startswith("hydra")]
        settings = composed(*(each for each in others if not parse_override(each).is_sweep_override()))
        return OmegaConf.to_container(settings, resolve=False)
    except Exception:  # only a suggestion is lost
        return {}


def no_value(found: dict[str, str], overrides: Sequence[str]) -> str:
    """`lr=${nope}`."""
    typed = (override.replace("\\", "") for override in overrides)  # Hydra's sweeper writes `$\{nope\}`
    text = next((override for override in typed if "${" in override and found["name"] in override), found["key"])
    return f"{text}: takes its value from {found['name']}, which is not there"


# What Hydra and OmegaConf say, and the sentence instead; a key that they do not name is `a key`.
SENTENCES = [
    (r"(?:Interpolation key|Environment variable) '(?P<name>[^']*)' not found(?:.*full_key: (?P<key>\S+))?", no_value),
    (r"Unsupported interpolation type (?P<name>\S+)(?:.*full_key: (?P<key>\S+))?", no_value),
    (r"while resolving interpolation: Index '(?P<wanted>[^']*)' \(str\) is not an int(?:.*full_key: (?P<key>[^\s;]+))?",
     "{key}: takes its value from `{wanted}` of a choice whose file has no keys and values"),  # as score.metric
    (r"^Error merging override (?P<override>[^\n]*?)\s*field '[^']*' is not Optional", "{override}: must not be null"),
    (r"(?:In '(?P<parent>[^']*)': )?Could not find '(?P<config>[^']*/[^']*)'\s+Available options[^\n]*:(?P<choices>.*?)"
     r"(?:Config search path|$)", wrong_choice),
    (r"(?:Could not find|Cannot find primary config) '(?P<config>[^']*)'", "{config}: no such config file"),
    (r"^(?P<error>Config group override must be a string.*)", choice_not_text),
    (r"Could not override '(?P<key>[^']*)'", wrong_key),
    (r"(?:Ambiguous value for argument|Sweep parameters) '(?P<override>[^']*)'", needs_multirun),
    (r"^(?P<key>\S+) appears more than once in the final defaults list",
     "{key}: is chosen already; to replace the choice write {key}=... without a plus"),  # `+norm=local`
]  # fmt: skip
