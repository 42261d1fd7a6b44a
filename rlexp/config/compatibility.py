"""What a choice of an axis cannot have beside it (problems), or seldom has on purpose (remarks), a line each.

``PROBLEMS`` and ``REMARKS`` have the rules of a choice, as ``norm=gae``. That one hyperparameter is at most another is
declared beside the function (``rlexp.core.facts.ordered``), and so are the checks of a choice from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from string import Formatter
from typing import Any, NamedTuple

from rlexp.config.nodes import axis_nodes, chosen_facts, chosen_function
from rlexp.core.exits import format_value
from rlexp.core.registry import required_inputs

LARGEST_OF_ADAM = 5e-3  # a learning rate below it is meant for Adam


class Typed(Formatter):
    """Writes values as one types them."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return format_value(value)


class Rule(NamedTuple):
    """What must not hold of a node and the whole config, and the line that says so of both and of the node's key.

    It is called as the checks of ``rlexp.core.facts`` are.
    """

    broken: Callable[[Any, Any], bool]
    line: str

    def __call__(self, key: str, node: Any, config: Any) -> Iterator[str]:
        if self.broken(node, config):
            yield Typed().format(self.line, key=key, node=node, config=config)


def rules(*rows: tuple[str, Callable[[Any, Any], bool], str]) -> dict[str, list[Rule]]:
    """Return the rules of each choice; a row has the choices that a rule is about."""
    found: dict[str, list[Rule]] = {}
    for choices, broken, line in rows:
        for choice in choices.split():
            found.setdefault(choice, []).append(Rule(broken, line))
    return found


def problems_of_choices(config: Any) -> Iterator[str]:
    """Say what cannot be beside the choices of a config."""
    for key, node, axis in axis_nodes(config):
        for check in (*chosen_facts(config, key).problems, *PROBLEMS.get(f"{axis.group}={node.name}", ())):
            yield from check(key, node, config)


def remarks_of_choices(config: Any) -> Iterator[str]:
    """Say what is allowed beside the choices of a config but seldom meant."""
    for key, node, axis in axis_nodes(config):
        for check in (*chosen_facts(config, key).remarks, *REMARKS.get(f"{axis.group}={node.name}", ())):
            yield from check(key, node, config)


def group_of_one(node: Any, config: Any) -> bool:
    return config.group_size.completions == 1


def corrected_for_mismatch(node: Any, config: Any) -> bool:
    return config.mismatch.name != "none"


def kl_in_reward(config: Any) -> bool:
    return config.kl.place == "reward" and config.kl.coef > 0


ALONE = "and group_size.completions=1 leaves it"
NO_REFERENCE = "it is about the reference, and the penalty is about the sampler"
NO_GRADIENT = "{key}={node.name} {key}.place=reward: penalties in the reward have no gradient, so it is {key}="

