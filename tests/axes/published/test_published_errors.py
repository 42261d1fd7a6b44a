"""Where the source documents are wrong: the right value, under the item number (1B-n) of the list of their errors.

1B-2b (float residue) is a law of norms (``rlexp.testing``), 1B-5 and 1B-6 (which KL) are in ``test_kl_laws.py``,
1B-17 (−inf in the padding) in ``test_objective.py``.
"""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import CLOSE, bind, slopes

from rlexp.core.masked import masked_std
from rlexp.tasks.sort import in_order, included, included_counted

# Numbers in the list of errors are printed with two decimals at least.
PRINTED = dict(rtol=0.0, atol=0.005)
SYMMETRIC = dict(low=0.2, high=0.2)
HIGHER = dict(low=0.2, high=0.28)
Z_SCORE = dict(eps=1e-8, ddof=1)


def tensor(numbers) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def advantages(groups, name: str, keep=None, **hyperparameters) -> torch.Tensor:
    rewards = tensor(groups)
    keep = torch.ones_like(rewards, dtype=torch.bool) if keep is None else torch.tensor(keep)
    return bind("norm", name, **hyperparameters)(rewards, keep)


def token_slope(name: str, log_prob: float, old_log_prob: float, advantage: float, **hyperparameters) -> float:
    """Gradient of the loss of a single token in its log-prob."""
    one = [tensor([[[number]]]) for number in (log_prob, old_log_prob, advantage)]
    return slopes(bind("clip", name, **hyperparameters), *one, torch.ones(1, 1, 1, dtype=torch.bool)).item()


@pytest.mark.holds("E1")
@pytest.mark.parametrize("log_prob", [-0.5, -0.01])
@pytest.mark.parametrize(("name", "hyperparameters"), [("unclipped", {}), ("ppo", SYMMETRIC)], ids=["unclipped", "ppo"])
def test_1b_1_the_ratio_is_of_probabilities_not_of_their_logs(name, hyperparameters, log_prob):
    """The lecture's log π / log π_old has slope +2 at log π = −0.5 and +100 at −0.01; right is −A = −1 at both."""
    assert token_slope(name, log_prob, log_prob, 1.0, **hyperparameters) == pytest.approx(-1.0, **approx(CLOSE))


def approx(tolerance: dict[str, float]) -> dict[str, float]:
    return {"rel": tolerance["rtol"], "abs": tolerance["atol"]}


@pytest.mark.holds("S1.11")
@pytest.mark.parametrize("name", ["local", "hybrid"])
def test_1b_2_equal_rewards_do_not_explode_they_vanish(name):
    assert advantages([[1, 1, 1, 1], [1, 0, 1, 0]], name, **Z_SCORE)[0].eq(0).all()


@pytest.mark.holds("E2")
def test_1b_2a_what_explodes_is_a_small_gap():
    """A reward that is off by 0.001 moves the policy as much as one that is off by 1."""
    gaps = advantages([[1, 1, 1, 1 + gap] for gap in (1.0, 0.001)], "local", **Z_SCORE)
    torch.testing.assert_close(gaps[:, 3], tensor([1.5, 1.5]), **PRINTED)


@pytest.mark.holds("E3")
def test_1b_3_hybrid_has_no_deviation_if_the_whole_batch_agrees():
    assert advantages([[1, 1], [1, 1]], "hybrid", **Z_SCORE).eq(0).all()


@pytest.mark.parametrize(("name", "depends"), [("hybrid", True), ("local", False), ("center", False)])
def test_1b_3_hybrid_depends_on_which_other_prompts_were_drawn(name, depends):
    hyperparameters = {} if name == "center" else Z_SCORE
    beside_easy, beside_mixed = ([[0, 1, 0, 0], other] for other in ([1, 1, 1, 1], [0, 0, 0, 1]))
    same = torch.equal(
        advantages(beside_easy, name, **hyperparameters)[0], advantages(beside_mixed, name, **hyperparameters)[0]
    )
    assert same != depends


