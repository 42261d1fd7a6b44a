"""What the training loop asks of a policy, and what the models here share.

A policy is R independent networks as one stack: the leading axis of its parameters, inputs and results is the replica.
Prompts are padded on the left to one length L; completions have T places, and what follows an end token is ignored by
whoever uses the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch.nn.functional as F
from torch import nn

from rlexp.core.types import (
    Completions,
    Distributions,
    NextToken,
    NextTokens,
    PerPlace,
    PerReplica,
    PerToken,
    PerVocabulary,
    PlaceTokens,
    Prompts,
    ReplicaIndices,
)


class TokenLogProbs(NamedTuple):
    """Log-probabilities of the tokens of completions and, if asked for, the entropies of what they were drawn from."""

    log_probs: PerToken
    entropies: PerToken | None


@runtime_checkable
class ForwardCache(Protocol):
    """What sampling leaves of its forward pass, so that the first update after it has only to go backwards.

    It holds for the weights that sampled: with it, log-probabilities are those of sampling to the bit.
    """

    def record(self, tokens: Sequence[Any]) -> None:
        """Take in what decoding has computed at each token, ``tokens`` of its last state."""

    def slice_prompts(self, prompts: slice) -> ForwardCache:
        """Return the part of some prompts."""

    def replace_replicas(self, replicas: ReplicaIndices, other: ForwardCache) -> None:
        """Overwrite what completions have left in ``replicas`` with all of ``other``; the prompts stay as they are."""

    def with_prompts(self, prompt_cache: Any) -> ForwardCache:
        """Return the cache with other prompts; ``prompt_cache`` is what ``read_prompts`` of its policy returns."""


@runtime_checkable
class Policy(Protocol):
    """A stack of R policies, an ``nn.Module``.

    ``prefill`` and ``decode`` complete prompts token by token without gradients; the other methods see completions as
    wholes and give gradients. A policy whose ``forward_cache`` is not None also has ``read_prompts(prompts)``.
    """

    def prefill(self, prompts: Prompts, group: int, forward_cache: ForwardCache | None = None) -> tuple[NextToken, Any]:
        """Return the logits of the first token of ``group`` completions a prompt, and the state of decoding.

        With ``forward_cache``, that of these prompts, the state collects what the cache is to ``record``.
        """

    def decode(self, tokens: NextTokens, state: Any) -> tuple[NextToken, Any]:
        """Return the logits after one more token of every completion, and the new state; the old one is used up."""

    def logits(
        self, prompts: Prompts, completions: Completions, forward_cache: ForwardCache | None = None
    ) -> PerVocabulary:
        """Return the logits of every completion token."""

    def log_probs(
        self,
        prompts: Prompts,
        completions: Completions,
        temperature: PerReplica,
        *,
        entropies: bool = False,
        forward_cache: ForwardCache | None = None,
    ) -> TokenLogProbs:
        """Return the log-probabilities of the completions' tokens, and the ``entropies`` in nats if asked for."""

    def distributions(
        self,
        prompts: Prompts,
        completions: Completions,
        temperature: PerReplica,
        *,
        forward_cache: ForwardCache | None = None,
    ) -> PerVocabulary:
        """Return the log-probabilities of the whole vocabulary: for those only who need more than the tokens'."""

    def forward_cache(self, prompts: Prompts, group: int) -> ForwardCache | None:
        """Return room for what sampling ``group`` completions a prompt leaves; None if the policy keeps nothing."""

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters in which all logits are linear: scaling them scales the logits."""

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Return all parameters, ``[R, ...]`` each."""

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Return all parameters with their names."""


class StackedPolicy(nn.Module):
    """Base of the models: a policy by its ``logits``, which a layer ``head`` makes, and without a forward cache.

    A model that ``reads_completions`` takes ``outputs``, how many numbers its head makes at each place instead of one
    for every token of the vocabulary: what it is then is a judge of completions, see ``scalar``.
    """

    reads_completions = True

    def forward(
        self, prompts: Prompts, completions: Completions, forward_cache: ForwardCache | None = None
    ) -> PerVocabulary:
        """Return ``logits``."""
        return self.logits(prompts, completions, forward_cache)

    def distributions(
        self,
        prompts: Prompts,
        completions: Completions,
        temperature: PerReplica,
        *,
        forward_cache: ForwardCache | None = None,
    ) -> PerVocabulary:
        """See ``Policy``."""
        logits = self.logits(prompts, completions, forward_cache)
        return F.log_softmax(logits / temperature.view(-1, 1, 1, 1, 1), -1)

    def log_probs(
        self,
        prompts: Prompts,
        completions: Completions,
        temperature: PerReplica,
        *,
        entropies: bool = False,
        forward_cache: ForwardCache | None = None,
    ) -> TokenLogProbs:
        """See ``Policy``."""
        distributions = self.distributions(prompts, completions, temperature, forward_cache=forward_cache)
        log_probs = gather_log_probs(distributions, completions)
        return TokenLogProbs(log_probs, entropy(distributions) if entropies else None)

    def forward_cache(self, prompts: Prompts, group: int) -> ForwardCache | None:
        """Return None: decoding keeps nothing, every update computes its own forward pass."""
        return None

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of ``head``."""
        return list(self.head.parameters())


def gather_log_probs(distributions: Distributions, tokens: PlaceTokens) -> PerPlace:
    """Log-probabilities of tokens out of those of the whole vocabulary: ``[..., V], [...] -> [...]``."""
    return distributions.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def entropy(distributions: Distributions) -> PerPlace:
    """−Σ_v π log π in nats: ``[..., V] -> [...]``."""
    return -(distributions.exp() * distributions).sum(-1)
