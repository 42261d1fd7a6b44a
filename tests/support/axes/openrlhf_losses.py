"""OpenRLHF's own losses and advantages for an exported configuration.

Its packages import flash-attention and DeepSpeed, which want a GPU and have no part in the formulas: the modules with
the formulas are imported without the packages around them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from exports import exported
from torch import Tensor
from verl_losses import GROUP, rows

PACKAGES = ("openrlhf", *(f"openrlhf.{name}" for name in ("models", "utils", "trainer", "trainer.ppo_utils")))
STAND_INS = ("deepspeed", "openrlhf.trainer.ray", "openrlhf.trainer.ray.launcher")


@contextmanager
def openrlhf_modules() -> Iterator[SimpleNamespace]:
    """Context with the modules of OpenRLHF that have its formulas; nothing of it stays imported."""
    folder = Path(find_spec("openrlhf").origin).parent
    before = dict(sys.modules)
    try:
        for name in PACKAGES:
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules |= {name: MagicMock() for name in STAND_INS}
        yield SimpleNamespace(
            loss=import_module("openrlhf.models.loss"),
            utils=import_module("openrlhf.models.utils"),
            maker=import_module("openrlhf.trainer.ppo_utils.experience_maker").RemoteExperienceMaker,
        )
    finally:
        for name in {name for name in sys.modules if name.startswith("openrlhf")} | set(STAND_INS):
            sys.modules.pop(name)
        sys.modules |= {name: module for name, module in before.items() if name.startswith(("openrlhf", "deepspeed"))}


def openrlhf_loss(
    openrlhf: SimpleNamespace, overrides: tuple[str, ...], tensors: dict[str, Tensor], log_probs: Tensor, bonus: Tensor
) -> Tensor:
    """What its ``training_step`` makes of the same tensors, where they are all of an optimizer step."""
    settings = exported("openrlhf", *overrides).settings
    policy_loss = openrlhf.loss.PolicyLoss(
        *settings["--actor.eps_clip_low_high"],
        dual_clip=settings.get("--actor.dual_clip"),
        policy_loss_type=settings["--actor.policy_loss_type"],
        enable_vllm_is_correction=settings.get("--algo.advantage.is_correction_enable", False),
        vllm_is_truncated_threshold=settings.get("--algo.advantage.is_correction_threshold"),
        vllm_is_correction_type=settings.get("--algo.advantage.is_correction_type", "tis"),
    )
    mask = rows(tensors["mask"]).double()
    totals = {"batch_num_tokens": mask.sum(), "global_batch_size": (mask.sum(-1) > 0).sum()}
    names = ("old_log_probs", "advantages")
    given = [rows(log_probs), *(rows(tensors[name]) for name in names)]
    loss, *_ = policy_loss(*given, mask, rollout_log_probs=rows(tensors["sampler_log_probs"]), **totals)
    if settings.get("--algo.kl.use_loss"):
        reference = rows(tensors["ref_log_probs"])
        penalties = openrlhf.utils.compute_approx_kl(rows(log_probs), reference, settings["--algo.kl.estimator"])
        loss = loss + settings["--algo.kl.init_coef"] * openrlhf.loss.aggregate_loss(penalties, mask, **totals)
    return loss - settings["--actor.entropy_coef"] * openrlhf.loss.aggregate_loss(rows(bonus), mask, **totals)


def nested(flags: dict[str, Any]) -> SimpleNamespace:
    """`{"--algo.kl.target": 1}` as ``args.algo.kl.target``."""
    root = SimpleNamespace()
    for flag, value in flags.items():
        *path, last = flag.removeprefix("--").split(".")
        node = root
        for step in path:
            node.__dict__.setdefault(step, SimpleNamespace())
            node = getattr(node, step)
        setattr(node, last, value)
    return root


def openrlhf_advantages(openrlhf: SimpleNamespace, overrides: tuple[str, ...], tensors: dict[str, Tensor]) -> Tensor:
    """What its ``compute_advantages_and_returns`` makes of the same rewards, KL penalties included."""
    unset = {"--algo.advantage.gamma": 1.0, "--algo.advantage.no_std_norm": False}
    args = nested(unset | exported("openrlhf", *overrides).settings | {"--rollout.n_samples_per_prompt": GROUP})
    maker = object.__new__(openrlhf.maker)
    maker.strategy, maker.kl_ctl = SimpleNamespace(args=args), SimpleNamespace(value=1.0)
    maker.advantage_estimator = args.algo.advantage.estimator
    outcomes = rows(tensors["outcomes"])
    experience = SimpleNamespace(
        index=list(range(len(outcomes))),
        rewards=outcomes,
        info={},
        kl=rows(tensors["token_penalties"]),
        action_mask=rows(tensors["mask"]).double(),
    )
    (found,) = maker.compute_advantages_and_returns([experience])
    return found.advantages.where(rows(tensors["mask"]), torch.zeros(()).to(found.advantages))
