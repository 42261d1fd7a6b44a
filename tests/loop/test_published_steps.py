"""Where the source documents are wrong about sampling, reading and stepping; formulas are in tests/axes/published."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from axis_choices import bind
from plain_step import Recipe
from policies import OF_ANY_TASK, example, policy_of, preference_task, prompts_of, sort_task
from published import advantages, close, tensor
from scipy import stats
from step_fixtures import ROUNDING, float64, runs, seen  # noqa: F401

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rollout import sample
from rlexp.loop.step import train_step
from rlexp.models import scalar

NO_BOUND = torch.tensor(torch.inf)


@pytest.mark.holds("E8")
@pytest.mark.parametrize("name", OF_ANY_TASK)
def test_error_8_a_policy_read_twice_is_itself_and_dropout_is_not(name):
    """S1 reads both its networks in training mode with dropout 0.1: equal weights, and ratios outside of the clip."""
    policy, prompts, completions = example(name, sort_task())
    assert policy.training and torch.equal(policy(prompts, completions), policy(prompts, completions))
    torch.manual_seed(0)
    theirs = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    hidden = torch.randn(8, 20, 64)
    once, twice = (F.log_softmax(theirs(hidden), -1) for _ in range(2))
    assert ((twice - once).exp() > 1.2).any()


@pytest.mark.holds("E9")
def test_error_9_a_group_is_completions_of_one_prompt(seen):  # noqa: F811
    """S1 compares eight prompts with one completion each: those of an easy prompt are then better than a hard one's."""
    state = runs(Recipe())
    train_step(state, 1, False)
    part, _ = seen[0]
    assert (
        part.prompts.dim() == part.completions.dim() - 1
        and (part.completions[:, :, 0] != part.completions[:, :, 1]).any()
    )
    easy_and_hard = [[1, 1, 1, 0], [0, 0, 0, 1]]
    right = advantages(easy_and_hard, "local", eps=1e-8, ddof=1)
    as_one_group = advantages([sum(easy_and_hard, [])], "local", eps=1e-8, ddof=1).view(2, 4)
    close(right.sum(-1), [0.0, 0.0], 12)
    close(as_one_group.sum(-1), [1.8708, -1.8708], 4)


@pytest.mark.holds("E10")
def test_error_10_completions_are_the_policys_own():
    """S1 draws them at random. Here the first token has the frequencies that the policy gives it."""
    task, count = preference_task(), 20_000
    policy = policy_of("gru", (3,), task)
    with torch.no_grad():
        policy.head_parameters()[0].mul_(20)
    prompts = prompts_of(task, (3,), 1)
    rollout = sample(policy, task, prompts, uniforms((3,), Purpose.SAMPLING, 1, (1, count, task.cap)), torch.ones(1))
    probabilities = policy(prompts, rollout.completions)[0, 0, 0, 0].double().softmax(-1).detach()
    found = rollout.completions[0, 0, :, 0].bincount(minlength=task.vocabulary).double()
    assert stats.chisquare(found, count * probabilities).pvalue > 0.01
    assert stats.chisquare(found).pvalue < 1e-9


@pytest.mark.holds("E10")
def test_error_10_over_tokens_of_another_policy_the_mean_log_ratio_is_no_kl():
    """π = (.8, .2), π_ref = (.5, .5): KL .193; over uniform tokens the mean of k1 is −.223, which no KL can be."""
    policy, reference = tensor([0.8, 0.2]).log(), tensor([0.5, 0.5]).log()
    k1 = bind("kl", "k1")(policy.view(1, 1, 2), reference.view(1, 1, 2)).view(2)
    close((policy.exp() * k1).sum(), 0.193, 3)
    close(k1.mean(), -0.223, 3)


@pytest.mark.holds("E18")
def test_error_18_log_ratios_of_a_policy_to_its_own_detached_copy_are_0():
    """S3 has old = logps.detach() and prints log-ratios up to 0.1: those are of a later policy."""
    policy, prompts, completions = example("gru", sort_task())
    log_probs = F.log_softmax(policy(prompts, completions), -1)
    assert (log_probs - log_probs.detach()).eq(0).all()
    with torch.no_grad():
        policy.head_parameters()[0].add_(0.05 * torch.randn_like(policy.head_parameters()[0]))
    assert (F.log_softmax(policy(prompts, completions), -1) - log_probs.detach()).ne(0).any()


