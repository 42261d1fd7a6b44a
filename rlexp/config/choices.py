"""What there is to choose from: config groups with their choices in order, other keys, and what is said of them.

Also the nodes of a config that choose a function of an axis, and what was probably meant by a name that does not exist.
Light, so that help and hints come at once.

Choices are YAML files of ``conf/`` and of the folders in ``FOLDERS``, and what ``rlexp.register`` has been told. The
studies of a claim are in one file of conf/study/claims, below their names, which begin with that of the file; each is
written as in a file of its own, but for its name (``compose`` shows Hydra such a file).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from inspect import cleandoc
from operator import attrgetter
from pathlib import Path
from pkgutil import resolve_name
from textwrap import dedent
from typing import Any, Literal, NamedTuple

import yaml

from rlexp.axes import AXES, Axis
from rlexp.config.settings import Settings
from rlexp.core.errors import closest, no_such_key
from rlexp.core.facts import Facts, facts_of
from rlexp.core.numbers import FiniteNonNegative, PositiveInt, Precision, Probability, Seed, Share, Size
from rlexp.core.registry import REGISTERED, StrictModel
from rlexp.runfolder.variants import number

HERE = Path(__file__).resolve().parents[1]
# Where the YAML files are: beside the package in a checkout, in it when it is installed, and where plugins say.
CONF = next(folder for folder in (HERE / "conf", HERE.parent / "conf") if (folder / "config.yaml").is_file())
FOLDERS: list[Path] = []  # those of ``rlexp.add_config_dir``
CLAIMS = CONF / "study" / "claims"
ENTRY_POINTS = "rlexp.plugins"
ABSENT = object()
COMPLETIONS_A_STEP = 128  # in the files of group_size

# The folders of ``conf/``, and what each is about.
GROUPS = {
    "task": "what is to be learned: prompts and a verifier",
    "model": "the policy",
    "backend": "who trains: this loop, many small policies at once, or TRL, one language model a run",
    "group_size": "completions a prompt, and prompts a step",
    "start": "the weights before the first step",
    "data": "whose completions: the policy's as it is, or older ones",
    "critic": "a network that learns what is still to come, for norms that ask for its values",
    "logger": "where metrics are mirrored",
    "filter": "which completions and tokens count, and which groups are sampled anew",
    "preset": "a recipe: its choices replace those above, the command line replaces its",
    "study": "a named sweep with a question and what is expected of it",
}
RECIPES = ("preset", "study")  # groups whose choices are differences on other groups
GROUPS |= {key: axis.text for key, axis in AXES.items() if not axis.place}
# The tables of what the files of a group name, where it is no axis; what is registered goes into the first.
TABLES = {
    "task": ("rlexp.tasks:TASKS", "rlexp.language:TEXT_TASKS"),
    "model": ("rlexp.models:MODELS", "rlexp.language:LANGUAGE_MODELS"),
    "backend": ("rlexp.language:BACKENDS",),
    "start": ("rlexp.loop.start:STARTS",),
    "data": ("rlexp.loop.data:DATA",),
    "critic": ("rlexp.loop.critic:CRITICS",),
    "logger": ("rlexp.record.loggers:LOGGERS",),
}

# Settings that every choice of a group has beside its hyperparameters: type, and value for a registered function.
SETTINGS = {
    "start": {"seed": (Seed | None, None)},
    "filter.refill": {"rounds": (PositiveInt, 10)},
    "teacher": {
        "run": (str | None, None),
        "network": (Literal["policy", "reference"] | None, None),
        "hint": (Literal["answer", "success"] | None, None),
    },
    "distillation": {"weight": (Probability, 1.0)},
    "imitation": {
        "mu_peak": (Probability, 0.1),
        "mu_valley": (Probability, 0.1),
        "mu_warmup": (Probability, 0.0),
        "mu_decay": (Probability, 0.0),
    },
    "kl": {"coef": (FiniteNonNegative, 0.04), "place": (Literal["loss", "reward"], "loss")},
    "reference": {"begin": (Literal["start", "random", "halfway", "run"], "start"), "run": (str | None, None)},
    "reward": {"model": (dict | None, None)},
    "sampler": {
        "products": (Precision | None, None),
        "head": (Literal["float32"] | None, None),
        "top_k": (Size | None, None),
        "top_p": (Share | None, None),
        "training": (Literal["truncated"] | None, None),
    },
}
# Fields of TRL's GRPOConfig and of verl, and the axes in whole words, under their names here.
ELSEWHERE = dict(
    pair.split("=")
    for pair in (
        "normalization=norm normalisation=norm aggregation=agg clipping=clip filtering=filter learning_rate=lr "
        "lr_rate=lr group=group_size max_steps=steps num_iterations=inner_steps num_generations=group_size.completions "
        "rollout_n=group_size.completions beta=kl.coef kl_coef=kl.coef epsilon=clip.low epsilon_high=clip.high "
        "clip_ratio=clip.high loss_type=agg loss_agg_mode=agg scale_rewards=norm adv_estimator=norm advantage=norm "
        "max_completion_length=task.cap max_grad_norm=grad_clip entropy_coeff=entropy_coef n_seeds=seed num_seeds=seed"
    ).split()
)


class Loader(yaml.SafeLoader):
    """YAML as Hydra reads it: ``1e-6`` is a number."""


Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), [*"-+0123456789"])


class ConfigKey(NamedTuple):
    """A group, or a key beside the groups: what it is unless something else is given, as written, and what it means."""

    default: str
    text: str


@cache
def load_plugins() -> None:
    """Import the modules that installed packages name as plugins; one that fails is named on stderr and left out."""
    for plugin in entry_points(group=ENTRY_POINTS):
        try:
            plugin.load()
        except Exception as error:
            print(f"note: the plugin {plugin.name} ({plugin.value}) is left out: {error}", file=sys.stderr)


@cache
def default_run() -> dict[str, Any]:
    """Return config.yaml, its values as they are written there."""
    return yaml.load((CONF / "config.yaml").read_text(encoding="utf-8"), yaml.BaseLoader)


@cache
def groups() -> dict[str, ConfigKey]:
    """Return the groups in the order of config.yaml."""
    listed = [item for each in default_run()["defaults"] if isinstance(each, dict) for item in each.items()]
    return {name: ConfigKey(default, GROUPS[name]) for name, default in listed if name in GROUPS}


@cache
def keys() -> dict[str, ConfigKey]:
    """Return the keys of config.yaml that stand beside the groups, those of a node as ``eval.every``."""
    return dict(described(Settings, default_run()))


def described(model: type[StrictModel], values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, ConfigKey]]:
    """Yield the keys of a model, a node before those below it."""
    for name, field in model.model_fields.items():
        value, text = values[name], field.description or ""
        if isinstance(value, dict):
            yield above + name, ConfigKey("", text)
            yield from described(field.annotation, value, f"{above}{name}.")
        else:
            yield above + name, ConfigKey(f"[{', '.join(value)}]" if isinstance(value, list) else value, text)


def in_order(names: Iterable[str]) -> list[str]:
    """Sort names of choices: numbers by their size, before all others."""
    return sorted(names, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))


def choices_of(group: str) -> list[str]:
    """Return the choices of a group; none if there is no such group."""
    load_plugins()
    names = {file.stem for folder in (CONF, *FOLDERS) for file in (folder / group).glob("*.yaml")}
    names |= studies().keys() if group == "study" else set()
    return in_order(names | REGISTERED.get(group, {}).keys())


def text_of(group: str, choice: str) -> str:
    """Return the YAML of a choice, its comments included; empty for one that was registered without."""
    files = (folder / group / f"{choice}.yaml" for folder in (CONF, *FOLDERS))
    file = next((file for file in files if file.is_file()), None)
    of_a_claim = studies().get(choice) if group == "study" else None
    return of_a_claim or (file.read_text(encoding="utf-8") if file else "")


def values_of(group: str, choice: str) -> dict[str, Any]:
    """Return what the YAML of a choice says, over those that it builds upon; interpolations as they stand there."""
    text = text_of(group, choice)
    values = yaml.load(text, Loader) or {} if text else dict(REGISTERED[group][choice].values)
    bases = [base for base in values.get("defaults", []) if isinstance(base, str) and base != "_self_"]
    return {key: value for base in bases for key, value in values_of(group, base).items()} | values


def comment_of(text: str) -> str:
    """Return the comment at the head of a YAML as one line."""
    return " ".join(line.strip("# ") for line in text.splitlines() if line.startswith("#") and "@package" not in line)


def groups_with(choice: str) -> list[str]:
    return [group for group in groups() if choice in choices_of(group)]


def choices_with(group: str, key: str) -> list[str]:
    """Return the choices of a group whose files have a key, as ``accuracy`` or ``loss.share``."""
    return [choice for choice in choices_of(group) if value_at(values_of(group, choice), key, ABSENT) is not ABSENT]


def value_at(values: Any, key: str, default: Any = None) -> Any:
    """Return what nested values hold at a key as `eval.ks`, the default if nothing."""
    for step in key.split("."):
        if not isinstance(values, Mapping) or step not in values:
            return default
        values = values[step]
    return values


@cache
def claims() -> dict[str, dict[str, str]]:
    """Return the YAML of each study of each claim, by the names of both."""
    found = {}
    for file in CLAIMS.glob("*.yaml"):
        _, *parts = re.split(r"^(\w+):\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        found[file.stem] = dict(zip(parts[::2], map(dedent, parts[1::2]), strict=True))
    return found


def studies() -> dict[str, str]:
    """Return the YAML of each study of a claim, by its name."""
    return {name: text for found in claims().values() for name, text in found.items()}


def no_such_choice(group: str, choice: str, known: Sequence[str]) -> str:
    """Say that a group has no such choice, and what there is, or what it may have been."""
    text, there_are = f"{group}={choice}: no such choice", f"there are {', '.join(in_order(known))}"
    if (group, choice) == ("task", "text"):
        return f"{text}; with backend=trl every task is text, as task=sort"
    if group == "study" and choice in claims():
        return f"{text}, but a claim with {', '.join(claims()[choice])}"
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
    meant = [key] if key in ELSEWHERE else [*paths_to(key, settings)] or closest(key, [*settings, *ELSEWHERE])
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


def functions_of(group: str) -> dict[str, dict[str, Callable]]:
    """Return what the files of a group name, by the place below it; to import it takes seconds."""
    parts = {axis.place: axis.functions for axis in AXES.values() if axis.group == group}
    if tables := TABLES.get(group):
        parts[""] = {name: each for table in tables for name, each in resolve_name(table).items()}
    return parts


def active_functions(group: str, choice: str) -> dict[str, tuple[Mapping[str, Any], str]]:
    """Return the parts of a choice that name a function, by their place below the axis, and what is said of it.

    Only those that do something, unless none does.
    """
    values, offered = values_of(group, choice), functions_of(group)
    if "name" in values:
        parts = {"": values}
    else:
        parts = {place: node for place, node in values.items() if isinstance(node, dict) and "name" in node}
        active = {place: node for place, node in parts.items() if node["name"] != "none"}
        parts = active or dict(list(parts.items())[:1])
    return {place: (node, plain(offered[place][node["name"]].__doc__)) for place, node in parts.items() if offered}


def plain(text: str | None) -> str:
    """Return a docstring as it is read on a terminal."""
    return cleandoc(text or "").replace("``", "`")


def axis_nodes(config: Any) -> Iterator[tuple[str, Any, Axis]]:
    """Yield the nodes that choose a function of an axis, each with its key and its axis."""
    yield from ((key, attrgetter(key)(config), axis) for key, axis in AXES.items())


def chosen_function(config: Any, key: str) -> Callable:
    """Return the function, without its hyperparameters, that the node at a key as ``filter.loss`` chooses."""
    return AXES[key].functions[attrgetter(key)(config).name]


def chosen_facts(config: Any, key: str) -> Facts:
    """Return the facts beside the function that the node at a key chooses."""
    return facts_of(chosen_function(config, key), AXES[key].facts)
