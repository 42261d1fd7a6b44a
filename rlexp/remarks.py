"""What a config may say but seldom means, in one line each: it is said before training and stops nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlexp import norm, teacher
from rlexp.choose import choose, positional
from rlexp.errors import shown
from rlexp.tasks import TASKS

if TYPE_CHECKING:
    from rlexp.config import Config

OF_COMPLETIONS = {"gspo", "gspo_token", "gmpo"}
WITHOUT_RATIO = {"naive", "clip_cov"}  # clip_cov leaves tokens out whatever their ratio
BY_GROUP_DEVIATION = {"local", "batch_mean_group_std", "quantile", "gdpo"}
BY_REWARDS = {"zero_variance", "difficulty"}
REWARDS = {"rewards", "outcomes", "adjustments"}


def remarks(config: Config) -> Iterator[str]:
    """Say what is allowed but seldom meant."""
    yield from of_losses(config)
    yield from of_penalties(config)
    yield from of_penalties_in_the_reward(config)
    yield from of_rewards(config)


def of_losses(config: Config) -> Iterator[str]:
    """Losses that weigh completions otherwise than meant, and corrections of what is equal."""
    clip, agg = config.clip.name, config.agg.name
    if clip in OF_COMPLETIONS and agg not in ("sequence", "sequence_sum"):
        yield (
            f"clip={clip} agg={agg}: the ratio of a completion counts once for each token, so long completions weigh "
            "more; meant is agg=sequence (with agg=luspo they weigh more on purpose)"
        )
    if config.inner_steps * config.minibatches == 1 and clip not in WITHOUT_RATIO:
        yield (
            f"clip={clip} inner_steps=1 minibatches=1: with one update on each rollout every ratio is 1, nothing is "
            "clipped, and it trains as clip=naive does"
        )
    if config.mismatch.name != "none" and config.sampler.name == "exact":
        yield f"mismatch={config.mismatch.name}: sampler=exact leaves nothing to correct, every weight is 1"


def of_penalties(config: Config) -> Iterator[str]:
    """Penalties that are not there, or that pull nowhere."""
    kl = config.kl
    if kl.name == "none" and kl.place == "reward":
        yield "kl.place=reward: kl=none has no penalty to place; choose kl=k1, k2, k3, ..."
    if kl.coef == 0 and config.reference.name != "frozen":
        yield f"reference={config.reference.name}: without a kl nothing is trained against it"
    if kl.coef > 0 and (kl.name, kl.place) == ("k1", "loss"):
        yield "kl=k1 kl.place=loss: its gradient is zero in expectation; kl.place=reward and kl=k2 follow the KL"
    plain, _, kind = kl.name.partition("_")
    if kl.place == "reward" and kind in ("plus", "corrected"):
        yield f"kl={kl.name} kl.place=reward: penalties in the reward have no gradient, so it is kl={plain}"


def of_penalties_in_the_reward(config: Config) -> Iterator[str]:
    """What penalties in the reward do to those who look whether rewards are equal."""
    if config.kl.place == "loss" or config.kl.coef == 0:
        return
    if config.norm.name in BY_GROUP_DEVIATION:
        yield (
            f"norm={config.norm.name} kl.place=reward: where only the penalties differ in a group, dividing by their "
            f"deviation takes kl.coef={shown(config.kl.coef)} out; norm=hybrid and kl.place=loss do not"
        )
    for place in ("loss", "statistics"):
        name = getattr(config.filter, place).name
        if name in BY_REWARDS:
            yield f"filter.{place}={name} kl.place=reward: judges rewards less penalties, which are hardly ever equal"


def of_rewards(config: Config) -> Iterator[str]:
    """Rewards that nobody looks at, or that the norm is not made for."""
    blind = [
        f"{axis}={node.name}"
        for axis, node, functions in (
            ("norm", config.norm, norm.FUNCTIONS),
            ("teacher", config.teacher, teacher.FUNCTIONS),
        )
        if not {*REWARDS, "advantages"} & {*positional(functions[node.name])}
    ]
    changed = [f"shaping={config.shaping.name}"] if config.shaping.name != "none" else []
    changed += ["kl.place=reward"] if config.kl.place == "reward" and config.kl.coef > 0 else []
    if blind and changed:
        yield f"{blind[0]} {changed[0]}: advantages do not depend on rewards, which it changes"
    lowest, _ = choose(TASKS, config.task)().reward_range
    if config.norm.name == "maxrl" and lowest < 0:
        yield (
            f"norm=maxrl: divides by the mean reward of a group, but rewards of task={config.task.name} go down to "
            f"{shown(lowest)}; where the mean is not positive advantages are 0"
        )
    cap, cache = (getattr(config.shaping, knob, 0) for knob in ("cap", "cache"))
    if cap - cache >= config.task.cap:
        yield (
            f"shaping.cap={cap} shaping.cache={cache}: no completion is longer than task.cap={config.task.cap}, so "
            "none is punished"
        )