@pytest.mark.holds("E39")
def test_error_39_the_ratio_is_of_the_token_that_was_taken():
    """S4 takes the mean of π / π_old over the vocabulary: 0.8 here, where the ratios of the tokens are 1.6 and 0.4."""
    old, new = tensor([[0.5, 0.25, 0.25]]).log(), tensor([[0.8, 0.1, 0.1]]).log()
    close((new - old).exp().mean(), (1.6 + 0.4 + 0.4) / 3, 12)
    for token, ratio in ((0, 1.6), (1, 0.4)):
        mask = torch.ones(1, 1, 1, dtype=torch.bool)
        taken = new[:, token].view(1, 1, 1), old[:, token].view(1, 1, 1), tensor([[[1.0]]]), mask, NO_BOUND
        close(-bind("clip", "unclipped")(*taken), [[[ratio]]], 12)


@pytest.mark.holds("E39")
def test_error_39_rewards_keep_no_graph_and_a_second_pass_works(seen):  # noqa: F811
    """S4's rewards hold the graph of the policy, whose second backward fails, and have no baseline."""
    weight = torch.ones(1, requires_grad=True)
    reward = (2 * weight).log()
    (reward * weight).backward()
    with pytest.raises(RuntimeError, match="second time"):
        (reward * weight).backward()
    train_step(runs(Recipe(inner_steps=2)), 1, False)
    assert len(seen) == 2 and not any(part.advantages.requires_grad for part, _ in seen)
    advantage = seen[0][0].advantages[..., 0]
    assert advantage.sum(-1).abs().max() < 1e-5 and advantage.abs().max() > 0.5


@pytest.mark.holds("E49")
def test_error_49_the_first_update_on_new_completions_is_of_the_policy_that_sampled(float64, seen):  # noqa: F811
    """S3's timeline has π_θ1 / π_θ0 in the update that makes θ1: there every ratio is 1."""
    state = runs(Recipe(inner_steps=2))
    sampled_by = copy.deepcopy(state.policy)
    train_step(state, 1, False)
    (first, at_first), (second, at_second) = seen
    of_sampler = sampled_by.log_probs(first.prompts, first.completions, state.temperature).log_probs.detach()
    torch.testing.assert_close(at_first, of_sampler, rtol=0, atol=ROUNDING)
    for part, now, moved in ((first, at_first, False), (second, at_second, True)):
        drift = (now - part.old_log_probs).where(part.mask, 0.0).abs().max()
        assert (drift > 1e-4) == moved


@pytest.mark.holds("E54")
def test_error_54_a_reference_gets_no_gradient_and_reads_the_same_twice():
    """S1 calls its reference frozen: nothing freezes it, and its dropout is on."""
    state = runs(Recipe(kl_in_loss=0.3))
    train_step(state, 1, False)
    assert all(parameter.grad is None for parameter in state.reference.parameters())
    given = prompts_of(state.task, (0, 1), 2), torch.zeros(2, 2, 3, state.task.cap, dtype=torch.long)
    reads = [state.reference.log_probs(*given, state.temperature).log_probs for _ in range(2)]
    assert torch.equal(*reads)


@pytest.mark.holds("E55")
def test_error_55_the_last_token_is_where_the_mask_ends_and_not_at_its_sum():
    """S4 reads a reward at attention_mask.sum(1) − 1, which is the last token only where padding is on the right."""
    right_padded, left_padded = torch.tensor([[1, 1, 1, 0, 0]]), torch.tensor([[0, 0, 1, 1, 1]])
    place = lambda mask: (mask * torch.arange(1, 6)).argmax(1)  # noqa: E731
    assert (right_padded.sum(1) - 1).equal(place(right_padded)) and not (left_padded.sum(1) - 1).equal(
        place(left_padded)
    )
    tokens, pad = torch.tensor([[7, 3, 2, 2]]), 2  # the end token is also the padding
    assert (tokens != pad).sum() == 2, "the end token is not counted"
    numbers = torch.arange(6.0).expand(1, 1, 1, 6)
    mask = torch.tensor([[[[True, True, True, False, False]]]])
    assert scalar.at_end(numbers, mask).item() == 3, "after the end token, wherever the prompt is padded"
