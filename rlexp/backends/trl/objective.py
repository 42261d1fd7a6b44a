"""From TRL's rows to this project's tensors, and what the axes make of them. One run: R is 1 everywhere.

TRL keeps completions as rows ``[B, ...]``, those of a prompt side by side; the axes take ``[1 P G ...]``. Prompts of
different lengths are padded on the left, completions on the right, each batch to its own longest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from rlexp.core.masked import ALL, count
from rlexp.core.memory import initial_memory
from rlexp.core.registry import required_inputs
from rlexp.core.streams import Purpose, hashed_uniforms, uniforms
from rlexp.loop.metrics import Row, metrics_of_update
from rlexp.loop.rewards import Rewards
from rlexp.loop.rollout import Rollout
from rlexp.loop.state import Experience, update_memory
from rlexp.loop.step import compute_advantages, loss_terms
from rlexp.loop.variant import Variant

# What the updates need of a step beside what TRL keeps itself, as rows ``[B, ...]``.
ON_ROWS = ("mask", "advantages", "rewards", "keep")


class Scored(NamedTuple):
    """All completions of a step: what was sampled ``[1 P G T]``, what it earns, and what else is needed of it."""

    rollout: Rollout
    rewards: Rewards
    ref_log_probs: Tensor
    entropies: Tensor


def grouped(rows: Tensor, group: int) -> Tensor:
    """``[B, ...] -> [1 P G ...]``."""
    return rows.unflatten(0, (-1, group)).unsqueeze(0)


@dataclass
class Objective:
    """The axes of one variant at work on what TRL samples; remembers from step to step what the variant remembers.

    ``parts`` is into how many pieces TRL cuts an update: processes times accumulated micro-batches.
    """

    variant: Variant
    weights: Mapping[str, float]
    seed: int
    group: int
    minibatches: int
    parts: int
    memory: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self):
        self.memory = self.memory or initial_memory([(self.variant, 1)])

    @property
    def requires_old_log_probs(self) -> bool:
        """Whether the log-probabilities of the policy that sampled are needed before its first update."""
        variant = self.variant
        before_the_loss = (variant.shaping, variant.filter_loss, variant.filter_statistics, variant.norm)
        before_the_loss += tuple(memory.update for memory in variant.memories.values())
        asked = (required_inputs(function) for function in before_the_loss)
        return bool(variant.kl_in_reward) or any("old_log_probs" in names for names in asked)

    def requires(self, name: str) -> bool:
        return name in self.variant.requested

    def compute_advantages(self, scored: Scored, step: int) -> Experience:
        """Return what the completions of a step are worth; of what is offered, what nobody asks for is not made."""
        rollout, rewards = scored.rollout, scored.rewards
        device, dtype = rollout.old_log_probs.device, rollout.old_log_probs.dtype
        names = [name for name, weight in self.weights.items() if weight]
        weights = torch.tensor([[self.weights[name] for name in names]], dtype=dtype, device=device)
        shape = rollout.mask.shape[1:3]
        inputs = {
            "components": lambda: torch.stack([rewards.components[name] for name in names], -1),
            "weights": lambda: weights,
            "correct": lambda: rewards.correct.to(dtype),
            "entropies": lambda: scored.entropies,
            "drawn": lambda: uniforms([self.seed], Purpose.VERDICTS, step, shape, device),
            "hashed": lambda: hashed_uniforms([self.seed], Purpose.PERSISTENT_VERDICTS, *rollout.pairs),
        }
        wanted = {name: make() for name, make in inputs.items() if self.requires(name)}
        numbers = torch.zeros_like(rollout.prompts[..., 0])  # no prompt is known to come again
        self.memory = {name: values.to(device) for name, values in self.memory.items()}  # made or read on the CPU
        offered = self.memory | wanted | {"ref_log_probs": scored.ref_log_probs, "prompt_numbers": numbers}
        return compute_advantages(self.variant, rollout, rewards.total, offered)

    def mean_tokens(self, experience: Experience) -> Tensor:
        """Tokens that count in a step, over the number of pieces that it is cut into, ``[1]``: see ``agg.token``."""
        tokens = count(experience.mask, ALL, experience.advantages.dtype).squeeze(ALL).clamp(min=1)
        return tokens / (self.minibatches * self.parts)

    def part(self, rows: Mapping[str, Tensor], log_probs: Tensor) -> Experience:
        """Return rows of a step as the axes take them; ``log_probs`` ``[B, T]`` are those before the first update."""
        old = rows.get("old_per_token_logps")
        old = log_probs.detach() if old is None else old
        sampler, reference = rows.get("sampling_per_token_logps", old), rows.get("ref_per_token_logps", old)
        prompts = grouped(rows["prompt_ids"], self.group)[:, :, 0]
        tensors = {name: grouped(rows[f"axes/{name}"], self.group) for name in ON_ROWS}
        width = log_probs.shape[-1]
        for name in ("mask", "advantages"):
            tensors[name] = tensors[name][..., :width]
        mask = tensors["mask"]

        def of_tokens(values: Tensor) -> Tensor:
            return grouped(values, self.group).where(mask, 0.0)

        return Experience(
            prompts=prompts,
            completions=grouped(rows["completion_ids"], self.group),
            old_log_probs=of_tokens(old),
            ref_log_probs=of_tokens(reference),
            sampler_log_probs=of_tokens(sampler),
            prompt_numbers=torch.zeros_like(prompts[..., 0]),
            critic={},
            **tensors,
        )

    def loss(
        self,
        log_probs: Tensor,
        entropies: Tensor | None,
        part: Experience,
        tensors: Mapping[str, Tensor],
        measure: bool,
    ) -> tuple[Tensor, Row]:
        """Return the loss of a micro-batch, to be summed over those of an update on a process, and its metrics.

        ``log_probs`` and ``entropies`` are ``[B, T]``. The mean over processes of the sums is the loss of the update:
        exactly so for every aggregation but ``bnpo``, whose minibatch is one micro-batch, as in TRL.
        """
        log_probs = grouped(log_probs, self.group)
        entropies = torch.zeros_like(log_probs) if entropies is None else grouped(entropies, self.group)
        offered = self.memory | dict(tensors)
        losses = loss_terms(self.variant, log_probs, entropies, part, offered)
        losses["loss/total"] = sum(losses.values())
        row = {name: loss.detach() for name, loss in losses.items()}
        if measure:
            row = metrics_of_update([(self.variant, 1)], losses, log_probs.detach(), part, offered)
        return losses["loss/total"].squeeze(0), row

    def remember(self, experience: Experience) -> None:
        self.memory.update(update_memory(self.variant, self.memory, experience))
