"""One line for whatever Hydra, YAML or the file system complains about, in the words of this project."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlexp.config.choices import choices_of, groups, groups_with, keys
from rlexp.config.compose import composed, quote_numbers
from rlexp.config.hints import no_key, no_such_choice
from rlexp.core.errors import ConfigError
from rlexp.record.naming import key_of

EXPECTED = (HydraException, OmegaConfBaseException, OSError, ValueError)


def explain(error: BaseException, overrides: Sequence[str]) -> str:
    """Return what is wrong; ``overrides`` are those that were typed. Only a ConfigError can have several lines."""
    if isinstance(error, ConfigError):
        return str(error)
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
            return sentence(match, overrides)
    text = flat(error)
    return text if isinstance(error, EXPECTED) else f"{type(error).__name__}: {text} (HYDRA_FULL_ERROR=1 shows where)"


def flat(error: BaseException) -> str:
    """Join the lines of a message, and of its cause if that is what says something."""
    texts = [text for text in (str(error), str(error.__cause__ or "")) if text] or [type(error).__name__]
    return ": ".join(re.sub(r"\s*\n\s*", "; ", text.strip()) for text in texts)


def first_line(error: BaseException) -> str:
    """Return a message's first line, without the one that Hydra 1.4 puts in front: `Error when parsing index…`."""
    line = re.sub(r"^Error when parsing index.*\n", "", str(error)).partition("\n")[0]
    return re.sub(r"^LexerNoViableAltException: .*", "a character that is not allowed there", line)


def wrong_choice(match: re.Match, overrides: Sequence[str]) -> str:
    """`norm=typo`: the group has no such file."""
    group, _, choice = match["config"].rpartition("/")
    text = no_such_choice(group, choice, match["choices"].split())
    return text if match["parent"] in ("config", "hydra/config") else f"{match['parent']}.yaml: {text}"


def missing_file(match: re.Match, overrides: Sequence[str]) -> str:
    """A config that is in no group."""
    return f"{match['config']}: no such config file"


def choice_not_text(match: re.Match, overrides: Sequence[str]) -> str:
    """`norm=null`, `kl=0.1`."""
    for override in OverridesParser.create().parse_overrides(quote_numbers(overrides)):
        group = override.key_or_group
        if choices_of(group) and not isinstance(override.value(), str):
            return no_such_choice(group, override.input_line.partition("=")[2], choices_of(group))
    return match[0]


def wrong_key(match: re.Match, overrides: Sequence[str]) -> str:
    """`nrm=local`: Hydra's hint, to put a plus in front, would only hide the mistake."""
    key = match["key"]
    text = next((override for override in overrides if key_of(override) == key), key)
    return f"{text}: {no_key(key, settings_without(key, overrides))}"


def settings_without(key: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the settings that the overrides of other keys give; none if these cannot be composed either."""
    try:
        others = [override for override in overrides if key_of(override) != key and not override.startswith("hydra")]
        parsed = OverridesParser.create().parse_overrides(quote_numbers(others))
        settings = composed(*(each.input_line for each in parsed if not each.is_sweep_override()))
        return OmegaConf.to_container(settings, resolve=False)
    except Exception:  # only a suggestion is lost
        return {}


def needs_multirun(match: re.Match, overrides: Sequence[str]) -> str:
    """`norm=local,global` in a single run."""
    key, _, values = match["override"].partition("=")
    value = value_at(settings_without(key, overrides), key)
    if isinstance(value, list):
        return f"{match['override']}: a list is written {key}=[{values}]"
    if isinstance(value, float) and re.fullmatch(r"\d+,\d+", values):
        meant = f"; if one number is meant, write {key}={values.replace(',', '.')}"
    else:
        meant = ""
    return f"{match['override']}: a sweep over several values needs -m{meant}"


def value_at(settings: Any, key: str) -> Any:
    """Return what nested settings hold at a key as `eval.ks`, None if nothing."""
    for step in key.split("."):
        settings = settings.get(step) if isinstance(settings, dict) else None
    return settings


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
    hint = f"a text with = , or brackets needs quotes of its own: {key}='\"{value}\"'"
    return f"{text}: cannot be read as key=value ({first_line(error)}); {hint}"


def chosen_already(match: re.Match, overrides: Sequence[str]) -> str:
    """`+norm=local`."""
    return f"{match['key']}: is chosen already; to replace the choice write {match['key']}=... without a plus"


def no_value(match: re.Match, overrides: Sequence[str]) -> str:
    """`lr=${nope}`."""
    text = next((override for override in overrides if "${" in override and match["name"] in override), None)
    return f"{text or match['key'] or 'a key'}: takes its value from {match['name']}, which is not there"


def no_mapping(match: re.Match, overrides: Sequence[str]) -> str:
    """`task=mine`, whose file holds a list: `score.metric` takes its value from the task."""
    key, wanted = match["key"] or "a key", match["wanted"]
    return f"{key}: takes its value from `{wanted}` of a choice whose file has no keys and values"


def null_refused(match: re.Match, overrides: Sequence[str]) -> str:
    """`hydra.run.dir=null`."""
    return f"{match['override']}: must not be null"


SENTENCES = [
    (r"(?:Interpolation key|Environment variable) '(?P<name>[^']*)' not found(?:.*full_key: (?P<key>\S+))?", no_value),
    (r"Unsupported interpolation type (?P<name>\S+)(?:.*full_key: (?P<key>\S+))?", no_value),
    (r"while resolving interpolation: Index '(?P<wanted>[^']*)' \(str\) is not an int(?:.*full_key: (?P<key>[^\s;]+))?",
     no_mapping),
    (r"^Error merging override (?P<override>[^\n]*?)\s*field '[^']*' is not Optional", null_refused),
    (r"(?:In '(?P<parent>[^']*)': )?Could not find '(?P<config>[^']*/[^']*)'\s+Available options[^\n]*:(?P<choices>.*?)"
     r"(?:Config search path|$)", wrong_choice),
    (r"(?:Could not find|Cannot find primary config) '(?P<config>[^']*)'", missing_file),
    (r"^Config group override must be a string.*", choice_not_text),
    (r"Could not override '(?P<key>[^']*)'", wrong_key),
    (r"(?:Ambiguous value for argument|Sweep parameters) '(?P<override>[^']*)'", needs_multirun),
    (r"^(?P<key>\S+) appears more than once in the final defaults list", chosen_already),
]  # fmt: skip
