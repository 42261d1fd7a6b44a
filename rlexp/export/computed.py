"""What the tables name and cannot write down: settings that are computed, conditions of notes, notes with numbers.

Each takes the node of the choice and the whole configuration; for the settings of a run both are the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from rlexp.axes import reward, shaping
from rlexp.config.choices import chosen_function
from rlexp.config.schema import Config
from rlexp.core.errors import format_value
from rlexp.core.registry import required_inputs
from rlexp.export.verl_advantages import size

BELOW_ALL = 1e-9  # no ratio is below it: verl clamps log-ratios at ±20
BY_TOKEN = ("token", "bnpo")


def updates(config: Config) -> int:
    """Return the number of optimizer updates on each rollout."""
    return config.inner_steps * config.minibatches


def own_updates(node: Any, config: Config) -> int:
    """Return the number of updates on each rollout of a critic, or of the policy."""
    return getattr(node, "updates", config.inner_steps) * config.minibatches


def trl_scheduler(node: Any, config: Config) -> str:
    return {0.0: "linear", 1.0: "constant_with_warmup"}.get(config.lr_final, "polynomial")


def trl_scheduler_kwargs(node: Any, config: Config) -> dict[str, float]:
    falls = trl_scheduler(node, config) == "polynomial"
    return {"lr_end": config.lr * config.lr_final, "power": 1.0} if falls else {}


VALUES: Mapping[str, Callable[[Any, Config], Any]] = {
    "completions_per_update": lambda node, config: (
        config.group_size.completions * config.group_size.prompts // config.minibatches
    ),
    "prompts_per_update": lambda node, config: config.group_size.prompts // config.minibatches,
    "updates_of_the_run": lambda node, config: config.steps * updates(config),
    "updates_between_syncs": lambda node, config: node.every * updates(config),
    "trl_scheduler": trl_scheduler,
    "trl_scheduler_kwargs": trl_scheduler_kwargs,
    "verl_scheduler": lambda node, config: "constant" if node.lr_final == 1 else "cosine",
    "openrlhf_scheduler": lambda node, config: "constant_with_warmup" if node.lr_final == 1 else "cosine_with_min_lr",
    "warmup_rollouts": lambda node, config: ceil(node.warmup_steps / own_updates(node, config)),
    "warmup_ratio": lambda node, config: min(1.0, node.warmup_steps / (config.steps * own_updates(node, config))),
    # verl counts steps from 1, and OpenRLHF from 0, and there the policy is updated after the step that is named
    "first_step_of_the_policy": lambda node, config: 0 if node.critic_warmup is None else node.critic_warmup + 1,
    "last_step_without_the_policy": lambda node, config: (node.critic_warmup or 0) - 1,
    "weight_decay_of_the_policy": lambda node, config: getattr(config.optimizer, "weight_decay", 0.0),
    "weights_of_all_components": lambda node, config: list(config.task.weights.values()),
    "weighed_components": lambda node, config: [name for name, weight in config.task.weights.items() if weight],
    "weights_of_components": lambda node, config: [*filter(None, config.task.weights.values())],
    "reward_bounds": lambda node, config: [  # OpenRLHF clips what the estimator makes of rewards
        sign * (config.advantage_clip or 1000000) for sign in (-1, 1)
    ],
    "share_or_penalty": lambda node, config: node.scale if node.penalty == 0 else -node.penalty,
    "distance_below_one": lambda node, config: round(1 - node.lower, 12),
    "distance_above_one": lambda node, config: round(node.upper - 1, 12),
    "whole_horizon": lambda node, config: int(node.horizon),
    # verl drops what is outside of a pair of bounds instead of clipping it.
    "both_bounds": lambda node, config: f"{max(float(node.low), BELOW_ALL)}_{float(node.high)}",
}


def kl_in_the_reward(node: Any, config: Config) -> bool:
    return config.kl.name != "none" and config.kl.place == "reward"


def exponentiates(config: Config) -> bool:
    """Whether some choice exponentiates a log-ratio that is bounded here."""
    functions = (chosen_function(config, axis) for axis in ("clip", "kl"))
    return any("log_ratio_bound" in required_inputs(function) for function in functions)


CONDITIONS: Mapping[str, Callable[[Any, Config], bool]] = {
    # of the run
    "fewer than 2 completions": lambda node, config: config.group_size.completions < 2,
    "group of one": lambda node, config: config.group_size.completions == 1,
    "several minibatches": lambda node, config: config.minibatches > 1,
    "off-policy": lambda node, config: updates(config) > 1,  # with one update on each rollout every ratio is 1
    "warm-up": lambda node, config: config.warmup_steps > 0,
    "warm-up before a fall": lambda node, config: config.warmup_steps > 0 and config.lr_final != 1,
    "the rate falls": lambda node, config: config.lr_final != 1,
    "the rate moves off-policy": lambda node, config: (
        updates(config) > 1 and (config.warmup_steps > 0 or config.lr_final != 1)
    ),
    "positive_nll_coef": lambda node, config: config.positive_nll_coef > 0,
    "advantage_entropy_weight": lambda node, config: config.advantage_entropy_weight > 0,
    "temperature_final": lambda node, config: config.temperature_final is not None,
    "kl_stop": lambda node, config: config.kl_stop is not None,
    "whiten_advantages": lambda node, config: config.whiten_advantages,
    "advantage_clip": lambda node, config: config.advantage_clip is not None,
    "no advantage_clip": lambda node, config: config.advantage_clip is None,
    "advantage_clip of REINFORCE++": lambda node, config: (
        config.advantage_clip is not None and config.norm.name.startswith("reinforce")
    ),
    "log_ratio_bound": lambda node, config: config.log_ratio_bound is not None,
    "rounded products": lambda node, config: config.sampler.products is not None or config.sampler.head is not None,
    "truncated training": lambda node, config: config.sampler.training is not None,
    "another log_ratio_bound than 20": lambda node, config: config.log_ratio_bound != 20,
    "bounded exponents": lambda node, config: config.log_ratio_bound is not None and exponentiates(config),
    "entropy bonus not over tokens": lambda node, config: config.entropy_coef > 0 and config.agg.name not in BY_TOKEN,
    "entropy bonus over minibatches": lambda node, config: config.entropy_coef > 0 and config.minibatches > 1,
    # of other choices
    "KL in the loss": lambda node, config: config.kl.place == "loss",
    "KL in the reward": kl_in_the_reward,
    "adjusted rewards": lambda node, config: config.shaping.name != "none" or kl_in_the_reward(node, config),
    "refill": lambda node, config: config.filter.refill.name != "none",
    "loss not over tokens": lambda node, config: config.agg.name not in BY_TOKEN,
    "clip of completions": lambda node, config: config.clip.name in ("gspo", "gspo_token"),
    "clip of OpenRLHF's sampler": lambda node, config: config.clip.name == "gspo",
    "a correction": lambda node, config: config.mismatch.name != "none",
    "mismatch by token": lambda node, config: config.mismatch.name.startswith("token"),
    "mismatch by sequence": lambda node, config: config.mismatch.name.startswith("sequence"),
    "no Adam": lambda node, config: not config.optimizer.name.startswith("adam"),
    # of the choice itself
    "begins elsewhere": lambda node, config: node.begin != "start",
    "bootstrap": lambda node, config: node.bootstrap != 0,
    "another cap": lambda node, config: node.cap != config.task.cap,
    "share and penalty": lambda node, config: node.scale != 0 and node.penalty != 0,
    "unusual share or penalty": lambda node, config: node.scale < 0 or node.scale > 1 or node.penalty < 0,
    "coef": lambda node, config: node.coef != 1,
    "a fall after the critic alone": lambda node, config: node.critic_warmup is not None and config.lr_final != 1,
    "passes of its own": lambda node, config: node.updates != config.inner_steps,
    "c below 1 + high": lambda node, config: node.c < 1 + node.high,
    "low of 0": lambda node, config: node.low < BELOW_ALL,
}


def in_the_reward(node: Any, config: Config) -> str:
    """Return what a judge or a shaping does, for frameworks that leave it to the reward function."""
    first = (reward.FUNCTIONS | shaping.FUNCTIONS)[node.name].__doc__.partition("\n")[0]
    words = [f"{name}={format_value(value)}" for name, value in node if name not in ("name", "model")]
    words += ["a model that you train"] if getattr(node, "model", None) else []
    values = f" ({', '.join(words)})" if words else ""
    return f"is for your reward function to do{values}: {first}"


NOTES: Mapping[str, Callable[[Any, Config], str]] = {"in the reward": in_the_reward, "size": size}
