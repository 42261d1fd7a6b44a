"""The four-pillars document: normalization, clip-higher, aggregation, overlong filtering."""

from __future__ import annotations

import torch
from table import NO_BOUND, Table, advantages, numbers, ragged

from rlexp.axes import agg, clip, filter

REWARDS = [[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
KNOBS = {"eps": 1e-8, "ddof": 1}


def normalization() -> Table:
    """Largest advantage, and those of the prompt that is always solved, by three norms (S0.6)."""
    rows = []
    for norm in ("local", "global", "hybrid"):
        found = advantages(REWARDS, norm, **KNOBS)
        rows.append((norm, found.abs().max().item(), *found[:, 0].tolist()))
    return Table(
        "Four prompts with four completions: rewards 1111, 1010, 0010, 0000",
        ("norm", "largest |A|", "first of 1111", "of 1010", "of 0010", "of 0000"),
        rows,
        "The document says that a local deviation of 0 explodes. It does not: equal rewards have advantage 0. What is "
        "large is the one right answer of four, 1.5, whatever the gap between the rewards is.",
    )


def clip_higher() -> Table:
    """A token that rose from 2 % to 10 % (S0.9): what counts of its ratio, and the slope that is left."""
    rows = []
    for name, high in (("symmetric", 0.2), ("higher", 0.28)):
        log_prob = numbers([[[-2.3]]]).requires_grad_()
        old, one, mask = numbers([[[-3.9]]]), numbers([[[1.0]]]), torch.ones(1, 1, 1, dtype=torch.bool)
        loss = clip.FUNCTIONS["ppo"](log_prob, old, one, mask, NO_BOUND, low=0.2, high=high)
        (slope,) = torch.autograd.grad(loss.sum(), log_prob)
        rows.append((f"clip={name}", (log_prob - old).exp().item(), -loss.item(), slope.item()))
    return Table(
        "A token whose log-probability rose from -3.9 to -2.3, advantage 1",
        ("", "ratio", "counts as", "slope of the loss"),
        rows,
        'The document calls 1.28 instead of 1.20 "7% more update". Both slopes are 0: beyond its bound neither '
        "updates, and the room up to the bound is 40 % larger, 0.28 instead of 0.20.",
    )


def aggregation() -> Table:
    """Two completions of 100 and 1000 tokens (S0.12): their loss, and the share of each in the gradient."""
    mask, rows = ragged([100, 1000]), []
    for name in ("sequence", "bnpo"):
        losses = numbers([0.1]).expand(mask.shape).clone().requires_grad_()
        loss = agg.FUNCTIONS[name](losses, mask)
        (slopes,) = torch.autograd.grad(loss, losses)
        rows.append((f"agg={name}", loss.item(), *slopes.sum(-1).view(-1).tolist()))
    return Table(
        "Two completions of 100 and 1,000 tokens, loss 0.1 at each token",
        ("", "loss", "weight of the short one", "of the long one"),
        rows,
        "The losses are equal and say nothing; the weights are what aggregation chooses.",
    )


def overlong() -> Table:
    """Which of five completions overlong filtering keeps (S0.15)."""
    lengths, ended = [500, 3000, 8192, 8192, 400], [True, True, False, True, True]
    keep = filter.FUNCTIONS["overlong"](torch.tensor([ended]))[0].tolist()
    return Table(
        "Overlong filtering, at most 8,192 tokens",
        ("tokens", "ended by itself", "kept"),
        [(f"{length:,}", *rest) for length, *rest in zip(lengths, ended, keep, strict=True)],
        "The document's trainer sets the reward of the third to 0 instead, which makes it a failure (advantage -1.5 "
        "beside three right ones) and not a completion that is left out.",
    )


EXAMPLES = (normalization, clip_higher, aggregation, overlong)