@pytest.mark.holds("E4")
def test_1b_4_a_ratio_to_the_reference_stops_learning_for_ever():
    """With π_ref in the place of π_old both agree at step 0 only; 0.2 away from π_ref nothing is learned any more."""
    policy, reference = -1.0, -1.3
    assert token_slope("ppo", reference, reference, 1.0, **SYMMETRIC) == pytest.approx(-1.0, **approx(CLOSE))
    assert token_slope("ppo", policy, policy, 1.0, **SYMMETRIC) == pytest.approx(-1.0, **approx(CLOSE))
    assert token_slope("ppo", policy, reference, 1.0, **SYMMETRIC) == 0.0


@pytest.mark.holds("S3.16", "E11")
@pytest.mark.parametrize("name", ["bnpo", "sequence"])
def test_1b_11_on_policy_the_loss_is_zero_and_its_gradient_is_not(name):
    """A loss curve shows no progress: at ρ = 1 and equal lengths the loss is −mean A = 0."""
    log_probs = tensor([[[-0.5, -1.0], [-2.0, -0.1]]]).requires_grad_()
    per_token = advantages([[1, 0]], "center").unsqueeze(-1).expand_as(log_probs)
    mask = torch.ones_like(log_probs, dtype=torch.bool)
    loss = bind("agg", name)(bind("clip", "unclipped")(log_probs, log_probs.detach(), per_token, mask), mask)
    (gradient,) = torch.autograd.grad(loss, log_probs)
    assert loss.item() == pytest.approx(0.0, **approx(CLOSE)) and gradient.ne(0).all()


@pytest.mark.holds("E14")
def test_1b_14_hard_coded_advantages_divide_by_n_the_code_by_n_minus_1():
    verdicts = [[1, -1, 1, 0]]
    hard_coded, code = tensor([[0.9, -1.5, 0.9, -0.3]]), tensor([[0.78, -1.31, 0.78, -0.26]])
    by_n, by_less = (advantages(verdicts, "local", eps=1e-8, ddof=ddof) for ddof in (0, 1))
    torch.testing.assert_close(by_n, hard_coded, rtol=0.0, atol=0.05)
    torch.testing.assert_close(by_less, code, **PRINTED)
    assert (by_less - hard_coded).abs().max() > 0.05


@pytest.mark.holds("E15")
@pytest.mark.parametrize(("ddof", "sigma", "largest"), [(1, 0.5, 1.0), (0, 0.408, 1.225)])
def test_1b_15_the_deviation_of_three_rewards(ddof, sigma, largest):
    """0.408 is not what the formula with 1/(B − 1) beside it gives, nor torch.std."""
    rewards = tensor([[1, 0, 0.5]])
    deviation = masked_std(rewards, torch.ones_like(rewards, dtype=torch.bool), (-1,), ddof)
    torch.testing.assert_close(deviation.item(), sigma, **PRINTED)
    torch.testing.assert_close(
        advantages([[1, 0, 0.5]], "local", eps=1e-8, ddof=ddof), tensor([[largest, -largest, 0]]), **PRINTED
    )


@pytest.mark.holds("E16")
def test_1b_16_centred_and_divided_are_two_advantages():
    """The notes define A twice, as r − mean and as (r − mean) / σ: they are two choices here."""
    torch.testing.assert_close(advantages([[1, 0, 0.5]], "center"), tensor([[0.5, -0.5, 0]]), **CLOSE)
    torch.testing.assert_close(advantages([[1, 0, 0.5]], "local", **Z_SCORE), tensor([[1.0, -1.0, 0]]), **PRINTED)


