"""Every metric of a rollout against loops over ragged random numbers with missing rewards."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from axis_choices import numbers
from metric_checks import CLOSE, G, P, R, T, V, average, check, counted, float64, mask, present, random_numbers  # noqa: F401
from torch import Tensor

from rlexp.core.blocks import slice_rows
from rlexp.loop import metrics
from rlexp.loop.rewards import Rewards
from rlexp.loop.rollout import Rollout

pytestmark = pytest.mark.usefixtures("float64")
SAMPLES = 200_000


def test_rewards_by_component_without_those_that_do_not_apply():
    first, second, total = (random_numbers(R, P, G, seed=seed) for seed in (1, 2, 3))
    first[random_numbers(R, P, G, seed=4) > 0] = math.nan
    second[1] = math.nan
    total[0, 0] = math.nan
    shaped = total - 0.3
    row = metrics.reward_metrics(Rewards(total, {"a": first, "b": second}, first > 0, None, total), shaped)
    check(
        row,
        {
            "reward/mean": lambda r: average(present(total[r])),
            "reward/std": lambda r: statistics.stdev(present(total[r])),
            "reward/shaped": lambda r: average(present(shaped[r])),
            "reward/a/mean": lambda r: average(present(first[r])),
            "reward/a/std": lambda r: statistics.stdev(present(first[r])),
            "reward/b/mean": lambda r: average(present(second[r])),
            "reward/b/std": lambda r: statistics.stdev(present(second[r])) if r != 1 else 0.0,
        },
    )


def groups() -> Tensor:
    """Rewards in [-1, 2]: flat groups at the worst, the best and between, one with gaps, one that differs a little."""
    rewards = random_numbers(R, P, G).clamp(-0.9, 1.9)
    rewards[0, 0], rewards[0, 1], rewards[0, 2], rewards[0, 3] = -1.0, 2.0, 0.7, 0.7
    rewards[0, 3, 1] = 0.7001
    rewards[1, 4] = torch.tensor([2.0, math.nan, 2.0, math.nan])
    rewards[1, 5] = torch.tensor([2.0, math.nan, 2.0, 1.9])
    return rewards


def share_of_groups(rewards: Tensor, holds) -> float:
    """Share of groups whose rewards are all equal, to a number for which ``holds``."""
    flat = [present(group) for group in rewards if len(set(present(group))) == 1]
    return sum(holds(group[0]) for group in flat) / len(rewards)


def bounds(*worst_and_best):
    """The same for all runs."""
    return torch.tensor(worst_and_best).unsqueeze(-1)


def test_groups_without_variance_are_worst_best_or_between():
    rewards = groups()
    row = metrics.group_metrics(rewards, bounds(-1.0, 2.0))
    check(
        row,
        {
            "groups/zero_variance": lambda r: share_of_groups(rewards[r], lambda level: True),
            "groups/all_worst": lambda r: share_of_groups(rewards[r], lambda level: level == -1),
            "groups/all_best": lambda r: share_of_groups(rewards[r], lambda level: level == 2),
            "groups/zero_other": lambda r: share_of_groups(rewards[r], lambda level: level not in (-1, 2)),
        },
    )
    assert row["groups/zero_variance"].tolist() == pytest.approx([3 / P, 1 / P, 0])
    parts = row["groups/all_worst"] + row["groups/all_best"] + row["groups/zero_other"]
    torch.testing.assert_close(parts, row["groups/zero_variance"], **CLOSE)


def test_a_flat_group_whose_mean_is_rounded_is_still_the_best():
    """Eight float32 rewards of 0.7 have a mean of 0.70000005."""
    rewards = torch.full((1, 1, 8), 0.7, dtype=torch.float32)
    assert metrics.group_metrics(rewards, bounds(0.0, 0.7))["groups/all_best"] == 1


def test_a_group_without_any_reward_is_neither_worst_nor_best():
    row = metrics.group_metrics(torch.full((1, 1, 4), math.nan), bounds(0.0, 1.0))
    assert {name: value.item() for name, value in row.items()} == {
        "groups/zero_variance": 1,
        "groups/all_worst": 0,
        "groups/all_best": 0,
        "groups/zero_other": 1,
    }


def test_advantages(mask):
    """Of a completion, the mean over its tokens."""
    tokens = random_numbers(R, P, G, T)
    rows = zip(tokens.flatten(0, 2), mask.flatten(0, 2), strict=True)
    advantages = torch.tensor([average(counted(*row)) for row in rows], dtype=tokens.dtype).view(R, P, G)
    check(
        metrics.advantage_metrics(tokens, mask),
        {
            "advantage/mean": lambda r: average(present(advantages[r])),
            "advantage/std": lambda r: statistics.stdev(present(advantages[r])),
            "advantage/min": lambda r: min(present(advantages[r])),
            "advantage/max": lambda r: max(present(advantages[r])),
        },
    )


def test_lengths_of_all_ended_right_and_wrong_completions(mask):
    finished, correct = random_numbers(R, P, G, seed=6) > 0.5, random_numbers(R, P, G, seed=7) > 0.5
    correct[0], finished[1], finished[2] = True, False, True
    lengths = torch.tensor([sum(tokens) for tokens in mask.flatten(0, 2).tolist()]).view(R, P, G)
    row = metrics.length_metrics(mask, finished, correct)
    check(
        row,
        {
            "length/mean": lambda r: average(present(lengths[r])),
            "length/finished": lambda r: average(counted(lengths[r], finished[r])),
            "length/correct": lambda r: average(counted(lengths[r], correct[r])),
            "length/wrong": lambda r: average(counted(lengths[r], ~correct[r])),
            "length/truncated": lambda r: average([not ended for ended in finished[r].flatten().tolist()]),
        },
    )
    assert row["length/wrong"].isnan().tolist() == [True, False, False]
    assert row["length/finished"].isnan().tolist() == [False, True, False]


@pytest.fixture
def policies(mask):
    """A rollout, and two policies' log-probabilities ``[R, P, G, T, V]`` on it."""
    policy, reference = (random_numbers(R, P, G, T, V, seed=seed).log_softmax(-1) for seed in (8, 9))
    tokens = torch.randint(V, mask.shape, generator=torch.Generator().manual_seed(10))
    old = policy.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).where(mask, 0.0)
    return policy, reference, Rollout(tokens[..., 0, :], tokens, old, mask, mask[..., -1], old)


