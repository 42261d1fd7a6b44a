"""What a choice of an axis cannot have beside it (problems), or seldom has on purpose (remarks), a line each.

``PROBLEMS`` and ``REMARKS`` say which checks a choice has, by config group and name. A check is given the key of the
choice, as ``filter.loss``, its node and the whole config. That one hyperparameter is at most another is declared beside
the function (``rlexp.core.facts.ordered``), and so are the checks of a choice from outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlexp.config.nodes import axis_nodes, chosen_facts, chosen_function
from rlexp.core.errors import format_value
from rlexp.core.facts import Check
from rlexp.core.registry import requested_names

LARGEST_OF_ADAM = 5e-3  # a learning rate below it is meant for Adam


def problems_of_choices(config: Any) -> Iterator[str]:
    """Say what cannot be beside the choices of a config."""
    for key, node, axis in axis_nodes(config):
        for check in (*chosen_facts(config, key).problems, *PROBLEMS.get(axis.group, {}).get(node.name, ())):
            yield from check(key, node, config)


def remarks_of_choices(config: Any) -> Iterator[str]:
    """Say what is allowed beside the choices of a config but seldom meant."""
    for key, node, axis in axis_nodes(config):
        for check in (*chosen_facts(config, key).remarks, *REMARKS.get(axis.group, {}).get(node.name, ())):
            yield from check(key, node, config)


# ---- sizes of groups


def needs_two_completions(what: str, left: str) -> Check:
    """Return the check that there is a second completion, for a choice that does ``what`` with those of a group."""

    def check(key: str, node: Any, config: Any) -> Iterator[str]:
        if config.group_size.completions == 1:
            yield f"{key}={node.name}: {what}, and group_size.completions=1 leaves it {left}; take at least 2"

    return check


def keeps_all(key: str, node: Any, config: Any) -> Iterator[str]:
    """As many completions to keep as a group has."""
    completions = config.group_size.completions
    if node.number >= completions:
        yield (
            f"{key}.number={node.number}: must be below group_size.completions={completions}; to keep few of many is "
            "what the choice is for"
        )


def too_few_completions(key: str, node: Any, config: Any) -> Iterator[str]:
    """Sets that are larger than the group."""
    completions = config.group_size.completions
    if node.k > completions:
        yield f"{key}.k={node.k}: must be at most group_size.completions={completions}"


# ---- rewards and advantages


def needs_one_model(key: str, node: Any, config: Any) -> Iterator[str]:
    """More models than are listened to."""
    if node.model and node.model.members > 1:
        yield f"{key}.model.members={node.model.members}: {key}={node.name} has one model; take {key}=ensemble_mean"


def needs_two_models(key: str, node: Any, config: Any) -> Iterator[str]:
    """An ensemble of one."""
    if node.model and node.model.members < 2:
        yield f"{key}.model.members={node.model.members}: {key}={node.name} needs at least 2; take {key}=learned"


def out_of_reach(key: str, node: Any, config: Any) -> Iterator[str]:
    """Lengths that cost something, of which none can be."""
    if node.cap - node.cache >= config.task.cap:
        yield (
            f"{key}.cap={node.cap} {key}.cache={node.cache}: no completion is longer than task.cap={config.task.cap}, "
            "so none is punished"
        )


def kl_in_filtered_reward(key: str, node: Any, config: Any) -> Iterator[str]:
    """KL in the reward of a filter that looks at rewards after it."""
    if key != "filter.refill" and config.kl.place == "reward" and config.kl.coef > 0:
        yield f"{key}={node.name} kl.place=reward: judges rewards less penalties, which are hardly ever equal"


def kl_in_deviation(key: str, node: Any, config: Any) -> Iterator[str]:
    """KL in the reward of a norm that divides by the deviation of the group."""
    if config.kl.place == "reward" and config.kl.coef > 0:
        yield (
            f"{key}={node.name} kl.place=reward: where only the penalties differ in a group, dividing by their "
            f"deviation takes kl.coef={format_value(config.kl.coef)} out; norm=hybrid and kl.place=loss do not"
        )


def negative_rewards(key: str, node: Any, config: Any) -> Iterator[str]:
    """Rewards that a division by their mean is not made for."""
    lowest, _ = config.reward_range
    if lowest < 0:
        yield (
            f"{key}={node.name}: divides by the mean reward of a group, but rewards of task={config.task.name} "
            f"reward={config.reward.name} go down to {format_value(lowest)}; where the mean is not positive advantages "
            "are 0"
        )


def needs_critic(key: str, node: Any, config: Any) -> Iterator[str]:
    """Values of nobody."""
    if config.critic.name == "none":
        yield f"{key}={node.name}: asks for values, and critic=none has none; choose critic=value"


def needs_prompt_set(key: str, node: Any, config: Any) -> Iterator[str]:
    """Values of prompts that hardly ever come again, or of others than those that do."""
    size = getattr(config.task, "prompt_set", None)
    if size is None:
        yield (
            f"{key}={node.name}: remembers the value of each prompt, so they must come again: take task=sort or "
            "token_preference with task.prompt_set=64 or the like"
        )
    elif size != node.prompts:
        yield f"{key}.prompts={node.prompts}: must be task.prompt_set={size}"


# ---- policy losses


def never_clipped_below(key: str, node: Any, config: Any) -> Iterator[str]:
    """A lower bound of the ratio that no ratio is below."""
    if node.low >= 1:
        bound = f"1 − {format_value(node.low)}"
        yield f"{key}.low={format_value(node.low)}: no ratio is below {bound}, so nothing is clipped on that side"


def cut_off(key: str, node: Any, config: Any) -> Iterator[str]:
    """A bound for A < 0 below that for A > 0."""
    if node.delta < 1 + node.high:
        yield f"{key}.delta={format_value(node.delta)}: must be at least 1 + {key}.high, which it would cut off"


def beside_mismatch(why: str) -> Check:
    """Return the check for a loss that goes ill with weights of ``mismatch``."""

    def check(key: str, node: Any, config: Any) -> Iterator[str]:
        if config.mismatch.name != "none":
            yield f"{key}={node.name} mismatch={config.mismatch.name}: {why}"

    return check


# ---- penalty, reference, optimizer


def nothing_to_weigh(key: str, node: Any, config: Any) -> Iterator[str]:
    """A coefficient without a penalty."""
    if node.coef > 0:
        coef = format_value(node.coef)
        yield f"{key}.coef={coef}: {key}={node.name} has no penalty to weigh; choose kl=k1, k2, k3, ..."


def nothing_to_place(key: str, node: Any, config: Any) -> Iterator[str]:
    """A place without a penalty."""
    if node.place == "reward":
        yield f"{key}.place=reward: {key}={node.name} has no penalty to place; choose kl=k1, k2, k3, ..."


def zero_gradient(key: str, node: Any, config: Any) -> Iterator[str]:
    """A penalty whose mean gradient is zero."""
    if node.coef > 0 and node.place == "loss":
        yield (
            f"{key}={node.name} {key}.place=loss: its gradient is zero in expectation; kl.place=reward and kl=k2 "
            "follow the KL"
        )


def same_in_the_reward(plain: str) -> Check:
    """Return the remark that an estimator differs from ``plain`` in its gradient alone."""

    def remark(key: str, node: Any, config: Any) -> Iterator[str]:
        if node.place == "reward":
            place = f"{key}={node.name} {key}.place=reward"
            yield f"{place}: penalties in the reward have no gradient, so it is {key}={plain}"

    return remark


def without_a_reference(key: str, node: Any, config: Any) -> Iterator[str]:
    """What steers by a reference, or moves it, where the penalty has none."""
    for axis, plain in (("kl_control", "fixed"), ("reference", "frozen")):
        name = getattr(config, axis).name
        if name != plain:
            yield f"{key}={node.name} {axis}={name}: it is about the reference, and the penalty is about the sampler"


def nothing_to_control(key: str, node: Any, config: Any) -> Iterator[str]:
    """A coefficient that no factor changes."""
    if config.kl.coef == 0:
        yield f"{key}={node.name}: kl.coef=0 stays 0; choose a kl with a coefficient to begin with"


def unused_reference(key: str, node: Any, config: Any) -> Iterator[str]:
    """A reference that moves, and no penalty."""
    if config.kl.coef == 0 and "ref_log_probs" not in requested_names(chosen_function(config, "clip")):
        yield f"{key}={node.name}: without a kl nothing is trained against it"


def rate_of_adam(key: str, node: Any, config: Any) -> Iterator[str]:
    """A learning rate that is far too small without Adam's division."""
    if config.lr < LARGEST_OF_ADAM:
        yield (
            f"{key}={node.name} lr={format_value(config.lr)}: such a rate is Adam's, whose moves are about lr whatever "
            "the gradient; here they are lr · gradient, try 0.1 to 1"
        )