@pytest.mark.holds("E19")
def test_1b_19_a_loss_per_replica_has_a_backward():
    losses = tensor([[[[1.0, 2.0]]], [[[3.0, 4.0]]]]).requires_grad_()
    bind("agg", "bnpo")(losses, torch.ones_like(losses, dtype=torch.bool)).backward(tensor([1.0, 0.0]))
    assert losses.grad.view(2, 2).tolist() == [[0.5, 0.5], [0.0, 0.0]]


@pytest.mark.holds("E20")
def test_1b_20_the_grpo_paper_aggregates_per_completion():
    """1/|o_i| inside the sum over completions is ``sequence``; ``token`` is what DAPO made of it."""
    losses = tensor([[[3.0, 0.0, 0.0], [1.0, 1.0, 1.0]]])
    mask = torch.tensor([[[True, False, False], [True, True, True]]])
    assert bind("agg", "sequence")(losses, mask).item() == (3.0 + 1.0) / 2
    assert bind("agg", "bnpo")(losses, mask).item() == (3.0 + 3.0) / 4


@pytest.mark.holds("E21")
@pytest.mark.parametrize("ratio", [1.0, 5.0])
def test_1b_21_the_ratio_reweighs_and_only_the_clip_limits(ratio):
    """Without a change the update is full, and it grows with the change, until the clip cuts it."""
    log_ratio = math.log(ratio)
    assert token_slope("unclipped", log_ratio - 3, -3.0, 1.0) == pytest.approx(-ratio, **approx(CLOSE))
    clipped = token_slope("ppo", log_ratio - 3, -3.0, 1.0, **SYMMETRIC)
    assert clipped == pytest.approx(-1.0 if ratio == 1 else 0.0, **approx(CLOSE))


@pytest.mark.holds("E22")
@pytest.mark.parametrize(("advantage", "expected"), [(1.0, 0.0), (-1.0, 4.953)])
@pytest.mark.parametrize("bounds", [SYMMETRIC, HIGHER], ids=["symmetric", "higher"])
def test_1b_22_at_a_ratio_of_5_clip_higher_updates_no_more_than_symmetric(bounds, advantage, expected):
    """Not "7 % more update": for A > 0 both have no gradient, for A < 0 neither bound acts."""
    assert token_slope("ppo", -2.3, -3.9, advantage, **bounds) == pytest.approx(expected, abs=PRINTED["atol"])


@pytest.mark.parametrize(("bounds", "room"), [(SYMMETRIC, 0.20), (HIGHER, 0.28)], ids=["symmetric", "higher"])
def test_1b_22_clip_higher_leaves_40_percent_more_room(bounds, room):
    inside, outside = math.log(1 + room - 1e-6), math.log(1 + room + 1e-6)
    assert token_slope("ppo", inside, 0.0, 1.0, **bounds) < 0 == token_slope("ppo", outside, 0.0, 1.0, **bounds)


@pytest.mark.holds("E23")
@pytest.mark.parametrize(
    ("name", "loss_keeps", "expected"), [("penalty", True, -1.5), ("filter", False, 0.0)], ids=["penalty", "filter"]
)
def test_1b_23_a_reward_of_zero_is_a_penalty_and_no_filter(name, loss_keeps, expected):
    """[1, 1, truncated, 1]: zeroing the reward pushes the truncated one away with −1.5; a filter leaves it alone."""
    finished = torch.tensor([[True, True, False, True]])
    keep = bind("filter", "none" if loss_keeps else "overlong")(finished)
    actual = advantages([[1, 1, 0, 1]], "local", keep.tolist(), **Z_SCORE)
    assert actual[0, 2].item() == pytest.approx(expected, abs=PRINTED["atol"])
    assert keep[0, 2].item() == loss_keeps


