"""The chapter on reinforcement learning for deep learning: returns, GAE, preferences, reward-weighted regression."""

from __future__ import annotations

from collections.abc import Callable

import torch
from table import Table, advantages, numbers

from rlexp.axes import clip, norm


def returns() -> Table:
    """Returns to go of three endings of four tokens, as they are and normalised within their trajectory (S4.2)."""
    rows = []
    for outcome in (1.0, 10.0, -1.0):
        mask = torch.ones(1, 1, 4, dtype=torch.bool)
        zeros = torch.zeros(1, 1, 4, dtype=torch.float64)
        found = norm.FUNCTIONS["reinforce"](numbers([[outcome]]), zeros, mask, gamma=0.99)[0, 0]
        normalised = (found - found.mean()) / found.std()
        rows.append((f"{outcome:g}", found[0].item(), found[-1].item(), normalised[0].item(), normalised[-1].item()))
    return Table(
        "Returns to go of a reward at the last of four tokens, gamma 0.99",
        ("reward", "first token", "last token", "first, normalised", "last, normalised"),
        rows,
        "The chapter normalises within each trajectory: a reward of 10 then weighs what a reward of 1 does, and the "
        "first token of a success is pushed down. norm=reinforce keeps the returns as they are.",
    )


def generalized_advantages() -> Table:
    """GAE of three tokens (S4.4), the last of which ends the completion."""
    rewards, values, mask = [0.0, 0.0, 1.0], [0.2, 0.4, 0.6], torch.ones(1, 1, 3, dtype=torch.bool)
    given = numbers([[rewards]]), numbers([[[*values, 0.0]]]), mask, mask[..., -1]
    found = norm.FUNCTIONS["gae"](*given, gamma=0.99, lam=0.95, bootstrap=0.0)[0, 0].tolist()
    return Table(
        "GAE with gamma 0.99 and lambda 0.95",
        ("token", "reward", "value", "advantage"),
        [(str(place + 1), *row) for place, row in enumerate(zip(rewards, values, found, strict=True))],
    )


def regression_weights() -> Table:
    """Weights of reward-weighted regression (S4.11), on standardised rewards with β = 1."""
    rows = []
    for rewards, share in (([1, 2, 3, 4], 0.5), ([1, 1, 1, 1], 0.5), ([1, 0, 0, 0], 1.0)):
        found = advantages([rewards], "rwr", beta=1.0, share=share, eps=1e-8, ddof=1)[0].tolist()
        rows.append((str(rewards), share, *found))
    return Table(
        "Weights of four completions, exp(z) over their sum in the best share",
        ("rewards", "share", "first", "second", "third", "fourth"),
        rows,
        "Ties share what they have: with four equal rewards the best half is all of them.",
    )


def pair_loss(choice: str, margin: float, **hyperparameters: float) -> tuple[float, float]:
    """Loss of a pair at a margin in nats, and its slope in the log-probability of the preferred completion."""
    log_probs = numbers([[[margin], [0.0]]]).requires_grad_()
    mask = torch.ones(1, 2, 1, dtype=torch.bool)
    offered = torch.zeros(1, 2, 1, dtype=torch.float64), numbers([[1.0, 0.0]]), mask[..., 0], mask
    loss = clip.FUNCTIONS[choice](log_probs, *offered, pairs="all", **hyperparameters)[0, 0, 0]
    (slope,) = torch.autograd.grad(loss, log_probs)
    return loss.item(), slope[0, 0, 0].item()


def preferences() -> Table:
    """Losses of DPO (S4.9) and IPO (S4.15) over the margin of a pair."""
    rows = []
    for margin in (0.0, 1.0, 5.0, 10.0):
        dpo, ipo = pair_loss("dpo", margin, beta=0.1, label_smoothing=0.0), pair_loss("ipo", margin, tau=0.1)
        rows.append((f"{margin:g}", *dpo, *ipo))
    return Table(
        "Losses of a pair by its margin in nats, DPO with beta 0.1 and IPO with tau 0.1",
        ("margin", "dpo", "its slope", "ipo", "its slope"),
        rows,
        "DPO begins at ln 2 and never stops pulling; IPO rests at 1 / (2 tau) = 5. The chapter's exercise has 10.",
    )


EXAMPLES: tuple[Callable[[], Table], ...] = (returns, generalized_advantages, regression_weights, preferences)
