"""Numbers that the source documents print about norms, each with its item number in the inventory of those documents.

S0 four pillars, S1 GRPO-TCR notebook, S2 CS336 lecture 17, S3 TRL notes; PEERS are numbers measured on frameworks,
CLAIMS the exact tables of the claims list. What the documents get wrong is in ``test_published_errors.py``.
"""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import bind
from published import TINY, advantages, close, tensor

from rlexp.core.masked import is_constant

# ---- norm

FOUR_PROMPTS = [[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
ZERO = [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("name", "largest"), [("local", 1.50), ("global", 1.10), ("hybrid", 1.46)])
def test_s0_6_largest_advantage(name, largest):
    close(advantages(FOUR_PROMPTS, name, eps=1e-8, ddof=1).abs().max(), largest, 2)


@pytest.mark.holds("S0.3")
def test_s0_3_local_advantages_of_four_prompts():
    expected = [ZERO, [0.8660, -0.8660, 0.8660, -0.8660], [-0.5, -0.5, 1.5, -0.5], ZERO]
    close(advantages(FOUR_PROMPTS, "local", eps=1e-8, ddof=1), expected, 4)


@pytest.mark.holds("S0.4")
def test_s0_4_global_advantages_of_four_prompts():
    actual = advantages(FOUR_PROMPTS, "global", eps=1e-8, ddof=1)
    close(actual[0], [1.0978876] * 4, 7)
    close(actual.sum(), 0.0, 7)


@pytest.mark.holds("S0.5")
def test_s0_5_hybrid_advantages_of_four_prompts():
    expected = [ZERO, [0.9759, -0.9759, 0.9759, -0.9759], [-0.488, -0.488, 1.4639, -0.488], ZERO]
    close(advantages(FOUR_PROMPTS, "hybrid", eps=1e-8, ddof=1), expected, 3)


@pytest.mark.holds("S1.4", "S1.12")
@pytest.mark.parametrize(
    ("ddof", "expected"), [(1, [0.78, -1.31, 0.78, -0.26]), (0, [0.90, -1.51, 0.90, -0.30])], ids=["n-1", "n"]
)
def test_s1_12_advantages_of_four_verdicts(ddof, expected):
    close(advantages([1, -1, 1, 0], "local", eps=1e-8, ddof=ddof), expected, 2)


@pytest.mark.holds("S1.1")
def test_s1_22_advantages_of_eight_verdicts():
    expected = [0.846, -1.410, 0.846, -0.282, 0.846, -1.410, -0.282, 0.846]
    close(advantages([1, -1, 1, 0, 1, -1, 0, 1], "local", eps=1e-8, ddof=1), expected, 3)


@pytest.mark.holds("S2.3")
def test_s2_3_a_baseline_per_state():
    """b(s1) = 10, b(s2) = 1 are the group means."""
    close(advantages([[11, 9], [0, 2]], "center"), [[1, -1], [-1, 1]], 7)


@pytest.mark.holds("S2.10")
@pytest.mark.parametrize(
    ("name", "hyperparameters", "expected"),
    [
        ("none", {}, [3, 3, 3, 4, 3]),
        ("center", {}, [-0.2, -0.2, -0.2, 0.8, -0.2]),
        ("local", {"eps": 1e-5, "ddof": 1}, [-0.4472, -0.4472, -0.4472, 1.7888, -0.4472]),
        ("max", {}, [0, 0, 0, 4, 0]),
    ],
)
def test_s2_10_the_four_deltas_of_the_lecture(name, hyperparameters, expected):
    close(advantages([3, 3, 3, 4, 3], name, **hyperparameters), expected, 4)


@pytest.mark.holds("S3.13")
def test_s3_13_advantages_of_three_completions():
    close(advantages([1, 0, 0.5], "local", eps=TINY, ddof=0), [1.225, -1.225, 0], 3)


def test_claims_leave_one_out_advantages():
    close(advantages([1, 0, 0.5, 0], "rloo"), [0.8333, -0.5, 0.1667, -0.5], 4)


@pytest.mark.parametrize(
    ("ddof", "expected"), [(1, [0.707, 1.50, 2.475, 3.75]), (0, [1.0, 1.732, 2.646, 3.873])], ids=["n-1", "n"]
)
def test_peers_one_success_in_a_group(ddof, expected):
    """TRL, verl and OpenRLHF divide by n − 1, open-instruct by n."""
    successes = [advantages([1] + [0] * (n - 1), "local", eps=TINY, ddof=ddof)[0].item() for n in (2, 4, 8, 16)]
    close(successes, expected, 3)


@pytest.mark.parametrize("size", [2, 4, 8, 16, 64])
@pytest.mark.parametrize("gap", [1.0, 0.001])
def test_claims_one_odd_reward_has_the_same_advantage_whatever_the_gap(size, gap):
    odd = advantages([gap] + [0.0] * (size - 1), "local", eps=TINY, ddof=1)[0]
    close(odd, (size - 1) / math.sqrt(size), 6)


# ---- expected weight of a prompt of difficulty p, by enumerating the binomial outcomes of its group


def weight(p: float, size: int, name: str, **hyperparameters) -> float:
    """w in E[update] = w · ∇p for 0/1 rewards: a right completion has score ∇p / p, a wrong one −∇p / (1 − p)."""
    right = torch.ones(size + 1, size, dtype=torch.float64).tril(-1)  # row k: k right ones
    signs = right / p - (1 - right) / (1 - p)
    return float((binomial(p, size) * (advantages(right.tolist(), name, **hyperparameters) * signs).mean(-1)).sum())


def binomial(p: float, size: int) -> torch.Tensor:
    """Probabilities of 0 … size right completions."""
    return tensor([math.comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(size + 1)])


DIFFICULTIES = [0.02, 0.10, 0.30, 0.50, 0.90, 0.98]


@pytest.mark.parametrize(
    ("size", "ddof", "expected"),
    [
        (8, 1, [2.407, 2.177, 1.836, 1.736, 2.177, 2.407]),
        (8, 0, [2.573, 2.328, 1.963, 1.856, 2.328, 2.573]),
        (4, 1, [1.492, 1.464, 1.416, 1.400]),
        (2, 1, [0.707, 0.707, 0.707, 0.707]),
        (64, 1, [5.818, 3.229, 2.145, 1.969]),
    ],
    ids=str,
)
def test_claims_dividing_by_the_group_deviation_weighs_prompts_by_difficulty(size, ddof, expected):
    ps = DIFFICULTIES[: len(expected)]
    close([weight(p, size, "local", eps=TINY, ddof=ddof) for p in ps], expected, 3)


def test_claims_the_weight_of_large_groups_is_one_over_the_deviation():
    """Its distance from the limit falls with 1 / size; 3 % is what is left where only 20 of 1000 are right."""
    limits = [7.143, 3.333, 2.182, 2.0]
    assert [weight(p, 1000, "local", eps=TINY, ddof=1) for p in DIFFICULTIES[:4]] == pytest.approx(limits, rel=0.03)


@pytest.mark.parametrize(("size", "expected"), [(8, 0.875), (4, 0.75), (2, 0.5)])
def test_claims_centring_weighs_all_prompts_alike(size, expected):
    close([weight(p, size, "center") for p in DIFFICULTIES], [expected] * len(DIFFICULTIES), 12)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(8, [6.594, 5.217, 3.059, 1.984, 1.111, 1.020]), (4, [2.94, 2.71, 2.19, 1.75])],
    ids=["8", "4"],
)
def test_claims_maxrl_weighs_prompts_by_one_over_their_success_rate(size, expected):
    ps = DIFFICULTIES[: len(expected)]
    close([weight(p, size, "maxrl") for p in ps], expected, 3 if size == 8 else 2)
    assert weight(0.5, 64, "maxrl") == pytest.approx(2.0, rel=1e-2)


