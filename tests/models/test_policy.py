"""The contract of policies: every model meets it, and its log-probabilities are what their definitions say."""

from __future__ import annotations

import pytest
import torch
from axis_choices import CLOSE
from policies import OF_ANY_TASK, example, policy_of, preference_task, prompts_of, sort_task
from torch.testing import assert_close

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rollout import sample
from rlexp.models.policy import Policy, RolloutPolicy, entropy

TASKS = {"padded": sort_task(), "fixed": preference_task()}
TEMPERATURE = torch.tensor([0.7, 1.3], dtype=torch.float64)
every_model = pytest.mark.parametrize("name", OF_ANY_TASK)
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


@every_model
def test_every_model_is_a_policy(name):
    policy = policy_of(name, [0, 1], TASKS["padded"])
    assert isinstance(policy, Policy)
    recorded = policy.recorded(prompts_of(TASKS["padded"], [0, 1], 3), 2)
    assert isinstance(recorded, RolloutPolicy) and recorded.network is policy


@every_model
@every_task
def test_log_probs_are_those_of_the_tempered_softmax(name, task):
    policy, prompts, completions = example(name, task)
    powers = (policy.logits(prompts, completions) / TEMPERATURE.view(2, 1, 1, 1, 1)).exp()
    probabilities = powers / powers.sum(-1, keepdim=True)
    expected = probabilities.log().gather(-1, completions.unsqueeze(-1)).squeeze(-1)
    actual = policy.log_probs(prompts, completions, TEMPERATURE, entropies=True)
    assert_close(actual.log_probs, expected, **CLOSE)
    assert_close(actual.entropies, -(probabilities * probabilities.log()).sum(-1), **CLOSE)
    assert_close(policy.distributions(prompts, completions, TEMPERATURE), probabilities.log(), **CLOSE)


@every_model
def test_entropies_are_computed_for_those_who_ask(name):
    policy, prompts, completions = example(name, TASKS["padded"])
    alone = policy.log_probs(prompts, completions, TEMPERATURE)
    both = policy.log_probs(prompts, completions, TEMPERATURE, entropies=True)
    assert alone.entropies is None and both.entropies is not None
    assert torch.equal(alone.log_probs, both.log_probs)


@every_model
def test_the_forward_cache_changes_no_bit_of_what_sampled(name):
    """Decoding and the whole pass round differently: with the cache the ratio to the policy that sampled is 1."""
    task, seeds, temperature = TASKS["fixed"], (3, 4), torch.tensor([0.7, 1.3])
    policy, prompts = policy_of(name, seeds, task), prompts_of(task, seeds, 4)
    recorded = policy.recorded(prompts, 3)
    noise = uniforms(seeds, Purpose.SAMPLING, 3, (4, 3, task.cap))
    rollout = sample(recorded, task, prompts, noise, temperature)
    given = rollout.prompts, rollout.completions, temperature
    log_probs = recorded.log_probs(*given).log_probs
    whole = policy.log_probs(*given).log_probs
    assert_close(log_probs, rollout.old_log_probs, rtol=0, atol=1e-6 if recorded is policy else 0)
    assert_close(whole, rollout.old_log_probs, rtol=1e-5, atol=1e-6)


def test_entropy_of_the_uniform_and_of_a_sure_distribution():
    log_probs = torch.tensor([[0.25] * 4, [1 - 3e-30, *[1e-30] * 3]], dtype=torch.float64).log()
    assert_close(entropy(log_probs), torch.tensor([4.0, 1.0], dtype=torch.float64).log(), **CLOSE)
