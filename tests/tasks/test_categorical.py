"""What updates do on average, as sums over the answers of a categorical world, through the table and the real axes."""

from __future__ import annotations

import itertools

import pytest
import torch
from axis_choices import CLOSE
from policies import policy_of
from task_choices import categorical
from torch.testing import assert_close

from rlexp.axes import norm
from rlexp.models.policy import entropy

REWARDS = [0.0, 0.3, 1.0, -0.5]
TEMPERATURE = torch.ones(1, dtype=torch.float64)


def policy_and_all(std: float = 1.0):
    """A float64 policy, the question and all answers as one group ``[1, 1, K, 1]``."""
    world = categorical(rewards=REWARDS)
    policy = policy_of("tabular", [3], world, std=std).double()
    prompts = torch.full((1, 1, 1), world.first_question)
    return policy, prompts, world.every_completion(torch.device("cpu")).view(1, 1, -1, 1)


def log_probs_of(policy, prompts, answers):
    return policy.log_probs(prompts, answers, TEMPERATURE).log_probs.flatten()


def gradient(policy, value):
    return torch.autograd.grad(value, policy.table.weight)[0].flatten()[: len(REWARDS)]


def test_the_policy_gradient_is_that_of_the_expected_reward():
    """E[A ∇log π] = ∇E[r], which of a softmax is π (r − E[r])."""
    policy, *given = policy_and_all()
    log_probs, rewards = log_probs_of(policy, *given), torch.tensor(REWARDS, dtype=torch.float64)
    p = log_probs.exp()
    found = gradient(policy, (p.detach() * rewards * log_probs).sum())
    expected = p * (rewards - p @ rewards)
    assert_close(found, expected.detach(), **CLOSE)
    assert_close(gradient(policy, log_probs_of(policy, *given).exp() @ rewards), expected.detach(), **CLOSE)


@pytest.mark.parametrize("group", [2, 3])
def test_centred_groups_have_the_gradient_shrunk_by_one_completion(group):
    """Over all groups of answers, each with its probability: E = (G − 1)/G · ∇E[r] for norm=center."""
    policy, *given = policy_and_all()
    log_probs, rewards = log_probs_of(policy, *given), torch.tensor(REWARDS, dtype=torch.float64)
    p, total = log_probs.detach().exp(), 0.0
    for answers in itertools.product(range(len(REWARDS)), repeat=group):
        chosen = torch.tensor(answers)
        everyone = torch.ones(1, group, dtype=torch.bool)
        advantages = norm.FUNCTIONS["center"](rewards[chosen].view(1, group), everyone).flatten()
        total = total + p[chosen].prod() * (advantages * log_probs[chosen]).mean()
    expected = (group - 1) / group * p * (rewards - p @ rewards)
    assert_close(gradient(policy, total), expected, **CLOSE)


def test_c15_entropy_changes_by_the_covariance_of_log_probability_and_update():
    """d entropy along any step d of the logits is −Cov_π(log π, d) (arXiv 2505.22617), here d = π · A."""
    policy, *given = policy_and_all()
    log_probs = log_probs_of(policy, *given)
    p, rewards = log_probs.detach().exp(), torch.tensor(REWARDS, dtype=torch.float64)
    step = p * (rewards - p @ rewards)
    distributions = policy.distributions(given[0], given[1][:, :, :1], TEMPERATURE)
    actual = gradient(policy, entropy(distributions).sum()) @ step
    logs = log_probs.detach()
    covariance = p @ (logs * step) - (p @ logs) * (p @ step)
    assert_close(actual, -covariance, **CLOSE)