def test_claims_groups_of_two_know_no_difficulty():
    """Whatever the deviation is over, a pair is equal or it is not: one weight for all success rates."""
    weights = [weight(p, 2, "local", eps=TINY, ddof=1) / weight(p, 2, "center") for p in DIFFICULTIES]
    close(weights, [2**0.5] * len(DIFFICULTIES), 9)


@pytest.mark.parametrize("size", [2, 4, 8, 64])
def test_leaving_one_out_is_unbiased(size):
    close([weight(p, size, "rloo") for p in DIFFICULTIES], [1.0] * len(DIFFICULTIES), 10)


def test_claims_share_of_groups_without_signal():
    right = torch.ones(9, 8, dtype=torch.float64).tril(-1)
    constant = is_constant(right, torch.ones_like(right, dtype=torch.bool), (-1,)).squeeze(-1).double()
    close([float(binomial(p, 8) @ constant) for p in DIFFICULTIES], [0.851, 0.430, 0.058, 0.008, 0.430, 0.851], 3)


# ---- a learned baseline


def of_one(token_rewards, values, name="gae", finished=True, **hyperparameters):
    """Advantages of one completion that is all mask; ``values`` has one more entry."""
    made, known = tensor([[token_rewards]]), tensor([[values]])
    mask, ended = torch.ones(made.shape, dtype=torch.bool), torch.tensor([[finished]])
    return bind("norm", name, **hyperparameters)(made, known, mask, ended)[0, 0]


@pytest.mark.holds("S4.4")
def test_s4_4_generalised_advantages():
    """r = [0, 0, 1], V = [.2, .4, .6], done at the end, γ .99, λ .95; a value after it counts for nothing."""
    expected = [0.73227, 0.57020, 0.40000]
    hyperparameters = dict(gamma=0.99, lam=0.95, bootstrap=1.0)
    close(of_one([0, 0, 1], [0.2, 0.4, 0.6, 9.0], **hyperparameters), expected, 5)
    close(of_one([0, 0, 1], [0.2, 0.4, 0.6, 0.0], **hyperparameters), expected, 5)


@pytest.mark.holds("E46")
def test_error_46_a_limit_of_time_is_no_end():
    """The source takes every end for one; cut off, the same completion is worth γ · 0.5 more at its last token."""
    cut = [0, 0, 1], [0.2, 0.4, 0.6, 0.5]
    close(of_one(*cut, finished=False, gamma=0.99, lam=0.95, bootstrap=1.0)[-1], 0.4 + 0.99 * 0.5, 12)
    close(of_one(*cut, finished=False, gamma=0.99, lam=0.95, bootstrap=0.0)[-1], 0.4, 12)