@pytest.mark.holds("E24")
@pytest.mark.parametrize(("edge", "advantage"), [(-0.223, -1.0), (0.247, 1.0)], ids=["lower", "upper"])
def test_1b_24_in_log_space_the_bounds_of_clip_higher_are_nearly_equal(edge, advantage):
    """ln 0.8 = −0.223 and ln 1.28 = +0.247; symmetric ones (ln 1.2 = +0.182) are looser below."""
    inner, outer = (token_slope("ppo", edge + step, 0.0, advantage, **HIGHER) for step in (-0.001, 0.001))
    inside, outside = (inner, outer) if edge > 0 else (outer, inner)
    assert inside != 0.0 and outside == 0.0


@pytest.mark.holds("E25")
def test_1b_25_a_plain_mean_over_padding_is_a_third_aggregation():
    mask = torch.arange(1000) < torch.tensor([100, 1000]).view(1, 2, 1)
    losses = torch.full(mask.shape, 0.1, dtype=torch.float64).where(mask, 0.0)
    assert losses.mean().item() == pytest.approx(0.055, **approx(CLOSE))
    assert bind("agg", "bnpo")(losses, mask).item() == pytest.approx(0.1, **approx(CLOSE))
    assert bind("agg", "sequence")(losses, mask).item() == pytest.approx(0.1, **approx(CLOSE))


@pytest.mark.holds("E28")
def test_1b_28_variance_reduced_from_28_to_1_33_the_printed_5_3_to_1_15_are_deviations():
    rewards = tensor([[11, 9], [0, 2]])
    centered = advantages([[11, 9], [0, 2]], "center")
    mask = torch.ones_like(rewards, dtype=torch.bool)
    for numbers, deviation, variance in [(rewards, 5.322906, 28.333), (centered, 1.154701, 1.3333)]:
        actual = masked_std(numbers, mask, (-1, -2), 1).item()
        assert actual == pytest.approx(deviation, abs=PRINTED["atol"])
        assert actual**2 == pytest.approx(variance, abs=PRINTED["atol"])


@pytest.mark.holds("E30")
def test_1b_30_leaving_out_the_deviation_is_about_difficulty():
    """The largest advantage of a hard prompt beside that of a medium one, both centered and divided."""
    hard, medium = [1, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0]
    boost = {
        name: advantages([hard, medium], name, **hyperparameters).square().mean(-1)
        for name, hyperparameters in DIFFICULTY.items()
    }
    torch.testing.assert_close(boost["local"][0], boost["local"][1], **CLOSE)
    torch.testing.assert_close(boost["center"], tensor([7 / 64, 16 / 64]), **CLOSE)


DIFFICULTY = {"local": dict(eps=1e-12, ddof=0), "center": {}}


@pytest.mark.parametrize(
    ("name", "hyperparameters", "biased"),
    [("sequence", {}, True), ("bnpo", {}, False), ("dr_grpo", {"length": 8}, False)],
)
def test_1b_30_length_bias_comes_from_dividing_by_the_own_length(name, hyperparameters, biased):
    """Weight of one token of a short completion beside one of a long completion."""
    mask = torch.arange(8) < torch.tensor([2, 8]).view(1, 2, 1)
    weights = slopes(bind("agg", name, **hyperparameters), torch.ones(mask.shape, dtype=torch.float64), mask)
    assert (weights[0, 0, 0] / weights[0, 1, 0]).item() == pytest.approx(4.0 if biased else 1.0, **approx(CLOSE))


@pytest.mark.holds("E33")
def test_1b_33_the_reward_of_the_lecture_pays_for_duplicates():
    """[1, 2, 2] for [1, 1, 2] is wrong and scores the maximum of 5; counting multisets does not pay for it."""
    prompt, answer = torch.tensor([1, 1, 2]), torch.tensor([1, 2, 2])
    assert included(prompt, answer) + in_order(answer) == 5
    assert included_counted(prompt, answer, 5) + in_order(answer) == 4


def test_1b_33_the_reward_of_the_lecture_pays_for_repeating_a_wrong_symbol():
    assert included(torch.tensor([3, 2, 4]), torch.zeros(3)) + in_order(torch.zeros(3)) == 2
