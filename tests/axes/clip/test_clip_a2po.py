"""A*-PO: what V* is on average, where the loss is at rest, and that both are TRL's."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from axis_choices import CLOSE, bind
from small_runs import values

from rlexp.config.checks import remarks
from rlexp.config.schema import read

BETA = 0.5
NORM, LOSS = bind("norm", "a2po", beta=BETA), bind("clip", "a2po", beta=BETA)
REWARDS = torch.tensor([1.0, 0.0, 0.0, 0.3, 0.7, 0.0, 0.0, 1.0, 0.2]).double()  # of the nine completions of two tokens


def world(seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits of the two tokens of the reference, and its log-probabilities of the nine completions by token."""
    logits = torch.randn(2, 3, generator=torch.Generator().manual_seed(seed)).double()
    return logits, by_token(logits)


def by_token(logits: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of the tokens of all completions, ``[1 9 2]``, where the tokens are independent."""
    first, second = logits.log_softmax(-1)
    return torch.stack([torch.stack([first[a], second[b]]) for a, b in product(range(3), range(3))]).unsqueeze(0)


def best_value(reference: torch.Tensor, beta: float) -> float:
    """beta · log E exp(r / beta) under the reference."""
    return (beta * (reference.sum(-1)[0] + REWARDS / beta).logsumexp(-1)).item()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_power_of_the_value_has_no_error_on_average(number):
    """Over all groups of so many completions by the reference, each by its probability."""
    _, reference = world()
    scores, total = reference.sum(-1)[0], 0.0
    for group in product(range(9), repeat=number):
        drawn = REWARDS[list(group)].view(1, number)
        value = -NORM(torch.zeros(1, number).double(), drawn)[0, 0]
        total += scores[list(group)].sum().exp() * (value / BETA).exp()
    assert total.item() == pytest.approx(math.exp(best_value(reference, BETA) / BETA), rel=1e-12)


def test_a_small_beta_has_the_largest_reward_and_a_large_one_the_mean():
    rewards = torch.tensor([[1.0, 0.0, 0.25, 0.5]]).double()
    for beta, value in ((1e-4, 1.0 - 1e-4 * math.log(4)), (1e6, rewards.mean().item())):
        found = bind("norm", "a2po", beta=beta)(torch.zeros(1, 4).double(), rewards)
        torch.testing.assert_close(found, torch.full((1, 4), -value).double(), rtol=0, atol=1e-6)


def test_the_loss_is_at_rest_at_the_best_policy_of_the_kl_to_the_reference():
    """π ∝ π_ref · exp(r / beta) over the completions: no loss, no gradient; at the reference there is both."""
    _, reference = world()
    advantages = (REWARDS - best_value(reference, BETA)).view(1, 9, 1).expand(1, 9, 2)
    scores = reference.sum(-1)[0]
    best = (scores + REWARDS / BETA).log_softmax(-1)
    mask = torch.ones(1, 9, 2, dtype=torch.bool)
    shares = (best - scores).view(1, 9, 1) / 2
    log_probs = (reference + shares).requires_grad_()
    losses = LOSS(log_probs, reference, advantages, mask)
    (slopes,) = torch.autograd.grad(losses.sum(), log_probs)
    torch.testing.assert_close(losses, torch.zeros_like(losses), **CLOSE)
    torch.testing.assert_close(slopes, torch.zeros_like(slopes), **CLOSE)
    assert LOSS(reference, reference, advantages, mask).min() > 1e-3


def test_regression_finds_the_best_policy_from_the_samples_of_any_other():
    """One token, nine completions, all weighed alike: descent ends at π ∝ π_ref · exp(r / beta)."""
    reference = torch.linspace(-1, 1, 9).double().log_softmax(-1)
    value = BETA * (reference + REWARDS / BETA).logsumexp(-1)
    advantages, mask = (REWARDS - value).view(1, 9, 1), torch.ones(1, 9, 1, dtype=torch.bool)
    logits = reference.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([logits], max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-14)

    def loss():
        optimizer.zero_grad()
        found = LOSS(logits.log_softmax(-1).view(1, 9, 1), reference.view(1, 9, 1), advantages, mask).mean()
        found.backward()
        return found

    optimizer.step(loss)
    torch.testing.assert_close(
        logits.detach().log_softmax(-1), (reference + REWARDS / BETA).log_softmax(-1), rtol=0, atol=1e-5
    )


def test_what_is_added_to_rewards_is_not_in_the_value():
    notes = [*remarks(read(values("preset=a2po", "shaping=noise", "kl=k1", "kl.place=reward")))]
    assert [note.partition(":")[0] for note in notes] == ["norm=a2po shaping=noise", "norm=a2po kl.place=reward"]
    assert not [*remarks(read(values("preset=a2po")))]


# ---- TRL


class FakeTrainer(SimpleNamespace):
    """As much of an A2POTrainer as its loss reads."""

    def _get_sequence_logps(self, model, input_ids, attention_mask, logits_to_keep):
        return self.scores


@pytest.mark.filterwarnings("ignore:.*trl.experimental")
def test_the_loss_is_that_of_trl():
    """With agg=sequence, on ragged completions, in value and gradient. Needs `pip install '.[trl]'`."""
    trainer_of_trl = pytest.importorskip("trl.experimental.a2po").A2POTrainer
    random = torch.Generator().manual_seed(4)
    shape = 3, 4, 5
    log_probs, reference = (-torch.randn(shape, generator=random).double().abs() for _ in range(2))
    mask = torch.arange(5) < torch.randint(1, 6, (3, 4, 1), generator=random)
    rewards, by_reference = (torch.rand(3, 4, generator=random).double() for _ in range(2))
    log_probs.requires_grad_()
    advantages = NORM(rewards, by_reference).unsqueeze(-1).expand(shape)
    ours = bind("agg", "sequence")(bind("clip", "a2po", beta=1e-3)(log_probs, reference, advantages, mask), mask)
    v_star = BETA * ((by_reference / BETA).exp().mean(-1, keepdim=True)).log().expand(3, 4)
    trainer = FakeTrainer(
        model=SimpleNamespace(training=True),
        args=SimpleNamespace(beta2=1e-3),
        scores=log_probs.where(mask, 0.0).sum(-1).flatten(),
        _metrics={"train": defaultdict(list)},
    )
    inputs = dict.fromkeys(("input_ids", "attention_mask", "logits_to_keep"))
    inputs |= {"ref_logps": reference.where(mask, 0.0).sum(-1).flatten()}
    inputs |= {"rewards": rewards.flatten(), "v_star": v_star.flatten()}
    theirs = trainer_of_trl.compute_loss(trainer, None, inputs)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    slopes = (torch.autograd.grad(each, log_probs)[0] for each in (ours, theirs))
    torch.testing.assert_close(*slopes, **CLOSE)
