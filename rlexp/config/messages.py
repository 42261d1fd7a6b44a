"""One line for whatever Hydra, YAML or the file system complains about, in the words of this project.

And what was probably meant by a name that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlexp.config.choices import (
    choices_of,
    choices_with,
    claims,
    groups,
    groups_with,
    in_order,
    keys,
    studies_of,
    value_at,
    values_of,
)
from rlexp.config.compose import composed, quote_numbers
from rlexp.core.errors import ConfigError, closest, no_such_key
from rlexp.runfolder.variants import key_of

COMPLETIONS_A_STEP = 128  # in the files of group_size
# Fields of TRL's GRPOConfig and of verl, and the axes in whole words, under their names here.
ELSEWHERE = {
    "normalization": "norm",
    "normalisation": "norm",
    "aggregation": "agg",
    "clipping": "clip",
    "filtering": "filter",
    "learning_rate": "lr",
    "lr_rate": "lr",
    "max_steps": "steps",
    "num_iterations": "inner_steps",
    "num_generations": "group_size.completions",
    "rollout_n": "group_size.completions",
    "beta": "kl.coef",
    "kl_coef": "kl.coef",
    "epsilon": "clip.low",
    "epsilon_high": "clip.high",
    "clip_ratio": "clip.high",
    "loss_type": "agg",
    "loss_agg_mode": "agg",
    "scale_rewards": "norm",
    "adv_estimator": "norm",
    "advantage": "norm",
    "max_completion_length": "task.cap",
    "max_grad_norm": "grad_clip",
    "entropy_coeff": "entropy_coef",
    "n_seeds": "seed",
    "num_seeds": "seed",
}


def no_such_choice(group: str, choice: str, known: Sequence[str]) -> str:
    """Say that a group has no such choice, and what there is, or what it may have been."""
    text, there_are = f"{group}={choice}: no such choice", f"there are {', '.join(in_order(known))}"
    if (group, choice) == ("task", "text"):
        return f"{text}; with backend=trl every task is text, as task=sort"
    if group == "study" and choice in claims():
        return f"{text}, but a claim with {', '.join(studies_of(choice))}"
    if group == "group_size" and choice.isdigit() and int(choice) > 0:
        # about as many completions a step as in the files; minibatches are two, and groups are not split
        prompts = 2 * max(1, round(COMPLETIONS_A_STEP / int(choice) / 2))
        by_value = f"group_size.completions={int(choice)} group_size.prompts={prompts}"
        return f"{text}; {there_are}; any other by value: {by_value}"
    if number(choice) is not None and group in groups() and group != "group_size":
        values = values_of(group, groups()[group].default)
        if numbers := [key for key, value in values.items() if type(value) in (int, float)]:
            example = f"a number is a key below it, as {group}.{numbers[0]}={choice}"
            return f"{text}; {example}. The choices: {', '.join(known)}"
    meant = [f"{other}={choice}" for other in groups_with(choice) if other != group and not choice.isdigit()]
    meant += [f"{group}={name}" if meant else name for name in closest(choice, known, cutoff=0.7)]
    if meant:
        more = f" (rlexp explain {group} has all {len(known)})" if group in groups() else ""
        return f"{text}; did you mean {' or '.join(meant)}?{more}"
    return f"{text}; {there_are}"


def number(text: str) -> float | None:
    """Return the number that a text is, None if it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def no_key(key: str, settings: Mapping[str, Any]) -> str:
    """Say that a composed config has no such key, and what was probably meant."""
    parent, _, last = key.rpartition(".")
    group, _, below = key.partition(".")
    if below and group in groups() and (having := choices_with(group, below)):
        return f"the {group} that is chosen has no {below}; there is one with {group}={', '.join(having)}"
    if parent and (not settings or group in settings):
        node = value_at(settings, parent)
        valid = [str(name) for name in node if name != "name"] if isinstance(node, Mapping) else []
        return no_such_key(last, valid) if valid else "no such key"
    if parent:
        close = closest(group, settings)
        return f"no such key; did you mean {close[0]}.{below}?" if close else "no such key"
    meant = [*paths_to(key, settings)] or closest(key, [*settings, *ELSEWHERE])
    if meant and meant[0] in ELSEWHERE:
        return f"no such key; {meant[0]} is {ELSEWHERE[meant[0]]} here"
    there_are = f"there are {', '.join(sorted(settings))}"
    return f"no such key; did you mean {' or '.join(meant)}?" if meant else f"no such key; {there_are}"


def paths_to(last: str, settings: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the keys at any depth that end with a name: `eps` → `norm.eps`."""
    for key, value in settings.items():
        if key == last and above:
            yield f"{above}{key}"
        if isinstance(value, Mapping):
            yield from paths_to(last, value, f"{above}{key}.")


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
    for override in OverridesParser.create().parse_overrides(quote_numbers(overrides)):
        group = override.key_or_group
        if choices_of(group) and not isinstance(override.value(), str):
            return no_such_choice(group, override.input_line.partition("=")[2], choices_of(group))
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
        parsed = OverridesParser.create().parse_overrides(quote_numbers(others))
        settings = composed(*(each.input_line for each in parsed if not each.is_sweep_override()))
        return OmegaConf.to_container(settings, resolve=False)
    except Exception:  # only a suggestion is lost
        return {}


def no_value(found: dict[str, str], overrides: Sequence[str]) -> str:
    """`lr=${nope}`."""
    text = next((override for override in overrides if "${" in override and found["name"] in override), found["key"])
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