def per_token(policies, replica, formula):
    """Average ``formula(p, q, token)`` over the tokens that count; p and q are the vocabulary's probabilities."""
    policy, reference, rollout = policies
    return average(
        [
            formula([math.exp(x) for x in policy[at].tolist()], [math.exp(x) for x in reference[at].tolist()], token)
            for at, token in [
                ((replica, p, g, t), int(rollout.completions[replica, p, g, t]))
                for p in range(P)
                for g in range(G)
                for t in range(T)
                if rollout.mask[replica, p, g, t]
            ]
        ]
    )


def test_entropy_and_divergence_from_the_reference(policies):
    def mean_of(formula):
        return lambda replica: per_token(policies, replica, formula)

    check(
        metrics.policy_metrics(*policies),
        {
            "policy/entropy": mean_of(lambda p, q, token: -sum(x * math.log(x) for x in p)),
            "kl/ref_k1": mean_of(lambda p, q, token: math.log(p[token] / q[token])),
            "kl/ref_k3": mean_of(lambda p, q, token: q[token] / p[token] - 1 - math.log(q[token] / p[token])),
            "kl/ref_exact": mean_of(lambda p, q, token: sum(x * math.log(x / y) for x, y in zip(p, q, strict=True))),
        },
    )


def test_sampled_estimates_converge_to_the_exact_divergence():
    """Within five standard errors, which are a small part of the divergence."""
    policy, reference = (random_numbers(V, seed=seed).log_softmax(-1) for seed in (8, 9))
    random = torch.Generator().manual_seed(11)
    tokens = torch.multinomial(policy.exp(), SAMPLES, replacement=True, generator=random).view(1, 1, 1, -1)
    every = torch.ones_like(tokens, dtype=torch.bool)
    rollout = Rollout(tokens[..., 0, :1], tokens, policy[tokens], every, every[..., 0], policy[tokens])
    shape = (1, 1, 1, SAMPLES, V)
    row = metrics.policy_metrics(policy.expand(shape), reference.expand(shape), rollout)
    difference = policy - reference
    exact = (policy.exp() * difference).sum()
    assert row["kl/ref_exact"].item() == pytest.approx(exact.item())
    for name, values in {"kl/ref_k1": difference, "kl/ref_k3": (-difference).exp() - 1 + difference}.items():
        error = (policy.exp() * (values - exact).square()).sum().sqrt() / math.sqrt(SAMPLES)
        assert exact > 50 * error
        assert abs(row[name] - exact) < 5 * error


