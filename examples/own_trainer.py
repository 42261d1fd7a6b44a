"""GRPO in plain torch, with the formulas of rlexp: `python examples/own_trainer.py`, some seconds on a laptop.

A prompt is a digit and a number; the answer is the digit, as often as the number says, and then the end:
`3 2` is answered by `3 3 end`. A small network learns it from rewards alone. What is GRPO about this is in four
lines, `F.norm`, `F.clip`, `F.kl` and `F.agg`; with other names it is another method: `F.norm.rloo`,
`F.clip.gspo`, `F.agg.dr_grpo`, ... (`dir(F.clip)` lists them, `help(F.clip.gspo)` says what they are).

P prompts, G completions of each, at most T tokens: prompts are [P, 2], tokens [P, G, T], rewards [P, G].
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

import rlexp.functional as F

DIGITS, LONGEST = 6, 4
END, BEGIN = DIGITS, DIGITS + 1  # tokens beside the digits
P, G, T = 16, 8, LONGEST + 1
STEPS, INNER_STEPS, KL_COEF = 80, 4, 0.01


class Policy(nn.Module):
    """The next token by what was asked, the last token and its place."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(n, width) for n in (DIGITS, LONGEST + 1, BEGIN + 1, T))
        self.head = nn.Sequential(nn.Linear(4 * width, 64), nn.ReLU(), nn.Linear(64, DIGITS + 1))

    def forward(self, prompts: Tensor, tokens: Tensor) -> Tensor:
        """Return log-probabilities of the next token at every place, [P, G, T, V]."""
        last = nn.functional.pad(tokens[..., :-1], (1, 0), value=BEGIN)
        digit, number = (prompts[:, None, None, i].expand_as(last) for i in (0, 1))
        seen = digit, number, last, torch.arange(T).expand_as(last)
        vectors = [embedding(x) for embedding, x in zip(self.embeddings, seen, strict=True)]
        return self.head(torch.cat(vectors, -1)).log_softmax(-1)

    def log_probs(self, prompts: Tensor, tokens: Tensor) -> Tensor:
        """Return the log-probability of each token, [P, G, T]."""
        return self(prompts, tokens).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


@torch.no_grad()
def sample(policy: Policy, prompts: Tensor) -> tuple[Tensor, Tensor]:
    """Draw G completions of each prompt; return their tokens and which of them count, [P, G, T]."""
    tokens = torch.full((len(prompts), G, T), END)
    for t in range(T):
        tokens[..., t] = torch.distributions.Categorical(logits=policy(prompts, tokens)[..., t, :]).sample()
    ended_before = (tokens == END).cumsum(-1) - (tokens == END).long() > 0
    return tokens.where(~ended_before, END), ~ended_before


def reward(prompts: Tensor, tokens: Tensor) -> Tensor:
    """Return the share of places that are right, [P, G]; after the end everything is the end."""
    right = prompts[:, :1].where(torch.arange(T) < prompts[:, 1:], END)
    return (tokens == right.unsqueeze(1)).float().mean(-1)


def grpo_loss(
    log_probs: Tensor, old_log_probs: Tensor, ref_log_probs: Tensor, advantages: Tensor, mask: Tensor
) -> Tensor:
    """Return the clipped loss of the tokens that count, and a little of their distance from the reference."""
    losses = F.clip.higher(log_probs, old_log_probs, advantages, mask)
    penalties = F.kl.k3(log_probs, ref_log_probs)
    return F.agg.token(losses, mask) + KL_COEF * F.agg.token(penalties, mask)


def train(steps: int = STEPS, seed: int = 0) -> list[float]:
    """Return the mean reward of each step."""
    torch.manual_seed(seed)
    policy = Policy()
    reference, optimizer, means = deepcopy(policy), torch.optim.Adam(policy.parameters(), lr=3e-3), []
    for _ in range(steps):
        prompts = torch.stack([torch.randint(DIGITS, (P,)), torch.randint(1, LONGEST + 1, (P,))], -1)
        tokens, mask = sample(policy, prompts)
        rewards = reward(prompts, tokens)
        advantages = F.norm.local(rewards)
        with torch.no_grad():
            old_log_probs, ref_log_probs = (each.log_probs(prompts, tokens) for each in (policy, reference))
        for _ in range(INNER_STEPS):  # from the second on, ratios are no longer 1
            loss = grpo_loss(policy.log_probs(prompts, tokens), old_log_probs, ref_log_probs, advantages, mask)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        means.append(rewards.mean().item())
    return means


if __name__ == "__main__":
    for step, mean in enumerate(train(), 1):
        if step % 10 == 0 or step == 1:
            print(f"step {step:3}: mean reward {mean:.3f}")
