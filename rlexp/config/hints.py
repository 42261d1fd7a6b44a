"""What was probably meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from rlexp.config.choices import choices_with, groups, groups_with, in_order, values_of
from rlexp.core.errors import no_such_key

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
    text = f"{group}={choice}: no such choice"
    if (group, choice) == ("task", "text"):
        return f"{text}; with backend=trl every task is text, as task=sort"
    if group == "group_size" and choice.isdigit() and int(choice) > 0:
        return f"{text}; there are {', '.join(in_order(known))}; any other by value: {pair(int(choice))}"
    if is_number(choice) and group != "group_size" and (keys := number_keys(group)):
        return f"{text}; a number is a key below it, as {group}.{keys[0]}={choice}. The choices: {', '.join(known)}"
    meant = [f"{other}={choice}" for other in groups_with(choice) if other != group and not choice.isdigit()]
    meant += [f"{group}={name}" if meant else name for name in get_close_matches(choice, known, n=1, cutoff=0.7)]
    if meant:
        more = f" (rlexp explain {group} has all {len(known)})" if group in groups() else ""
        return f"{text}; did you mean {' or '.join(meant)}?{more}"
    return f"{text}; there are {', '.join(in_order(known))}"


def pair(completions: int) -> str:
    """Return a group size by value that has about as many completions a step as those of the files."""
    prompts = 2 * max(1, round(COMPLETIONS_A_STEP / completions / 2))  # minibatches are two: groups are not split
    return f"group_size.completions={completions} group_size.prompts={prompts}"


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def number_keys(group: str) -> list[str]:
    """Return the keys of the default choice of a group whose values are numbers."""
    if group not in groups():
        return []
    values = values_of(group, groups()[group].default)
    return [key for key, value in values.items() if isinstance(value, int | float) and not isinstance(value, bool)]


def no_key(key: str, settings: Mapping[str, Any]) -> str:
    """Say that a composed config has no such key, and what was probably meant."""
    parent, _, last = key.rpartition(".")
    group, _, below = key.partition(".")
    if below and group in groups() and (having := choices_with(group, below)):
        return f"the {group} that is chosen has no {below}; there is one with {group}={', '.join(having)}"
    if not parent:
        return f"no such key; {unknown_key(last, settings)}"
    if settings and group not in settings:
        close = get_close_matches(group, settings, n=1)
        return f"no such key; did you mean {close[0]}.{below}?" if close else "no such key"
    valid = [name for name in below_key(settings, parent) if name != "name"]
    return no_such_key(last, valid) if valid else "no such key"


def unknown_key(key: str, settings: Mapping[str, Any]) -> str:
    """Return what a key that is below no other was probably meant to be."""
    nested = paths_to(key, settings)
    close = get_close_matches(key, [*settings, *ELSEWHERE], n=1)
    if not nested and close and close[0] in ELSEWHERE:
        return f"{close[0]} is {ELSEWHERE[close[0]]} here"
    meant = nested or close
    return f"did you mean {' or '.join(meant)}?" if meant else f"there are {', '.join(sorted(settings))}"


def below_key(settings: Any, parent: str) -> list[str]:
    """Return the keys of a node of nested settings, of the whole if no node is named; none if it is no node."""
    for step in parent.split(".") if parent else []:
        settings = settings.get(step) if isinstance(settings, Mapping) else None
    return [str(key) for key in settings] if isinstance(settings, Mapping) else []


def paths_to(last: str, settings: Mapping[str, Any], above: str = "") -> list[str]:
    """Return the keys at any depth that end with a name: `eps` → `norm.eps`."""
    found = []
    for key, value in settings.items():
        path = f"{above}{key}"
        found += [path] if key == last and above else []
        found += paths_to(last, value, f"{path}.") if isinstance(value, Mapping) else []
    return found
