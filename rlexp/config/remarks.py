"""What a config may say but seldom means, in one line each: it is said before training and stops nothing.

Remarks about one choice are in ``compatibility``; here are those that concern several axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

from rlexp.axes.offered import REWARDS
from rlexp.config.compatibility import remarks_of_choices
from rlexp.config.nodes import chosen_facts, chosen_function
from rlexp.core.errors import format_value
from rlexp.core.registry import requested_names
from rlexp.language.backend import CAPABILITIES

if TYPE_CHECKING:
    from rlexp.config.schema import Config


def remarks(config: Config) -> Iterator[str]:
    """Say what is allowed but seldom meant."""
    yield from of_losses(config)
    yield from remarks_of_choices(config)
    yield from of_penalties(config)
    yield from of_rewards(config)
    yield from of_backend(config)


def of_losses(config: Config) -> Iterator[str]:
    """Losses that weigh completions otherwise than meant, and corrections of what is equal."""
    loss, clip, agg = chosen_facts(config, "clip"), config.clip.name, config.agg.name
    if loss.unit == "completion" and chosen_facts(config, "agg").unit != "completion":
        yield (
            f"clip={clip} agg={agg}: the loss of a completion counts once for each token, so long completions weigh "
            "more; meant is agg=sequence (with agg=luspo they weigh more on purpose)"
        )
    on_policy = config.data.name == "fresh" and config.inner_steps * config.minibatches == 1
    if on_policy and loss.idle_on_policy:
        yield (
            f"clip={clip} inner_steps=1 minibatches=1: with one update on each rollout every ratio is 1, nothing is "
            "clipped, and it trains as clip=naive does"
        )
    unused = [] if "advantages" in requested_names(chosen_function(config, "clip")) else ("norm", "teacher")
    for axis, name in ((axis, getattr(config, axis).name) for axis in unused):
        if name != "none":
            yield f"clip={clip} {axis}={name}: this loss ranks rewards and uses no advantages; {axis}=none says so"
    if config.inner_steps * config.minibatches == 1 and config.kl_stop is not None:
        yield (
            f"kl_stop={format_value(config.kl_stop)} inner_steps=1 minibatches=1: with one update on each rollout "
            "there is nothing to stop"
        )
    same = chosen_facts(config, "sampler").is_noop and CAPABILITIES[config.backend.name].batched
    if same and not chosen_facts(config, "mismatch").is_noop:
        sampler = config.sampler.name
        yield f"mismatch={config.mismatch.name}: sampler={sampler} leaves nothing to correct, every weight is 1"


def of_backend(config: Config) -> Iterator[str]:
    """A release of its package that was never compared with ours."""
    backend = CAPABILITIES[config.backend.name]
    if backend.package and not (here := version(backend.package)).startswith(backend.tested):
        yield f"backend={config.backend.name}: tested with {backend.package.upper()} {backend.tested}x, here is {here}"


def of_penalties(config: Config) -> Iterator[str]:
    """A penalty that weighs nothing."""
    if not chosen_facts(config, "kl").is_noop and config.kl.coef == 0:
        yield f"kl={config.kl.name} kl.coef=0: the penalty weighs nothing, and it trains as kl=none does"


def of_rewards(config: Config) -> Iterator[str]:
    """Rewards that are changed, and that nobody looks at."""
    blind = [
        f"{axis}={getattr(config, axis).name}"
        for axis in ("norm", "teacher")
        if not (REWARDS | {"advantages"}) & {*requested_names(chosen_function(config, axis))}
    ]
    axes = [axis for axis in ("reward", "shaping") if not chosen_facts(config, axis).is_noop]
    changed = [f"{axis}={getattr(config, axis).name}" for axis in axes]
    changed += ["kl.place=reward"] if config.kl.place == "reward" and config.kl.coef > 0 else []
    if blind and changed:
        yield f"{blind[0]} {changed[0]}: advantages do not depend on rewards, which it changes"
