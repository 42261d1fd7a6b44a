"""The table: against plain look-ups, what it may learn, token by token as all at once, each replica as if alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from policies import completions_of, policy_of, prompts_of, threads  # noqa: F401
from small_runs import compose
from task_choices import every_world
from torch.testing import assert_close

from rlexp.core.errors import ConfigError
from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rollout import sample
from rlexp.models.policy import Policy

SEEDS, PROMPTS, GROUP = (5, 2, 7), 6, 4


def example(world, seeds=SEEDS, **hyperparameters):
    inputs = prompts_of(world, seeds, PROMPTS), completions_of(world, seeds, PROMPTS, GROUP)
    return policy_of("tabular", seeds, world, **hyperparameters), *inputs


def plain_logits(policy, world, prompts, completions):
    """Look up each token's row alone."""
    rows = []
    for r, p, g in torch.ones(completions.shape[:3]).nonzero().tolist():
        table = policy.table.weight[r].view(world.questions, world.states, -1)
        state = torch.zeros(1, 1, 1, dtype=torch.long)
        for token in completions[r, p, g]:
            rows.append(table[prompts[r, p, 0] - world.first_question, state.item()])
            state = world.next_states(state, token.view(1, 1, 1))
            if len(rows) % world.cap == 0:
                break
    return torch.stack(rows).view(*completions.shape, -1)


@every_world
def test_logits_are_looked_up_in_value_and_gradient(world):
    policy, prompts, completions = example(world)
    actual, expected = policy(prompts, completions), plain_logits(policy, world, prompts, completions)
    assert torch.equal(actual, expected)
    slopes = torch.randn(actual.shape, generator=torch.Generator().manual_seed(2))
    (found,), (wanted,) = (
        torch.autograd.grad((each * slopes).sum(), policy.table.weight) for each in (actual, expected)
    )
    learned = world.learned().repeat(world.questions, 1)
    assert_close(found, wanted.where(learned, 0.0), rtol=1e-5, atol=1e-5)  # sums of float32 in another order
    assert found.any()


@every_world
def test_it_starts_where_the_world_says_with_noise_on_what_it_learns(world):
    policy, still = example(world)[0], example(world, std=0.0)[0]
    start, learned = world.start_logits().flatten(0, 1), world.learned().repeat(world.questions, 1)
    assert torch.equal(still.table.weight, start.expand(len(SEEDS), -1, -1))
    noise = policy.table.weight - start
    assert not noise[:, ~learned].any() and noise[:, learned].all()
    alone = policy_of("tabular", [SEEDS[1]], world).table.weight
    assert torch.equal(policy.table.weight[1:2], alone) and not torch.equal(policy.table.weight[:1], alone)


@every_world
def test_token_by_token_equals_all_at_once(world):
    policy, prompts, completions = example(world)
    logits, state = policy.prefill(prompts, GROUP)
    steps = [logits]
    for t in range(world.cap - 1):
        logits, state = policy.decode(completions[..., t], state)
        steps.append(logits)
    assert torch.equal(torch.stack(steps, -2), policy(prompts, completions))
    assert isinstance(policy, Policy)


@every_world
def test_what_is_barred_is_never_sampled_and_everything_else_is_listed(world):
    policy, prompts, _ = example(world)
    noise = uniforms(SEEDS, Purpose.SAMPLING, 3, (PROMPTS, 50, world.cap))
    rollout = sample(policy, world, prompts, noise, torch.ones(len(SEEDS)))
    listed = {tuple(row) for row in world.every_completion(torch.device("cpu")).tolist()}
    assert {tuple(row) for row in rollout.completions.flatten(0, 2).tolist()} <= listed
    entropies = policy.log_probs(prompts, rollout.completions, torch.ones(len(SEEDS)), entropies=True).entropies
    assert (entropies >= 0).all() and (rollout.completions < world.first_question).all()


def trained(world, seeds):
    """Logits, gradient and rollout of some replicas."""
    policy, prompts, completions = example(world, seeds)
    logits = policy(prompts, completions)
    loss = F.log_softmax(logits, -1).gather(-1, completions.unsqueeze(-1)).squeeze(-1)
    loss = (loss * uniforms(seeds, Purpose.SAMPLING, 2, completions.shape[1:])).sum()
    slope = torch.autograd.grad(loss, policy.table.weight)[0]
    noise = uniforms(seeds, Purpose.SAMPLING, 3, completions.shape[1:])
    return [logits.detach(), slope, *sample(policy, world, prompts, noise, torch.ones(len(seeds)))]


@pytest.mark.bits
@every_world
def test_a_replica_has_the_same_bits_alone_and_in_a_stack(world, threads):  # noqa: F811
    threads(1)
    alone = [trained(world, [seed]) for seed in SEEDS]
    for count in (1, 2):
        threads(count)
        for r, stacked in enumerate(zip(*trained(world, SEEDS), strict=True)):
            assert all(torch.equal(a, b[0]) for a, b in zip(stacked, alone[r], strict=True)), f"{count} threads, {r}"


def test_a_task_without_questions_is_refused_in_one_line():
    with pytest.raises(
        ConfigError, match="^model=tabular: task=sort has no table of questions; there is one for bandit"
    ):
        compose("model=tabular")
