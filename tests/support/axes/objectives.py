"""One objective, of choices of several axes together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from axis_choices import bind, memory_shapes
from torch import Tensor

from rlexp.axes import entropy_control, kl_control
from rlexp.axes.optimizer import sgd
from rlexp.axes.reference import frozen
from rlexp.axes.teacher import none as no_teacher
from rlexp.loop.rollout import Rollout
from rlexp.loop.step import compute_advantages, loss_terms
from rlexp.loop.variant import Variant


def objective(chosen: Mapping[str, Callable], coef: float, batch: Mapping[str, Tensor]) -> Tensor:
    """Rewards and log-probs to one loss a replica by the code of a training step, the penalty in the loss."""
    variant = Variant(
        reward=bind("reward", "verifier"),
        verdicts=0,
        shaping=bind("shaping", "none"),
        filter_loss=bind("filter", "none"),
        filter_statistics=lambda *_: batch["keep"],
        filter_refill=bind("filter", "none"),
        refill_rounds=1,
        norm=chosen["norm"],
        anchor=bind("anchor", "old"),
        prompts=bind("prompts", "uniform"),
        allocation=bind("allocation", "uniform"),
        clip=chosen["clip"],
        agg=chosen["agg"],
        kl=chosen["kl"],
        kl_control=kl_control.fixed,
        reference=frozen,
        entropy_control=entropy_control.fixed,
        optimizer=sgd,
        teacher=no_teacher,
        distillation=bind("distillation", "none"),
        imitation=bind("imitation", "none"),
        memories={},
        sampler=bind("sampler", "exact"),
        mismatch=chosen.get("mismatch", bind("mismatch", "none")),
        kl_in_loss=coef,
        kl_in_reward=0.0,
        entropy_coef=0.0,
        log_ratio_bound=batch["log_ratio_bound"].max().item(),
    )
    nothing = torch.zeros_like(batch["mask"], dtype=torch.long)
    log_probs = batch["old_log_probs"], batch["sampler_log_probs"]
    rollout = Rollout(nothing[..., 0, :], nothing, log_probs[0], batch["mask"], batch["finished"], log_probs[1])
    part = compute_advantages(variant, rollout, batch["rewards"], batch)
    factor = torch.ones(batch["mask"].shape[:-3], dtype=batch["log_probs"].dtype)
    known = {name: batch[name] for name in ("mean_tokens", "progress", "uniforms", *memory_shapes())} | {
        "kl_factor": factor
    }
    return sum(loss_terms(variant, batch["log_probs"], torch.zeros_like(batch["log_probs"]), part, known).values())