def test_a_policy_is_no_distance_from_itself_and_uniform_has_the_entropy_of_its_size(policies):
    _, _, rollout = policies
    uniform = torch.full((R, P, G, T, V), -math.log(V))
    row = metrics.policy_metrics(uniform, uniform, rollout)
    torch.testing.assert_close(row["policy/entropy"], torch.full((R,), math.log(V)), **CLOSE)
    assert not any(row[name].any() for name in ("kl/ref_k1", "kl/ref_k3", "kl/ref_exact"))


def test_ratios(mask):
    every = numbers(R, P, G, T)
    new, old = every["log_probs"], every["old_log_probs"]
    garbage = new.masked_fill(~mask, 1e4)

    def ratios(r):
        return [math.exp(x) for x in counted((new - old)[r], mask[r])]

    row = metrics.ratio_metrics(garbage, old, mask)
    check(
        row,
        {
            "ratio/mean": lambda r: average(ratios(r)),
            "ratio/min": lambda r: min(ratios(r)),
            "ratio/max": lambda r: max(ratios(r)),
            "kl/old": lambda r: average([ratio - 1 - math.log(ratio) for ratio in ratios(r)]),
        },
    )
    assert (row["kl/old"] > 0).all()


def test_the_divergence_from_the_old_policy_is_never_negative():
    """k3 of any log-ratio, tiny ones in float32 included, up to the rounding of ρ − 1 − log ρ."""
    log_ratios = torch.linspace(-8, 8, 999).pow(3).view(-1, 1, 1, 1).float() / 64
    values = metrics.ratio_metrics(log_ratios, torch.zeros_like(log_ratios), torch.ones_like(log_ratios).bool())
    assert (values["kl/old"] >= -torch.finfo(torch.float32).eps).all()


def test_updates_are_joined_by_extremes_of_extremes_and_means_of_the_rest():
    names = ("ratio/min", "ratio/max", "loss/total", "share/min")
    rows = [dict.fromkeys(names, torch.tensor([a, -a])) for a in (1.0, 5.0, 3.0)]
    joined = {name: values.tolist() for name, values in metrics.over_updates(rows).items()}
    means = dict.fromkeys(names[2:], [3.0, -3.0])
    assert joined == {"ratio/min": [1.0, -5.0], "ratio/max": [5.0, -1.0]} | means


def test_replicas_do_not_mix(policies, mask):
    """Metrics of a stack are those of its replicas bit by bit, whatever the neighbours hold."""
    policy, reference, rollout = policies
    whole = metrics.policy_metrics(policy, reference, rollout)
    broken = policy.clone()
    broken[1] = math.nan
    for replica in (0, 2):
        rows = slice(replica, replica + 1)
        alone = metrics.policy_metrics(policy[rows], reference[rows], slice_rows(rollout, rows))
        beside = metrics.policy_metrics(broken, reference, rollout)
        for name, values in whole.items():
            assert torch.equal(values[rows], alone[name])
            assert torch.equal(values[rows], beside[name][rows])
