"""verl's own config, advantages and losses for an exported configuration, beside those of a training step here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from axis_choices import advantages_of, choice_of, numbers
from exports import exported
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig
from small_runs import compose
from torch import Tensor

from rlexp.export.tables import hydra_value
from rlexp.loop.state import Experience
from rlexp.loop.step import loss_terms
from rlexp.sweep.build import variant

PROMPTS, GROUP, TIME = 3, 4, 5
ROWS = PROMPTS * GROUP
# What verl wants to know and an algorithm does not say.
OF_THE_MACHINE = ["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1", "actor_rollout_ref.rollout.name=vllm"]


@contextmanager
def no_hydra() -> Iterator[None]:
    """Context without the Hydra that may be running; there can be one only."""
    running = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.instance().hydra = running


def verl_config(*overrides: str) -> DictConfig:
    """Return what ``verl.trainer.main_ppo`` reads from the exported command."""
    folder = Path(find_spec("verl").origin).parent / "trainer" / "config"
    arguments = [f"{name}={hydra_value(value)}" for name, value in exported("verl", *overrides).settings.items()]
    with no_hydra(), initialize_config_dir(str(folder), version_base=None):
        return hydra_compose("ppo_trainer", [*arguments, *OF_THE_MACHINE])


def batch(shared_advantage: bool = True) -> dict[str, Tensor]:
    """Return tensors ``[1, P, G, T]`` of float64, off-policy and ragged, one completion without tokens."""
    made = numbers(1, PROMPTS, GROUP, TIME)
    made["mask"][0, 1, 2] = False
    if shared_advantage:
        made["advantages"] = made["advantages"][..., :1].expand(made["mask"].shape)
    made["keep"] = torch.ones_like(made["keep"])
    made["mean_tokens"] = made["mask"].sum((-1, -2, -3)).double()
    return made | {"kl_factor": torch.ones(1).double()}


def rewarded(penalty: float = 0.0) -> dict[str, Tensor]:
    """Return tensors ``[1, P, G, T]`` with rewards, of which token penalties are a part; each completion has tokens."""
    made = numbers(1, PROMPTS, GROUP, TIME)
    made["keep"] = torch.ones_like(made["keep"])
    made["token_penalties"] = (penalty * made["token_penalties"]).where(made["mask"], 0.0)
    made["rewards"] = made["outcomes"] - made["token_penalties"].sum(-1)
    made["adjustments"] = torch.zeros_like(made["outcomes"])
    return made | {"lengths": made["mask"].sum(-1).double()}


def rows(tensor: Tensor) -> Tensor:
    """``[1, P, G, ...]`` as rows."""
    return tensor.flatten(0, 2)


def our_loss(config, tensors: dict[str, Tensor], log_probs: Tensor, entropies: Tensor) -> Tensor:
    """The loss of a training step."""
    names = set(Experience._fields) - {"prompts", "completions", "prompt_numbers", "critic"}
    nothing = torch.zeros_like(tensors["mask"], dtype=torch.long)
    beside = dict(prompt_numbers=nothing[..., 0, 0], critic={})
    part = Experience(nothing[..., 0, :], nothing, **{name: tensors[name] for name in names}, **beside)
    known = {name: tensors[name] for name in ("mean_tokens", "kl_factor", "progress", "uniforms")}
    return sum(loss_terms(variant(config), log_probs, entropies, part, known).values()).sum()


def verl_loss(overrides: tuple[str, ...], tensors: dict[str, Tensor], log_probs: Tensor, entropies: Tensor) -> Tensor:
    """``verl.workers.utils.losses.ppo_loss`` of the same tensors; without its packing, which changes no number."""
    from tensordict import TensorDict
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask
    from verl.utils import tensordict_utils
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.utils import losses

    config = verl_config(*overrides)
    mask = rows(tensors["mask"])
    fields = {"old_log_probs": "old_log_probs", "ref_log_prob": "ref_log_probs", "advantages": "advantages"}
    data = {name: rows(tensors[here]) for name, here in fields.items()} | {"response_mask": mask.long()}
    settings = config.algorithm.rollout_correction
    weights, _, _ = compute_rollout_correction_and_rejection_mask(
        rows(tensors["old_log_probs"]),
        rows(tensors["sampler_log_probs"]),
        mask,
        rollout_is=settings.rollout_is,
        rollout_is_threshold=settings.rollout_is_threshold,
    )
    data |= {"rollout_is_weights": weights.batch["rollout_is_weights"]} if weights else {}
    data = TensorDict(data, batch_size=[ROWS])
    tensordict_utils.assign_non_tensor(data, dp_size=1, batch_num_tokens=mask.sum().item(), global_batch_size=ROWS)
    packed, losses.no_padding_2_padding = losses.no_padding_2_padding, lambda values, data: values
    try:
        output = {"log_probs": rows(log_probs), "entropy": rows(entropies)}
        return losses.ppo_loss(omega_conf_to_dataclass(config.actor_rollout_ref.actor), output, data)[0]
    finally:
        losses.no_padding_2_padding = packed


def distances(
    overrides: tuple[str, ...], tensors: dict[str, Tensor], theirs: Callable[..., Tensor] = verl_loss
) -> tuple[float, float]:
    """Relative distances between a framework's loss and ours: of the values, and of the gradients."""

    def measured(function, given) -> tuple[Tensor, Tensor]:
        leaves = [tensors[name].clone().requires_grad_() for name in ("log_probs", "entropies")]
        value = function(given, tensors, *leaves)
        gradients = torch.autograd.grad(value + sum(0 * leaf.sum() for leaf in leaves), leaves)
        return value, torch.cat([gradient.where(tensors["mask"], 0.0).flatten() for gradient in gradients])

    (value, slopes), (other, others) = measured(our_loss, compose(*overrides)), measured(theirs, overrides)
    assert others.norm() > 0
    return (abs(value - other) / abs(other)).item(), ((slopes - others).norm() / others.norm()).item()


