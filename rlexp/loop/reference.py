"""The reference: the policy that KL is measured against, and how it follows the one that is trained."""

from __future__ import annotations

import torch
from torch import Tensor

from rlexp.core.blocks import map_variants
from rlexp.core.registry import call_with, required_inputs
from rlexp.core.types import PerVocabulary
from rlexp.loop.rollout import Rollout
from rlexp.loop.state import TrainState
from rlexp.loop.variant import Variant


@torch.no_grad()
def update_reference(state: TrainState, step: int) -> None:
    """Let the references of the variants that have one that moves follow their policies."""

    def moved(variant: Variant, reference: Tensor, policy: Tensor) -> dict[str, Tensor]:
        offered = {"reference": reference, "policy": policy, "step": step}
        return {"reference": call_with(variant.reference, offered)}

    if any("policy" in required_inputs(variant.reference) for variant, _ in state.blocks):
        for reference, policy in zip(state.reference.parameters(), state.policy.parameters(), strict=True):
            reference.copy_(map_variants(moved, state.blocks, reference, policy)["reference"])


def reference_distributions(state: TrainState, rollout: Rollout) -> PerVocabulary:
    """Return the reference's log-probabilities of the whole vocabulary at every token of the rollout."""
    return state.reference.distributions(rollout.prompts, rollout.completions, state.temperature).detach()
