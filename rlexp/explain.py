"""One line for whatever Hydra, YAML or the file system complains about, in the words of this project."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlexp.compose import CONF, composed
from rlexp.errors import ConfigError, no_such_key
from rlexp.naming import key_of

EXPECTED = (HydraException, OmegaConfBaseException, OSError, ValueError)
HINTS = {"group_size": "; any other pair by value: group_size.completions=10 group_size.prompts=12"}


def explain(error: BaseException, overrides: Sequence[str]) -> str:
    """Return what is wrong; ``overrides`` are those that were typed. Only a ConfigError can have several lines."""
    if isinstance(error, ConfigError):
        return str(error)
    if isinstance(error, yaml.MarkedYAMLError):
        place = error.problem_mark
        return f"{place.name}, line {place.line + 1}: {error.problem}"
    if isinstance(error, OverrideParseException):
        return f"{error.override}: cannot be read as key=value ({first_line(error)})"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    for pattern, sentence in SENTENCES:
        if match := re.search(pattern, str(error), re.DOTALL):
            return sentence(match, overrides)
    text = flat(error)
    return text if isinstance(error, EXPECTED) else f"{type(error).__name__}: {text} (HYDRA_FULL_ERROR=1 shows where)"


def flat(error: BaseException) -> str:
    """Join the lines of a message, and of its cause if that is what says something."""
    texts = [text for text in (str(error), str(error.__cause__ or "")) if text] or [type(error).__name__]
    return ": ".join(re.sub(r"\s*\n\s*", "; ", text.strip()) for text in texts)


def first_line(error: BaseException) -> str:
    """Return the first line of a message."""
    return str(error).partition("\n")[0]


def wrong_choice(match: re.Match, overrides: Sequence[str]) -> str:
    """`norm=typo`: the group has no such file."""
    group, _, choice = match["config"].rpartition("/")
    choices = sorted(match["choices"].split(), key=lambda name: (int(name) if name.isdigit() else 0, name))
    text = f"{group}={choice}: no such choice; there are {', '.join(choices)}{HINTS.get(group, '')}"
    return text if match["parent"] in ("config", "hydra/config") else f"{match['parent']}.yaml: {text}"


def missing_file(match: re.Match, overrides: Sequence[str]) -> str:
    """A config that is in no group."""
    return f"{match['config']}: no such config file"


def no_text(match: re.Match, overrides: Sequence[str]) -> str:
    """`norm=null`."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    wrong = [each for each in parsed if (CONF / each.key_or_group).is_dir() and not isinstance(each.value(), str)]
    choices = sorted(file.stem for each in wrong[:1] for file in (CONF / each.key_or_group).glob("*.yaml"))
    return f"{wrong[0].input_line}: no such choice; there are {', '.join(choices)}" if wrong else match[0]


def wrong_key(match: re.Match, overrides: Sequence[str]) -> str:
    """`nrm=local`: Hydra's hint, to put a plus in front, would only hide the mistake."""
    key = match["key"]
    text = next((override for override in overrides if key_of(override) == key), key)
    parent, _, last = key.rpartition(".")
    valid = valid_keys(parent, [override for override in overrides if key_of(override) != key])
    return f"{text}: {no_such_key(last, valid)}" if valid else f"{text}: no such key"


def valid_keys(parent: str, overrides: Sequence[str]) -> list[str]:
    """Return the keys below ``parent`` that the other overrides leave; none if these cannot be composed either."""
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
        single = [override.input_line for override in parsed if not override.is_sweep_override()]
        settings = composed(*(override for override in single if not override.startswith("hydra")))
        return [str(key) for key in (OmegaConf.select(settings, parent) if parent else settings)]
    except Exception:  # only a suggestion is lost
        return []


def needs_multirun(match: re.Match, overrides: Sequence[str]) -> str:
    """`norm=local,global` in a single run."""
    key, _, values = match["override"].partition("=")
    return f"{match['override']}: a sweep over several values needs -m; one value that is a list is {key}=[{values}]"


def chosen_already(match: re.Match, overrides: Sequence[str]) -> str:
    """`+norm=local`."""
    return f"{match['key']}: is chosen already; to replace the choice write {match['key']}=... without a plus"


SENTENCES = [
    (r"(?:In '(?P<parent>[^']*)': )?Could not find '(?P<config>[^']*/[^']*)'\s+Available options[^\n]*:(?P<choices>.*?)"
     r"(?:Config search path|$)", wrong_choice),
    (r"(?:Could not find|Cannot find primary config) '(?P<config>[^']*)'", missing_file),
    (r"^Config group override must be a string.*", no_text),
    (r"Could not override '(?P<key>[^']*)'", wrong_key),
    (r"(?:Ambiguous value for argument|Sweep parameters) '(?P<override>[^']*)'", needs_multirun),
    (r"^(?P<key>\S+) appears more than once in the final defaults list", chosen_already),
]  # fmt: skip
