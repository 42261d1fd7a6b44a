"""Dynamic sampling: against lists of groups, one run at a time, and the laws that it obeys beside other variants."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from axis_choices import bind
from mixed_state import BAND, DYNAMIC, MODELS, NONE, SEEDS, Coarse, Different, Same, mixed
from small_runs import SHORT, SMALL, compose, rows
from toy_state import GROUP, PROMPTS, make_state

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop import state as module
from rlexp.loop.rollout import sample
from rlexp.loop.sampling import sample_groups
from rlexp.loop.state import take_replicas
from rlexp.loop.step import train_step
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job


def passes(owner, rewards: list[float]) -> bool:
    """What the refill of a variant says of one group, in plain numbers."""
    if owner is BAND:
        return 0.3 <= sum(rewards) / len(rewards) <= 0.6
    return owner is NONE or len(set(rewards)) > 1


def groups_of(runs, at: int, number: int):
    """The groups of one round of a state of one run: its rollout cut into prompts, rewards, tokens."""
    task = runs.task
    prompts = task.prompts(
        uniforms(runs.seeds, Purpose.PROMPTS, at, (PROMPTS, task.draws), round=number), held_out=False
    )
    noise = uniforms(runs.seeds, Purpose.SAMPLING, at, (PROMPTS, GROUP, task.cap), round=number)
    rollout = sample(runs.policy, task, prompts, noise, runs.temperature)
    rewards = task.score(rollout.prompts, rollout.completions, rollout.mask, rollout.finished).components["first"]
    return [([x[0, p] for x in rollout], (0.7 * rewards)[0, p].tolist()) for p in range(PROMPTS)]


def expected(runs, at: int):
    """Collect with lists: P groups a round until P pass or the rounds are over, those that pass first."""
    ((owner, _),) = runs.blocks
    every, passed, rounds = [], [], 0
    while rounds < owner.refill_rounds and len(passed) < PROMPTS:
        every += groups_of(runs, at, rounds)
        passed, rounds = [group for group in every if passes(owner, group[1])], rounds + 1
    rest = [group for group in every if not passes(owner, group[1])]
    tokens = sum(int(tensors[3].sum()) for tensors, _ in every)
    used = (every if rounds == 1 else passed + rest)[:PROMPTS]
    return used, rounds, tokens, len(passed), sum(passes(owner, group[1]) for group in used)


@pytest.mark.parametrize("at", [1, 2])
def test_every_run_of_a_batch_collects_what_it_would_collect_alone_with_lists(at):
    found, seen = sample_groups(mixed(), at), set()
    for replica in range(len(SEEDS)):
        alone = mixed(slice(replica, replica + 1))
        groups, *numbers = expected(alone, at)
        for p, (tensors, _) in enumerate(groups):
            assert all(
                torch.equal(mine[replica, p], theirs) for mine, theirs in zip(found.rollout, tensors, strict=True)
            )
        assert [column[replica].item() for column in found[1:5]] == numbers
        seen.add((alone.blocks[0][0].refill_rounds, numbers[0]))
    assert (
        (1, 1) in seen and any(1 < used < most for most, used in seen) and any(1 < used == most for most, used in seen)
    )


def trained(runs, steps=3):
    """Metrics of all steps ``[steps, R]`` and the weights after them."""
    table = [train_step(runs, at, True) for at in range(1, steps + 1)]
    return {name: torch.stack([row[name] for row in table]) for name in table[0]}, list(runs.policy.parameters())


@pytest.mark.bits
@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_a_run_is_bit_identical_alone_and_beside_runs_that_sample_more(model):
    metrics, weights = trained(mixed(**MODELS[model]))
    assert len(set(metrics["filter/rounds"].flatten().tolist())) > 2
    for replica in range(len(SEEDS)):
        alone, own = trained(mixed(slice(replica, replica + 1), **MODELS[model]))
        for name, values in alone.items():
            torch.testing.assert_close(values[:, 0], metrics[name][:, replica], rtol=0, atol=0, equal_nan=True)
        assert all(torch.equal(ours[replica], theirs[0]) for ours, theirs in zip(weights, own, strict=True))


def test_where_every_group_varies_dynamic_sampling_changes_no_bit():
    plain, dynamic = (
        trained(make_state([(owner, 2)], [0, 1], task=Different(), dtype=torch.float32)) for owner in (NONE, DYNAMIC)
    )
    assert all(torch.equal(plain[0][name], dynamic[0][name]) for name in plain[0])
    assert all(torch.equal(a, b) for a, b in zip(plain[1], dynamic[1], strict=True))
    assert (dynamic[0]["filter/rounds"] == 1).all()


def test_at_the_cap_the_first_groups_are_used_as_they_are():
    plain, dynamic = (sample_groups(make_state([(owner, 2)], [0, 1], task=Same()), 1) for owner in (NONE, DYNAMIC))
    assert all(torch.equal(a, b) for a, b in zip(plain.rollout, dynamic.rollout, strict=True))
    assert dynamic.rounds.tolist() == [4, 4] and dynamic.used.tolist() == dynamic.passed.tolist() == [0, 0]


def test_groups_that_are_left_out_of_the_loss_too_leave_nothing_to_learn():
    both = replace(DYNAMIC, filter_loss=bind("filter", "zero_variance"))
    row = train_step(make_state([(both, 2)], [0, 1], task=Same()), 1, True)
    assert row["filter/tokens"].eq(0).all() and row["optim/grad_norm"].eq(0).all()


def test_counters_add_up():
    runs = mixed()
    for at in range(1, 4):
        found, row = sample_groups(runs, at), train_step(runs, at, True)
        assert torch.equal(row["completions"], found.rounds * PROMPTS * GROUP)
        assert torch.equal(row["tokens"], found.tokens)
        assert torch.equal(row["filter/sampled"], row["filter/rounds"] * PROMPTS)
        assert torch.equal(row["filter/used"], row["filter/passed"].clamp(max=PROMPTS))
        full = row["filter/used"] == PROMPTS
        varied = row["groups/zero_variance"][1:6] == 0  # the runs with zero_variance
        assert torch.equal(full[1:6], varied) and full[0] and full[-1]


def test_only_runs_that_are_short_of_groups_are_sampled_again(monkeypatch):
    sizes, real = [], module.sample

    def spy(policy, task, prompts, *others, **forward_cache):
        sizes.append(len(prompts))
        return real(policy, task, prompts, *others, **forward_cache)

    monkeypatch.setattr(module, "sample", spy)
    found = sample_groups(mixed(sample=spy), 1)
    assert sizes == [int((found.rounds > number).sum()) for number in range(int(found.rounds.max()))]
    assert sizes[0] == len(SEEDS) and sizes[1] < len(SEEDS)


def test_without_refill_a_rollout_is_scored_once(monkeypatch):
    calls = []
    monkeypatch.setattr(Coarse, "score", lambda *inputs: calls.append(0) or Same.score(*inputs))
    train_step(make_state([(NONE, 2)], [0, 1], task=Coarse()), 1, True)
    assert len(calls) == 1


@pytest.mark.bits
@pytest.mark.parametrize("model", MODELS)
def test_a_policy_of_some_replicas_samples_the_same_bits_and_shares_nothing(model):
    runs = mixed(**MODELS[model])
    task, rows_ = runs.task, torch.tensor([1, 4, 7])
    prompts = task.prompts(uniforms(runs.seeds, Purpose.PROMPTS, 1, (PROMPTS, task.draws)), held_out=False)
    noise = uniforms(runs.seeds, Purpose.SAMPLING, 1, (PROMPTS, GROUP, task.cap))
    before = [parameter.detach().clone() for parameter in runs.policy.parameters()]
    policy = take_replicas(runs.policy, rows_)
    whole = sample(runs.policy, task, prompts, noise, runs.temperature)
    part = sample(policy, task, prompts[rows_], noise[rows_], runs.temperature[rows_])
    assert all(torch.equal(a[rows_], b) for a, b in zip(whole, part, strict=True))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
    assert all(torch.equal(a, b) for a, b in zip(before, runs.policy.parameters(), strict=True))


def test_progress_counts_what_was_sampled(tmp_path):
    config = compose(*SHORT, *SMALL, "steps=3", "filter=dynamic", "filter.refill.rounds=3")
    train_jobs([Job(config, tmp_path, "one", "one")])
    table = rows(tmp_path)
    sampled = [4 * row["filter/sampled"] for row in table[1:]]
    assert [row["progress/completions"] for row in table] == [sum(sampled[:n]) for n in range(len(table))]
    assert sum(sampled) > 3 * 16
