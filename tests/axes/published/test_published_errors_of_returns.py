"""Where the source documents are wrong about returns and baselines; see ``test_published_errors.py``."""

from __future__ import annotations

import pytest
import torch
from axis_choices import bind
from published import advantages, close, tensor

DISCOUNTED = [1.158, 0.391, -0.383, -1.166]  # returns to go of a reward of −1 at the end, γ = 0.99, normalised


def returns(outcome: float, tokens: int) -> torch.Tensor:
    """Reward to go of a completion whose last token earns ``outcome``."""
    mask = torch.ones(1, 1, tokens, dtype=torch.bool)
    penalties = torch.zeros(1, 1, tokens, dtype=torch.float64)
    return bind("norm", "reinforce", gamma=0.99)(tensor([[outcome]]), penalties, mask)[0, 0]


@pytest.mark.holds("E29")
def test_1b_29_the_advantage_is_the_reward_minus_the_baseline_and_its_expectation_is_zero():
    """State 1 of the lecture: rewards 11 and 9 with equal probability, V = 10."""
    found = advantages([[11, 9]], "center")
    close(found, [[1, -1]], 12)
    close(found.mean(), 0.0, 12)


@pytest.mark.holds("E38")
def test_1b_38_normalised_within_a_trajectory_the_outcome_is_lost():
    normalised = {outcome: (r := returns(outcome, 4)).sub(r.mean()) / r.std() for outcome in (-1.0, 1.0, 10.0)}
    close(normalised[-1.0], DISCOUNTED, 3)
    torch.testing.assert_close(normalised[1.0], -normalised[-1.0])
    torch.testing.assert_close(normalised[10.0], normalised[1.0])
    assert (returns(1.0, 1) - returns(1.0, 1).mean()).div(returns(1.0, 1).std()).isnan().all()


@pytest.mark.holds("S4.2")
def test_1b_38_here_a_return_keeps_its_size_and_one_token_is_enough():
    torch.testing.assert_close(returns(10.0, 4), 10 * returns(1.0, 4))
    close(returns(1.0, 1), [1.0], 12)


@pytest.mark.holds("E41")
@pytest.mark.parametrize("norm", ["global", "center_batch"])
def test_1b_41_what_is_normalised_over_the_batch_forgets_a_constant_baseline(norm):
    hyperparameters = dict(eps=1e-8, ddof=1) if norm == "global" else {}
    with_baseline = advantages([[1 - 0.4, 0 - 0.4], [1 - 0.4, 1 - 0.4]], norm, **hyperparameters)
    torch.testing.assert_close(with_baseline, advantages([[1, 0], [1, 1]], norm, **hyperparameters))


@pytest.mark.holds("E48")
def test_error_48_the_optimal_baseline_weighs_by_the_gradient_of_log_pi():
    """S2: π = (0.9, 0.1), rewards (1, 0), a group of ten as π has them; gradients in the difference of the logits."""
    pi, rewards = tensor([0.9] * 9 + [0.1]), tensor([1] * 9 + [0])
    of_log_pi = tensor([1 - 0.9] * 9 + [0 - 0.9])
    of_pi, everything = pi * of_log_pi, torch.ones(1, 10, dtype=torch.bool)
    given = rewards.view(1, 10), everything, everything.unsqueeze(-1), pi.log().view(1, 10, 1)
    gains = {
        "none": rewards,
        "lecture": rewards - (of_pi.square() * rewards).sum() / of_pi.square().sum(),
        "right": bind("norm", "optimal")(*given, torch.full((1, 10, 1), 0.82, dtype=torch.float64))[0],
    }
    close(gains["lecture"][-1], -0.9, 12)
    close(gains["right"][-1], -0.1, 12)
    variances = [(gain * of_log_pi).var(correction=0) for gain in gains.values()]
    close(torch.stack(variances), [0.0009, 0.0576, 0.0], 12)
