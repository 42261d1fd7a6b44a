"""Sampling: draws against the inverse of the distribution, records against a reading of the whole completion."""

from __future__ import annotations

import math

import pytest
import reference_tasks
import torch
import torch.nn.functional as F
from policies import OF_ANY_TASK, Fixed, policy_of, preference_task, prompts_of, sort_task
from scipy import stats
from torch.testing import assert_close

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rollout import Rollout, inverse_cdf, most_likely, sample

SORT, PREFERENCE = sort_task(), preference_task()
SEEDS = (3, 8, 5)
# Rounding of float32 log-probabilities of order ten, of two ways to add up the same products.
ROUNDED = dict(rtol=1e-5, atol=1e-5)
every_model = pytest.mark.parametrize("name", OF_ANY_TASK)


def noise(task, prompts: int, group: int, seeds=SEEDS) -> torch.Tensor:
    return uniforms(seeds, Purpose.SAMPLING, 1, (prompts, group, task.cap))


def rolled(policy, task, prompts: int = 6, group: int = 4, seeds=SEEDS, temperature=(1.0, 1.0, 1.0), **options):
    questions, numbers = prompts_of(task, seeds, prompts), noise(task, prompts, group, seeds)
    return sample(policy, task, questions, numbers, torch.tensor(temperature), **options)


def fixed(task, replicas: int = 3, scale: float = 2.0) -> Fixed:
    random = torch.Generator().manual_seed(4)
    return Fixed(scale * torch.randn(replicas, task.cap, task.vocabulary, generator=random))


# ---- one draw


def test_frequencies_are_the_probabilities():
    log_probs = F.log_softmax(torch.tensor([1.0, -2.0, 0.5, -math.inf, 2.0, -0.3]), -1)
    count = 40000
    tokens = inverse_cdf(log_probs.expand(count, -1), uniforms([1], Purpose.SAMPLING, 0, (count,))[0])
    found, wanted = tokens.bincount(minlength=6).double(), count * log_probs.exp().double()
    assert found[3] == 0
    possible = wanted > 0
    assert stats.chisquare(found[possible], wanted[possible] * count / wanted.sum()).pvalue > 0.01


@pytest.mark.parametrize("number", [0.0, 2**-24, 0.5, 1 - 2**-24])
@pytest.mark.parametrize("impossible", [[0], [4], [0, 1, 3, 4], [1, 2, 3]])
def test_impossible_tokens_are_never_drawn(number, impossible):
    random = torch.Generator().manual_seed(7)
    logits = 5 * torch.randn(200, 5, generator=random)
    logits[:, impossible] = -math.inf
    tokens = inverse_cdf(F.log_softmax(logits, -1), torch.full((200,), number))
    assert not torch.isin(tokens, torch.tensor(impossible)).any()
    possible = [token for token in range(5) if token not in impossible]
    if number == 0:
        assert (tokens == possible[0]).all()


@pytest.mark.parametrize(("number", "token"), [(0.0, 0), (0.2499, 0), (0.25, 1), (0.4999, 1), (0.5, 2), (0.9999, 3)])
def test_a_token_owns_the_interval_up_to_its_cumulative_probability(number, token):
    assert inverse_cdf(torch.zeros(4), torch.tensor(number)) == token  # probabilities are scaled to their sum


def test_the_last_token_is_drawn_at_the_end_of_the_range():
    log_probs = F.log_softmax(torch.zeros(50, 97), -1)
    assert (inverse_cdf(log_probs, torch.full((50,), 1 - 2**-24)) == 96).all()


def test_best_is_the_most_likely():
    log_probs = torch.tensor([[-3.0, -0.1, -2.0], [-0.2, -3.0, -2.0]])
    assert most_likely(log_probs, torch.rand(2)).tolist() == [1, 0]


# ---- completions


def test_tokens_invert_the_distribution_of_their_step():
    """Token t of completion g is where number t of g falls in the float64 distribution at its run's temperature."""
    temperature = torch.tensor([0.5, 1.0, 3.0])
    policy = fixed(PREFERENCE)
    rollout = rolled(policy, PREFERENCE, temperature=temperature.tolist())
    steps = (policy.fixed.double() / temperature.view(-1, 1, 1)).softmax(-1).cumsum(-1)
    cumulative = steps[:, None, None].expand(-1, 6, 4, -1, -1).contiguous()
    numbers = noise(PREFERENCE, 6, 4).double().unsqueeze(-1)
    assert torch.equal(rollout.completions, torch.searchsorted(cumulative, numbers, right=True).squeeze(-1))


