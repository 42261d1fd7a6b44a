"""How far the advantages of verl (commit 1dda039b) are from those here, on one batch: the size of what differs.

The batch, the same for every configuration: 16 groups of 8 completions of 1 to 6 tokens, of which those of 6 were cut
off; each reward component is 0 or 1, as is that of the greedy completion; log-ratios to the reference are between −½
and ½, the values of a critic between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rlexp.axes import kl, norm
from rlexp.axes.norm.best import grpo_passk
from rlexp.axes.norm.critic import gae
from rlexp.axes.norm.group import local
from rlexp.axes.norm.tokens import gradient_energy, returns_to_go, token_rewards
from rlexp.config.schema import Config
from rlexp.core.masked import ALL, BATCH, GROUP, centered, count, masked_std, masked_sum, per_token
from rlexp.core.registry import bind_choice, call_with, hyperparameters

Tensors = Mapping[str, Tensor]
SHAPE = PROMPTS, GROUP_SIZE, TIME = 16, 8, 6
ROUNDING = 1e-6  # what verl adds to denominators changes as much


def example(config: Config) -> dict[str, Tensor]:
    """Return the batch as ``norm`` is offered it, ``[P G]`` and ``[P G T]``, under the penalty of a configuration."""
    generator = torch.Generator().manual_seed(0)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    weights = torch.tensor([weight for weight in config.task.weights.values() if weight], dtype=torch.float64)
    components = (uniform(*SHAPE[:2], len(weights)) < 0.5).double()
    greedy = (uniform(PROMPTS, 1, len(weights)) < 0.5).double() @ weights
    lengths = (TIME * uniform(*SHAPE[:2])).floor() + 1
    mask = torch.arange(TIME) < lengths.unsqueeze(-1)
    old = (0.05 + 0.9 * uniform(*SHAPE)).log()
    ratios = uniform(*SHAPE) - 0.5
    outcomes, penalties = components @ weights, torch.zeros(SHAPE, dtype=torch.float64)
    if config.kl.name != "none" and config.kl.place == "reward":
        tensors = {"log_probs": old, "ref_log_probs": old - ratios, "old_log_probs": old, "sampler_log_probs": old}
        tensors["log_ratio_bound"] = torch.tensor(config.log_ratio_bound or torch.inf)
        penalties = (config.kl.coef * call_with(bind_choice(kl.FUNCTIONS, config.kl), tensors)).where(mask, 0.0)
    pi = old.exp()
    return {
        "components": components,
        "weights": weights,
        "correct": components[..., 0],
        "outcomes": outcomes,
        "rewards": outcomes - penalties.sum(-1),
        "adjustments": -penalties.sum(-1),
        "greedy_rewards": greedy,
        "token_penalties": penalties,
        "token_rewards": token_rewards(outcomes, penalties, mask),
        "lengths": lengths,
        "mask": mask,
        "keep": torch.ones(SHAPE[:2], dtype=torch.bool),
        "finished": lengths < TIME,
        "old_log_probs": old,
        "sum_pi_squared": pi.square() + (1 - pi).square() * uniform(*SHAPE),
        "values": uniform(*SHAPE[:2], TIME + 1),
    }


def whitened(values: Tensor, mask: Tensor) -> Tensor:
    """Values over tokens, centered, over √(var + 1e-8), as ``masked_whiten``."""
    return centered(values, mask, ALL) / (masked_std(values, mask, ALL, 1).square() + 1e-8).sqrt()


def gdpo(components: Tensor, weights: Tensor, mask: Tensor, keep: Tensor) -> Tensor:
    """Z-scores of components in their group, weighed; whitened over tokens."""
    scores = sum(w * local(c, keep, eps=1e-6, ddof=1) for c, w in zip(components.unbind(-1), weights, strict=True))
    return whitened(scores.unsqueeze(-1).expand(mask.shape), mask)


def gpg(rewards: Tensor, keep: Tensor) -> Tensor:
    """Distances from the group's mean, scaled by completions over completions with a reward other than 0."""
    scale = count(keep, BATCH, rewards.dtype) / count(keep & (rewards != 0), BATCH, rewards.dtype).clamp(min=1)
    return scale * centered(rewards, keep, GROUP)


def optimal_token(token_rewards: Tensor, mask: Tensor, old_log_probs: Tensor, sum_pi_squared: Tensor) -> Tensor:
    """Returns minus their mean weighted by energy, without it where one completion is left."""
    returns = returns_to_go(token_rewards, mask, 1.0)
    energy = gradient_energy(old_log_probs, sum_pi_squared, mask).cumsum(-1)
    baseline = masked_sum(energy * returns, mask, (-2,)) / (masked_sum(energy, mask, (-2,)) + 1e-8)
    return returns - baseline.where(mask.sum(-2, keepdim=True) > 1, 0.0)


# What verl makes of the same tensors where it is not what ``axes/norm`` makes of them, by the norm here.
THERE: Mapping[str, Callable[[Tensors, Any], Tensor]] = {
    "local": lambda t, node: local(t["rewards"], t["keep"], eps=1e-6, ddof=1),
    "grpo_passk": lambda t, node: grpo_passk(t["rewards"], t["keep"], eps=1e-6, ddof=1),
    "remax": lambda t, node: returns_to_go(t["token_rewards"], t["mask"], 1.0) - t["greedy_rewards"].unsqueeze(-1),
    "gpg": lambda t, node: call_with(gpg, t),
    "gdpo": lambda t, node: call_with(gdpo, t),
    "optimal_token": lambda t, node: call_with(optimal_token, t),
    "reinforce_pp": lambda t, node: whitened(returns_to_go(t["token_rewards"], t["mask"], node.gamma), t["mask"]),
    "reinforce_pp_baseline": lambda t, node: whitened(
        centered(t["rewards"], t["keep"], GROUP).unsqueeze(-1).expand(t["mask"].shape), t["mask"]
    ),
    "gae_whitened": lambda t, node: whitened(
        gae(t["token_rewards"], t["values"], t["mask"], t["finished"], gamma=node.gamma, lam=node.lam, bootstrap=0.0),
        t["mask"],
    ),
}


def distance(node: Any, config: Config) -> tuple[float, float]:
    """Return the largest difference of a token's advantages on the batch, and the largest advantage here."""
    tensors, function = example(config), norm.FUNCTIONS[node.name]
    mask, values = tensors["mask"], {name: getattr(node, name) for name in hyperparameters(function)}
    here = per_token(call_with(partial(function, **values), tensors), mask).expand(mask.shape)[mask]
    there = per_token(THERE[node.name](tensors, node), mask).expand(mask.shape)[mask]
    return (here - there).abs().max().item(), here.abs().max().item()


def size(node: Any, config: Config) -> str:
    """Say how far apart advantages are, for a norm in ``THERE``; nothing where rounding could be all of it."""
    if node.name not in THERE:
        return ""
    apart, largest = distance(node, config)
    told = f"advantages differ by up to {apart:.1g}, the largest being {largest:.1f}: on the batch of docs/export.md"
    return told if apart > ROUNDING else ""