PROBLEMS = rules(
    (
        "reward=learned",
        lambda node, _: node.model and node.model.members > 1,
        "{key}.model.members={node.model.members}: {key}={node.name} has one model; take {key}=ensemble_mean",
    ),
    (
        "reward=ensemble_mean reward=ensemble_minimum reward=ensemble_bound",
        lambda node, _: node.model and node.model.members < 2,
        "{key}.model.members={node.model.members}: {key}={node.name} needs at least 2; take {key}=learned",
    ),
    (
        "filter=shortest filter=most_efficient",
        lambda node, config: node.number >= config.group_size.completions,
        "{key}.number={node.number}: must be below group_size.completions={config.group_size.completions}; to keep few "
        "of many is what the choice is for",
    ),
    (
        "norm=pass_at_k",
        lambda node, config: node.k > config.group_size.completions,
        "{key}.k={node.k}: must be at most group_size.completions={config.group_size.completions}",
    ),
    (
        "norm=gae norm=gae_whitened norm=value_baseline",
        lambda _, config: config.critic.name == "none",
        "{key}={node.name}: asks for values, and critic=none has none; choose critic=value",
    ),
    (
        "norm=spo",
        lambda _, config: getattr(config.task, "prompt_set", None) is None,
        "{key}={node.name}: remembers the value of each prompt, so they must come again: take task=sort or "
        "token_preference with task.prompt_set=64 or the like",
    ),
    (
        "norm=spo",
        lambda node, config: getattr(config.task, "prompt_set", None) not in (None, node.prompts),
        "{key}.prompts={node.prompts}: must be task.prompt_set={config.task.prompt_set}",
    ),
    (
        "norm=rwr norm=best_of_n",
        group_of_one,
        f"{{key}}={{node.name}}: chooses among the completions of a group, {ALONE} no choice; take at least 2",
    ),
    (
        "clip=gvpo clip=tpo clip=real",
        group_of_one,
        f"{{key}}={{node.name}}: compares the completions of a group, {ALONE} one; take at least 2",
    ),
    (
        "clip=dpo clip=ipo",
        group_of_one,
        f"{{key}}={{node.name}}: prefers a completion to others of its group, {ALONE} none; take at least 2",
    ),
    (
        "clip=two_sided",
        lambda node, _: node.delta < 1 + node.high,
        "{key}.delta={node.delta}: must be at least 1 + {key}.high, which it would cut off",
    ),
    (
        "clip=ipo_prime_rl",
        corrected_for_mismatch,
        "{key}={node.name} mismatch={config.mismatch.name}: its ratio is to the sampler already, which would be "
        "corrected twice; take mismatch=none",
    ),
    (
        "kl=none",
        lambda node, _: node.coef > 0,
        "{key}.coef={node.coef}: {key}={node.name} has no penalty to weigh; choose kl=k1, k2, k3, ...",
    ),
    (
        "kl_control=adaptive kl_control=ziegler",
        lambda _, config: config.kl.coef == 0,
        "{key}={node.name}: kl.coef=0 stays 0; choose a kl with a coefficient to begin with",
    ),
)
REMARKS = rules(
    (
        "shaping=overlong shaping=overlong_quadratic",
        lambda node, config: node.cap - node.cache >= config.task.cap,
        "{key}.cap={node.cap} {key}.cache={node.cache}: no completion is longer than task.cap={config.task.cap}, so "
        "none is punished",
    ),
    (
        "filter=zero_variance filter=difficulty",
        lambda node, config: node is not config.filter.refill and kl_in_reward(config),
        "{key}={node.name} kl.place=reward: judges rewards less penalties, which are hardly ever equal",
    ),
    (
        "norm=local norm=batch_mean_group_std norm=gdpo norm=quantile",
        lambda _, config: kl_in_reward(config),
        "{key}={node.name} kl.place=reward: where only the penalties differ in a group, dividing by their deviation "
        "takes kl.coef={config.kl.coef} out; norm=hybrid and kl.place=loss do not",
    ),
    (
        "norm=maxrl",
        lambda _, config: config.reward_range[0] < 0,
        "{key}={node.name}: divides by the mean reward of a group, but rewards of task={config.task.name} "
        "reward={config.reward.name} go down to {config.reward_range[0]}; where the mean is not positive advantages "
        "are 0",
    ),
    (
        "clip=ppo clip=scheduled clip=dual clip=two_sided clip=gspo clip=gspo_token clip=opsm clip=clip_cov",
        lambda node, _: node.low >= 1,
        "{key}.low={node.low}: no ratio is below 1 − {node.low}, so nothing is clipped on that side",
    ),
    (
        "clip=gvpo clip=tpo clip=real",
        corrected_for_mismatch,
        "{key}={node.name} mismatch={config.mismatch.name}: the loss is the group's, which the mean of the weights "
        "multiplies; no completion is weighed against another",
    ),
    (
        "kl=none",
        lambda node, _: node.place == "reward",
        "{key}.place=reward: {key}={node.name} has no penalty to place; choose kl=k1, k2, k3, ...",
    ),
    (
        "kl=k1",
        lambda node, _: node.coef > 0 and node.place == "loss",
        "{key}={node.name} {key}.place=loss: its gradient is zero in expectation; kl.place=reward and kl=k2 follow the "
        "KL",
    ),
    ("kl=k1_plus kl=k1_corrected", lambda node, _: node.place == "reward", NO_GRADIENT + "k1"),
    ("kl=k2_corrected", lambda node, _: node.place == "reward", NO_GRADIENT + "k2"),
    ("kl=k3_plus kl=k3_corrected", lambda node, _: node.place == "reward", NO_GRADIENT + "k3"),
    (
        "kl=k2_sampler",
        lambda _, config: config.kl_control.name != "fixed",
        f"{{key}}={{node.name}} kl_control={{config.kl_control.name}}: {NO_REFERENCE}",
    ),
    (
        "kl=k2_sampler",
        lambda _, config: config.reference.name != "frozen",
        f"{{key}}={{node.name}} reference={{config.reference.name}}: {NO_REFERENCE}",
    ),
    (
        "reference=follow",
        lambda _, config: (
            config.kl.coef == 0 and "ref_log_probs" not in required_inputs(chosen_function(config, "clip"))
        ),
        "{key}={node.name}: without a kl nothing is trained against it",
    ),
    (
        "optimizer=sgd optimizer=momentum",
        lambda _, config: config.lr < LARGEST_OF_ADAM,
        "{key}={node.name} lr={config.lr}: such a rate is Adam's, whose moves are about lr whatever the gradient; here "
        "they are lr · gradient, try 0.1 to 1",
    ),
)