@pytest.mark.holds("S0.2")
@every_model
@pytest.mark.parametrize("task", [SORT, PREFERENCE], ids=["sort", "preference"])
@pytest.mark.parametrize("temperature", [(1.0, 1.0, 1.0), (0.3, 1.0, 2.5)], ids=["one", "own"])
def test_old_log_probs_are_those_of_reading_the_completion(name, task, temperature):
    policy = policy_of(name, SEEDS, task)
    rollout = rolled(policy, task, temperature=temperature)
    logits = policy(rollout.prompts, rollout.completions)
    scaled = torch.stack([row / t for row, t in zip(logits, temperature, strict=True)])
    expected = F.log_softmax(scaled, -1).gather(-1, rollout.completions.unsqueeze(-1)).squeeze(-1)
    assert_close(rollout.old_log_probs, expected.where(rollout.mask, 0.0), **ROUNDED)
    trained = policy.log_probs(rollout.prompts, rollout.completions, torch.tensor(temperature)).log_probs
    assert_close(trained.where(rollout.mask, 0.0), rollout.old_log_probs, **ROUNDED)
    assert not rollout.old_log_probs.requires_grad


@pytest.mark.parametrize("pick", [inverse_cdf, most_likely])
def test_mask_pads_and_finished(pick):
    rollout = rolled(fixed(SORT), SORT, prompts=20, pick=pick)
    ends = 0
    for completion, mask, finished, log_probs in zip(
        *(x.flatten(0, 2).tolist() for x in (rollout.completions, rollout.mask, rollout.finished)),
        rollout.old_log_probs.flatten(0, 2).tolist(),
        strict=True,
    ):
        assert mask == reference_tasks.mask(completion, SORT.end)
        assert finished == (SORT.end in completion)
        assert all(t == SORT.pad and p == 0 for t, p, m in zip(completion, log_probs, mask, strict=True) if not m)
        assert all(p < 0 for p, m in zip(log_probs, mask, strict=True) if m)
        ends += finished
    assert 0 < ends < rollout.finished.numel()


def test_an_end_in_the_last_place_finishes():
    logits = torch.full((1, SORT.cap, SORT.vocabulary), -9.0)
    logits[:, :-1, 2] = logits[:, -1, SORT.end] = 9.0
    rollout = rolled(Fixed(logits), SORT, seeds=[1], temperature=[1.0])
    assert rollout.finished.all() and rollout.mask.all()
    assert rollout.completions[0, 0, 0].tolist() == [2] * (SORT.cap - 1) + [SORT.end]


def test_without_an_end_token_all_tokens_count_and_all_are_finished():
    rollout = rolled(fixed(PREFERENCE), PREFERENCE)
    assert rollout.mask.all() and rollout.finished.all()


@every_model
def test_greedy_takes_the_most_likely_token_of_its_own_completion(name):
    policy = policy_of(name, SEEDS, SORT)
    rollout = rolled(policy, SORT, pick=most_likely)
    likely = policy(rollout.prompts, rollout.completions).argmax(-1)
    assert torch.equal(likely[rollout.mask], rollout.completions[rollout.mask])


def test_later_numbers_do_not_change_earlier_tokens():
    policy = policy_of("transformer", SEEDS, SORT)
    questions, numbers = prompts_of(SORT, SEEDS, 6), noise(SORT, 6, 4)
    changed = numbers.clone()
    changed[..., 3:] = 1 - numbers[..., 3:]
    one, other = (sample(policy, SORT, questions, x, torch.ones(3)).completions for x in (numbers, changed))
    assert torch.equal(one[..., :3], other[..., :3])
    assert not torch.equal(one, other)


# ---- neighbours


def ending(seeds, weights) -> torch.nn.Module:
    """Return a policy whose end token has a bias of each replica's own."""
    policy = policy_of("gru", seeds, SORT)
    with torch.no_grad():
        policy.head.bias[:, 0, SORT.end] = torch.tensor(weights)
    return policy


def test_stopping_when_all_have_ended_changes_no_bit():
    """The first run ends at once, the second later, the third never: alone, sampling stops at three times."""
    weights = [30.0, 2.0, -30.0]
    together = rolled(ending(SEEDS, weights), SORT)
    assert together.mask.sum(-1).flatten(1).amax(-1).tolist()[::2] == [1, SORT.cap]
    for r in range(3):
        alone = rolled(ending(SEEDS[r : r + 1], weights[r : r + 1]), SORT, seeds=SEEDS[r : r + 1], temperature=[1.0])
        for name, own, shared in zip(Rollout._fields, alone, together, strict=True):
            assert torch.equal(own[0], shared[r]), name


@pytest.mark.parametrize(("place", "decoded"), [(0, 0), (2, 2), (SORT.cap - 1, SORT.cap - 1)])
def test_sampling_stops_when_all_have_ended(place, decoded):
    logits = torch.full((2, SORT.cap, SORT.vocabulary), -40.0)
    logits[..., 1] = 0.0
    logits[:, place, SORT.end] = 40.0
    policy = Fixed(logits)
    rolled(policy, SORT, seeds=SEEDS[:2], temperature=[1.0, 1.0])
    assert policy.decoded == decoded


def test_each_run_has_its_own_temperature():
    policy = fixed(PREFERENCE, scale=5.0)
    mixed = rolled(policy, PREFERENCE, temperature=(0.2, 1.0, 4.0))
    for r, temperature in enumerate((0.2, 1.0, 4.0)):
        same = rolled(policy, PREFERENCE, temperature=[temperature] * 3)
        assert torch.equal(same.completions[r], mixed.completions[r])
        assert torch.equal(same.old_log_probs[r], mixed.old_log_probs[r])