def our_advantages(config, tensors: dict[str, Tensor]) -> Tensor:
    """Advantages ``[P · G, T]`` of a training step, 0 outside the mask."""
    node = config.norm.model_dump()
    found = advantages_of(choice_of("norm", node["name"], node), tensors)
    found = found if found.dim() == tensors["mask"].dim() else found.unsqueeze(-1)
    return rows(found.expand(tensors["mask"].shape).where(tensors["mask"], 0.0))


def verl_advantages(overrides: tuple[str, ...], tensors: dict[str, Tensor], **given: object) -> Tensor:
    """What verl's estimator makes of the same rewards, with what its legacy trainer hands it."""
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    from verl.utils.config import omega_conf_to_dataclass

    config = omega_conf_to_dataclass(verl_config(*overrides).algorithm)
    mask = rows(tensors["mask"])
    last = mask & ~torch.nn.functional.pad(mask[:, 1:], (0, 1))
    token_rewards = rows(tensors["outcomes"]).unsqueeze(-1) * last - rows(tensors["token_penalties"]) * mask
    given |= {"index": index_of(tensors), "config": config}
    if config.adv_estimator == "grpo":
        given["norm_adv_by_std_in_grpo"] = config.norm_adv_by_std_in_grpo
    if config.adv_estimator == "gae":
        given = {"values": rows(tensors["values"])[:, :-1] * mask, "gamma": config.gamma, "lam": config.lam}
    return get_adv_estimator_fn(config.adv_estimator)(token_rewards, response_mask=mask.double(), **given)[0]


def index_of(tensors: dict[str, Tensor]) -> np.ndarray:
    """Which group each row is of."""
    _, prompts, group = tensors["outcomes"].shape
    return np.arange(prompts).repeat(group)


def handed_over(config, tensors: dict[str, Tensor]) -> dict[str, object]:
    """What the legacy trainer hands an estimator beside rewards and mask."""
    mask, names = rows(tensors["mask"]), exported_components(config)
    every = {
        "remax": {"reward_baselines": rows(tensors["greedy_rewards"].expand_as(tensors["rewards"]))},
        "optimal_token": {name: rows(tensors[name]) for name in ("old_log_probs", "sum_pi_squared")},
        "gdpo": {
            "non_tensor_batch": {name: rows(tensors["components"])[:, k].numpy() for k, name in enumerate(names)},
            "batch": {"prompts": mask[:, :1], "attention_mask": torch.nn.functional.pad(mask.long(), (1, 0), value=1)},
        },
    }
    return every.get(config.norm.name, {})


def exported_components(config) -> list[str]:
    """Reward components that the exported command names."""
    return [name for name, weight in config.task.weights.items() if weight]
