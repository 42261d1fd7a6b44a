"""What was probably meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlexp.config.choices import choices_with, claims, groups, groups_with, in_order, studies_of, value_at, values_of
from rlexp.core.errors import closest, no_such_key

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
