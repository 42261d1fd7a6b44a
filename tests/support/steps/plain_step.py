"""A training step of one run, written again: PyTorch's layers and optimizer, loops over prompts, completions, tokens.

Nothing of ``rlexp`` is used. One recipe is spelled out, with its numbers: group mean and deviation, or discounted
reward to go whitened over all tokens; PPO's clip, k3 in the loss or k1 in the reward, an entropy bonus, overlong
completions left out of the loss or the statistics.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Recipe:
    """The numbers of a run."""

    eps: float = 1e-4
    gamma: float | None = None
    low: float = 0.05
    high: float = 0.1
    agg: str = "token"
    kl_in_loss: float = 0.0
    kl_in_reward: float = 0.0
    entropy_bonus: float = 0.0
    drop_from_loss: bool = False
    drop_from_statistics: bool = False
    inner_steps: int = 1
    minibatches: int = 1


@dataclass
class Completion:
    """One answer and all that is known about it; ``trained`` are the tokens that the loss sees."""

    prompt: list[int]
    tokens: list[int]
    trained: list[bool]
    finished: bool
    old: list[float]
    ref: list[float]
    outcome: float
    penalties: list[float]
    advantages: list[float]

    @property
    def reward(self) -> float:
        """What is left of the outcome."""
        return self.outcome - sum(self.penalties)


class PlainNetwork(nn.Module):
    """Embedding, GRU, linear head, over one sequence without padding."""

    def __init__(self, vocabulary: int, hidden: int, layers: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.gru = nn.GRU(hidden, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, prompt: Sequence[int], tokens: Sequence[int]) -> Tensor:
        """Return the logits of the tokens after the prompt and of the one that would follow, ``[T + 1, V]``."""
        outputs, _ = self.gru(self.embedding(torch.tensor([[*prompt, *tokens]])))
        return self.head(outputs[0, len(prompt) - 1 :])


@dataclass
class Plain:
    """One run: its networks, its optimizer, its recipe; ``judge(prompt, tokens)`` gives a reward or NaN.

    ``environment(prompt, tokens)`` says which token it writes next, or −1 where the policy does.
    """

    policy: PlainNetwork
    reference: PlainNetwork
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler
    limit: float
    temperature: float
    recipe: Recipe
    end: int
    judge: Callable[[list[int], list[int]], float]
    environment: Callable[[list[int], list[int]], int] = lambda prompt, tokens: -1
    train_on_environment: bool = False

    def step(self, prompts: Sequence[list[int]], noise: Tensor) -> dict[str, float]:
        """Sample with the random numbers ``[P, G, T]``, learn, return means over the updates."""
        groups = [[self.complete(prompt, row) for row in rows] for prompt, rows in zip(prompts, noise, strict=True)]
        self.credit(groups)
        size = len(groups) // self.recipe.minibatches
        tokens = sum(sum(c.trained) for group in groups for c in group if self.counts(c)) / self.recipe.minibatches
        rows = [
            self.update(groups[first : first + size], tokens)
            for _ in range(self.recipe.inner_steps)
            for first in range(0, len(groups), size)
        ]
        rewards = [completion.reward for group in groups for completion in group if not math.isnan(completion.reward)]
        means = {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}
        return means | {"reward/shaped": statistics.fmean(rewards)}

    def log_probs(self, network: PlainNetwork, prompt: Sequence[int], tokens: Sequence[int]) -> Tensor:
        """All log-probabilities at the sampling temperature, ``[T + 1, V]``."""
        return torch.log_softmax(network(prompt, tokens) / self.temperature, -1)

    @torch.no_grad()
    def complete(self, prompt: list[int], noise: Tensor) -> Completion:
        """Sample until the end token or the last random number; take the penalty off the reward."""
        tokens, old, trained = [], [], []
        for number in noise.tolist():
            log_probs = self.log_probs(self.policy, prompt, tokens)[-1]
            written = self.environment(prompt, tokens)
            trained.append(written < 0 or self.train_on_environment)
            tokens.append(first_above(log_probs.exp().tolist(), number) if written < 0 else written)
            old.append(log_probs[tokens[-1]].item())
            if tokens[-1] == self.end:
                break
        reference = self.log_probs(self.reference, prompt, tokens)
        ref = [reference[t, token].item() for t, token in enumerate(tokens)]
        penalties = [self.recipe.kl_in_reward * (a - b) * c for a, b, c in zip(old, ref, trained, strict=True)]
        outcome, nothing = self.judge(prompt, tokens), [0.0] * len(tokens)
        return Completion(prompt, tokens, trained, tokens[-1] == self.end, old, ref, outcome, penalties, nothing)

    def credit(self, groups: list[list[Completion]]) -> None:
        """Set the advantages of those that have a reward and are in the statistics."""
        counted = [
            [c for c in group if not math.isnan(c.reward) and (c.finished or not self.recipe.drop_from_statistics)]
            for group in groups
        ]
        if self.recipe.gamma is None:
            for group in counted:
                self.compare(group, [[c.reward] for c in group])
        else:
            every = [c for group in counted for c in group]
            self.compare(every, [to_go(c, self.recipe.gamma) for c in every])

    def compare(self, completions: list[Completion], returns: list[list[float]]) -> None:
        """Set (x − mean) / (std + eps): one return for all trained tokens of a completion, or one for each."""
        every = [value for row in returns for value in row]
        if len(set(every)) > 1:
            centre, scale = statistics.fmean(every), statistics.stdev(every) + self.recipe.eps
            for c, row in zip(completions, returns, strict=True):
                scores = [(value - centre) / scale for value in row] * (sum(c.trained) // len(row))
                c.advantages = [scores.pop(0) if trained else math.nan for trained in c.trained]

    def counts(self, completion: Completion) -> bool:
        """Whether a completion is in the loss."""
        return completion.finished or not self.recipe.drop_from_loss

    def update(self, groups: list[list[Completion]], tokens: float) -> dict[str, float]:
        """One optimizer step; ``tokens`` is how many a minibatch of this rollout has in the loss, on average."""
        every = [completion for group in groups for completion in group]
        losses = [self.losses(completion) for completion in every if self.counts(completion)]
        parts = self.token(losses, tokens) if self.recipe.agg == "token" else self.sequence(losses, len(every))
        self.optimizer.zero_grad()
        parts.sum().backward()
        norm = nn.utils.clip_grad_norm_(self.policy.parameters(), self.limit)
        rate = self.optimizer.param_groups[0]["lr"]
        self.optimizer.step()
        self.scheduler.step()
        policy, kl, entropy = parts.tolist()
        row = {"loss/policy": policy, "loss/kl": kl, "loss/entropy": entropy}
        return row | {"optim/grad_norm": norm.item(), "optim/lr": rate}

    def losses(self, c: Completion) -> list[Tensor]:
        """Policy loss, penalty and bonus of each trained token, ``[3]``."""
        recipe, every = self.recipe, self.log_probs(self.policy, c.prompt, c.tokens)
        rows = []
        for t in [t for t, trained in enumerate(c.trained) if trained]:
            token = c.tokens[t]
            ratio = (every[t, token] - c.old[t]).exp()
            bounded = ratio.clamp(1 - recipe.low, 1 + recipe.high)
            policy = -torch.minimum(ratio * c.advantages[t], bounded * c.advantages[t])
            quotient = (c.ref[t] - every[t, token]).exp()
            entropy = -(every[t].exp() * every[t]).sum()
            penalty = recipe.kl_in_loss * (quotient - 1 - quotient.log())
            rows.append(torch.stack([policy, penalty, -recipe.entropy_bonus * entropy]))
        return rows

    def token(self, losses: list[list[Tensor]], tokens: float) -> Tensor:
        """Sum over all tokens, over their mean number, ``[3]``."""
        return torch.stack([row for rows in losses for row in rows]).sum(0) / tokens

    def sequence(self, losses: list[list[Tensor]], completions: int) -> Tensor:
        """Mean over completions, those left out included, of the mean over tokens, ``[3]``."""
        return torch.stack([torch.stack(rows).mean(0) for rows in losses]).sum(0) / completions


def to_go(c: Completion, gamma: float) -> list[float]:
    """Return for each trained token what follows: minus the penalties, and the outcome at the last one, discounted."""
    rewards = [-penalty for penalty, trained in zip(c.penalties, c.trained, strict=True) if trained]
    rewards[-1] += c.outcome
    return [sum(gamma ** (k - t) * rewards[k] for k in range(t, len(rewards))) for t in range(len(rewards))]


def first_above(weights: Sequence[float], number: float) -> int:
    """Return the first index at which the cumulative sum exceeds ``number`` times the total."""
    total, bound = 0.0, number * sum(weights)
    for index, weight in enumerate(weights):
        total += weight
        if total > bound:
            return index
    return len(weights) - 1