COMPARES = needs_two_completions("compares the completions of a group", "one")
PREFERS = needs_two_completions("prefers a completion to others of its group", "none")
CHOOSES = needs_two_completions("chooses among the completions of a group", "no choice")
CORRECTED_TWICE = beside_mismatch(
    "its ratio is to the sampler already, which would be corrected twice; take mismatch=none"
)
WEIGHED_AS_ONE = beside_mismatch(
    "the loss is the group's, which the mean of the weights multiplies; no completion is weighed against another"
)
PROBLEMS: dict[str, dict[str, tuple[Check, ...]]] = {
    "reward": {
        "learned": (needs_one_model,),
        **dict.fromkeys(("ensemble_mean", "ensemble_minimum", "ensemble_bound"), (needs_two_models,)),
    },
    "filter": dict.fromkeys(("shortest", "most_efficient"), (keeps_all,)),
    "norm": {
        "pass_at_k": (too_few_completions,),
        **dict.fromkeys(("gae", "gae_whitened", "value_baseline"), (needs_critic,)),
        "spo": (needs_prompt_set,),
        **dict.fromkeys(("rwr", "best_of_n"), (CHOOSES,)),
    },
    "clip": {
        "two_sided": (cut_off,),
        "ipo_prime_rl": (CORRECTED_TWICE,),
        **dict.fromkeys(("gvpo", "tpo", "real"), (COMPARES,)),
        **dict.fromkeys(("dpo", "ipo"), (PREFERS,)),
    },
    "kl": {"none": (nothing_to_weigh,)},
    "kl_control": dict.fromkeys(("adaptive", "ziegler"), (nothing_to_control,)),
}
REMARKS: dict[str, dict[str, tuple[Check, ...]]] = {
    "shaping": dict.fromkeys(("overlong", "overlong_quadratic"), (out_of_reach,)),
    "filter": dict.fromkeys(("zero_variance", "difficulty"), (kl_in_filtered_reward,)),
    "norm": {
        **dict.fromkeys(("local", "batch_mean_group_std", "gdpo", "quantile"), (kl_in_deviation,)),
        "maxrl": (negative_rewards,),
    },
    "clip": {
        **dict.fromkeys(
            ("ppo", "scheduled", "dual", "two_sided", "gspo", "gspo_token", "opsm", "clip_cov"), (never_clipped_below,)
        ),
        **dict.fromkeys(("gvpo", "tpo", "real"), (WEIGHED_AS_ONE,)),
    },
    "kl": {
        "none": (nothing_to_place,),
        "k1": (zero_gradient,),
        **dict.fromkeys(("k1_plus", "k1_corrected"), (same_in_the_reward("k1"),)),
        "k2_corrected": (same_in_the_reward("k2"),),
        **dict.fromkeys(("k3_plus", "k3_corrected"), (same_in_the_reward("k3"),)),
        "k2_sampler": (without_a_reference,),
    },
    "reference": {"follow": (unused_reference,)},
    "optimizer": dict.fromkeys(("sgd", "momentum"), (rate_of_adam,)),
}
