"""Policies whose products are rounded, which read along what is sampled (``sampler.products``).

They have the weights of the policies that are trained. What such a policy would draw next is a function of the tokens
so far: it decodes them beside the policy itself, whose log-probabilities are recorded as ever.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rlexp.core.exact import products_by
from rlexp.core.rounding import RoundedProducts
from rlexp.core.types import NextToken, PerReplica, PerToken, Prompts, ReplicaIndices
from rlexp.loop.state import TrainState, take_replicas
from rlexp.models.policy import RolloutPolicy
from rlexp.tasks import Task


class RoundedPolicies:
    """Of the runs whose sampler rounds, the policies that a rollout is sampled from."""

    def __init__(
        self,
        state: TrainState,
        policy: RolloutPolicy,
        task: Task,
        prompts: Prompts,
        uniforms: PerToken,
        temperature: PerReplica,
    ):
        ways = dict.fromkeys(variant.rounding for variant, _ in state.blocks if variant.rounding is not None)
        self.task, self.prompts, self.tokens = task, prompts, []
        self.readers = [
            RoundedPolicy(
                policy,
                state.per_run(lambda variant, way=way: variant.rounding == way).nonzero().squeeze(-1),
                RoundedProducts(*way),
                prompts,
                uniforms.shape[2],
                temperature,
            )
            for way in ways
        ]

    def log_probs(self, like: NextToken) -> NextToken:
        """Return log π of the next token of the policies there are, and ``like`` for all other runs."""
        for reader in self.readers:
            like = like.index_copy(0, reader.replicas, reader.log_probs(self.tokens))
        return like

    def read(self, tokens: Tensor) -> None:
        """Take in the tokens of a place ``[R, P, G]``; the task's environment writes over them."""
        if not self.readers:
            return
        self.tokens.append(tokens)
        if hasattr(self.task, "environment"):
            written = self.task.environment(self.prompts, torch.stack(self.tokens, -1))[..., -1]
            self.tokens[-1] = tokens.where(written < 0, written)


class RoundedPolicy:
    """Policies of some replicas, with the products of one ``RoundedProducts``, and how far they have decoded."""

    def __init__(
        self,
        policy: RolloutPolicy,
        replicas: ReplicaIndices,
        products: RoundedProducts,
        prompts: Prompts,
        group: int,
        temperature: PerReplica,
    ):
        self.replicas, self.products, self.group = replicas, products, group
        whole = len(replicas) == len(prompts)
        self.network = policy.network if whole else take_replicas(policy.network, replicas)
        self.prompts, self.scale = prompts[replicas], temperature[replicas].view(-1, 1, 1, 1)
        self.decoding = None

    def log_probs(self, tokens: list[Tensor]) -> NextToken:
        """Return log π of the token after all ``tokens``, of which the last is new."""
        with products_by(self.products):
            if not tokens:
                logits, self.decoding = self.network.prefill(self.prompts, self.group)
            else:
                logits, self.decoding = self.network.decode(tokens[-1][self.replicas], self.decoding)
        return F.log_softmax(logits / self.scale, -1)
