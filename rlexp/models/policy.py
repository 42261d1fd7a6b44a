"""What the training loop asks of a policy, and what the models here share.

A policy is R independent networks as one stack: the leading axis of its parameters, inputs and results is the replica.
Prompts are padded on the left to one length L; completions have T places, and what follows an end token is ignored by
whoever uses the results.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import nn

from rlexp.core import types as t


class TokenLogProbs(NamedTuple):
    """Log-probabilities of the tokens of completions and, if asked for, entropies and all of what they are drawn from.

    ``distributions`` are log-probabilities of the whole vocabulary.
    """

    log_probs: t.PerToken
    entropies: t.PerToken | None
    distributions: t.PerVocabulary | None = None


class RolloutPolicy:
    """What sampling a rollout and reading it again need of a policy.

    ``prefill`` and ``decode`` complete prompts token by token without gradients; the other methods see completions as
    wholes and give gradients. It is either a whole ``Policy`` or what ``recorded`` returns, which belongs to one
    rollout. ``network`` is the one whose weights these are.
    """

    network: nn.Module

    def prefill(self, prompts: t.Prompts, group: int) -> tuple[t.NextToken, Any]:
        """Return the logits of the first token of ``group`` completions a prompt, and the state of decoding."""

    def decode(self, tokens: t.NextTokens, state: Any) -> tuple[t.NextToken, Any]:
        """Return the logits after one more token of every completion, and the new state; the old one is used up."""

    def record(self, state: Any) -> None:
        """Take in what decoding up to its last ``state`` has computed."""

    def logits(self, prompts: t.Prompts, completions: t.Completions) -> t.PerVocabulary:
        """Return the logits of every completion token."""

    def log_probs(
        self,
        prompts: t.Prompts,
        completions: t.Completions,
        temperature: t.PerReplica,
        *,
        entropies: bool = False,
        distributions: bool = False,
    ) -> TokenLogProbs:
        """Return the log-probabilities of the completions' tokens, and what else is asked for; entropies in nats."""
        every = self.distributions(prompts, completions, temperature)
        log_probs = gather_log_probs(every, completions)
        return TokenLogProbs(log_probs, entropy(every) if entropies else None, every if distributions else None)

    def distributions(
        self, prompts: t.Prompts, completions: t.Completions, temperature: t.PerReplica
    ) -> t.PerVocabulary:
        """Return the log-probabilities of the whole vocabulary; those of the tokens alone cost less memory."""
        return F.log_softmax(self.logits(prompts, completions) / temperature.view(-1, 1, 1, 1, 1), -1)

    def slice_prompts(self, prompts: slice) -> RolloutPolicy:
        """Return the policy for some of the prompts of its rollout."""
        return self

    def replace_replicas(self, replicas: t.ReplicaIndices, other: RolloutPolicy, prompts: t.Prompts) -> RolloutPolicy:
        """Return the policy for a rollout of which the completions of ``replicas`` are those of ``other``."""
        return self


class Policy(RolloutPolicy, nn.Module):
    """Base of the models: a stack of R policies by its ``logits``, which a layer ``head`` makes.

    A model that ``reads_completions`` takes ``outputs``, how many numbers its head makes at each place instead of one
    for every token of the vocabulary: what it is then is a judge of completions, see ``scalar``.
    """

    reads_completions = True
    packs = False
    """Whether its shapes depend on how long completions are, see ``packing``."""

    def forward(self, prompts: t.Prompts, completions: t.Completions) -> t.PerVocabulary:
        return self.logits(prompts, completions)

    @property
    def network(self) -> Policy:
        return self

    def recorded(self, prompts: t.Prompts, group: int) -> RolloutPolicy:
        """Return this policy for one rollout of ``group`` completions a prompt.

        What sampling computes is kept, and not computed again where the rollout is read: only the backward pass is
        left. With it log-probabilities are those of sampling to the bit. It holds until the weights change. A policy
        that keeps nothing returns itself.
        """
        return self

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters in which all logits are linear: scaling them scales the logits."""
        return list(self.head.parameters())


def gather_log_probs(distributions: t.Distributions, tokens: t.PlaceTokens) -> t.PerPlace:
    """Log-probabilities of tokens out of those of the whole vocabulary: ``[..., V], [...] -> [...]``."""
    return distributions.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def entropy(distributions: t.Distributions) -> t.PerPlace:
    """−Σ_v π log π in nats: ``[..., V] -> [...]``."""
    return -(distributions.exp() * distributions).sum(-1)
