"""Numbers that the source documents print, each with its item number in the inventory of those documents.

S0 four pillars, S1 GRPO-TCR notebook, S2 CS336 lecture 17, S3 TRL notes; PEERS are numbers measured on frameworks,
CLAIMS the exact tables of the claims list. What the documents get wrong is in ``test_published_errors.py``.
"""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import bind
from published import advantages, close, tensor

from rlexp.tasks import total_reward
from rlexp.tasks.sort import SortLecture, in_order, included, right_places

# ---- clip and kl


@pytest.mark.holds("S0.9")
@pytest.mark.parametrize(("high", "expected"), [(0.2, -1.20), (0.28, -1.28)])
def test_s0_9_clip_higher_example(high, expected):
    """Probability 2 % to 10 %: a ratio of 4.95 counts as 1.20 or 1.28."""
    new, old, one = tensor([[[-2.3]]]), tensor([[[-3.9]]]), tensor([[[1.0]]])
    mask = torch.ones(1, 1, 1, dtype=torch.bool)
    close(bind("clip", "unclipped")(new, old, one, mask).item(), -4.95303, 5)
    close(bind("clip", "ppo", low=0.2, high=high)(new, old, one, mask).item(), expected, 6)


@pytest.mark.holds("S1.16")
def test_s1_16_objective_of_the_notebook():
    """Mean of the clipped surrogate − 0.01 · mean log-ratio; its numbers are drawn in float32 with seed 42."""
    random = torch.Generator().manual_seed(42)
    new, reference = (torch.randn(1, 4, 10, generator=random) * 0.1 - 2 for _ in range(2))
    per_token = torch.tensor([0.9, -1.5, 0.9, -0.3]).view(1, 4, 1).expand_as(new)
    mask = torch.ones_like(new, dtype=torch.bool)
    losses = bind("clip", "ppo", low=0.2, high=0.28)(new, reference, per_token, mask)
    loss = bind("agg", "bnpo")(losses + 0.01 * bind("kl", "k1")(new, reference), mask)
    close(-loss.item(), 0.020936, 6)


@pytest.mark.holds("S2.11")
@pytest.mark.parametrize(("detached", "expected"), [(True, 0.119203), (False, 0.0)])
def test_s2_11_the_old_policy_must_be_frozen(detached, expected):
    """Differentiating through both sides of the ratio gives nothing; p = sigmoid(2)."""
    weight_ = tensor([[[2.0]]]).requires_grad_()
    log_probs = torch.nn.functional.logsigmoid(weight_)
    old_log_probs = log_probs.detach() if detached else log_probs
    mask = torch.ones(1, 1, 1, dtype=torch.bool)
    ratio = -bind("clip", "unclipped")(log_probs, old_log_probs, torch.ones_like(log_probs), mask)
    (slope,) = torch.autograd.grad(ratio.sum(), weight_)
    close(slope.item(), expected, 6)


# ---- agg


def ragged(losses, lengths):
    """One prompt; each completion has the same loss at each of its tokens."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).view(1, -1, 1)
    return tensor(losses).view(1, -1, 1).expand(mask.shape).clone(), mask


@pytest.mark.holds("S0.12")
@pytest.mark.parametrize(("name", "shares"), [("sequence", [0.5, 0.5]), ("bnpo", [0.091, 0.909])])
def test_s0_12_weight_of_a_short_and_a_long_completion(name, shares):
    losses, mask = ragged([0.1, 0.1], [100, 1000])
    losses.requires_grad_()
    loss = bind("agg", name)(losses, mask)
    (slopes,) = torch.autograd.grad(loss, losses)
    close(loss.item(), 0.1000, 4)
    close(slopes.sum(-1).view(-1), shares, 3)


@pytest.mark.holds("S3.12")
def test_s3_12_mean_of_three_losses():
    close(bind("agg", "sequence")(*ragged([-0.3, 0.2, 0.0], [1, 1, 1])).item(), -0.033, 3)


@pytest.mark.parametrize(
    ("name", "hyperparameters", "biased", "unbiased"),
    [
        ("sequence", {}, -0.01031, -0.00842),
        ("bnpo", {}, -0.09261, -0.07560),
        ("dr_grpo", {"length": 6}, -0.07717, -0.06300),
    ],
)
def test_s3_14_three_aggregations_of_three_completions(name, hyperparameters, biased, unbiased):
    """Lengths 5, 4, 6; the losses per completion are printed with four decimals, so the results have four."""
    for losses, expected in [([-1.2654, 1.2344, 0.0], biased), ([-1.0330, 1.0077, 0.0], unbiased)]:
        close(bind("agg", name, **hyperparameters)(*ragged(losses, [5, 4, 6])).item(), round(expected, 4), 4)


# ---- shaping and filter


def shaped(rewards, lengths, name="overlong", **hyperparameters):
    return bind("shaping", name, **hyperparameters)(tensor(rewards).view(1, -1), tensor(lengths).view(1, -1)).view(-1)


@pytest.mark.holds("S1.6", "S1.14")
def test_s1_14_zones_of_the_overlong_penalty():
    """S1.6: nothing up to L_max − L_cache, −1 from L_max on, a line between them."""
    lengths = [500, 700, 800, 850, 900, 950, 1000, 1100]
    expected = [0, 0, 0, -0.25, -0.5, -0.75, -1, -1]
    close(shaped([0.0] * 8, lengths, cap=1000, cache=200, factor=1.0), expected, 12)


@pytest.mark.holds("S1.24")
def test_s1_24_the_quadratic_penalty_is_milder_at_first():
    actual = shaped([0.0] * 4, [850, 900, 950, 1000], "overlong_quadratic", cap=1000, cache=200, factor=1.0)
    close(actual, [-0.0625, -0.25, -0.5625, -1], 12)


@pytest.mark.holds("S3.3")
def test_s3_3_overlong_penalty_with_the_defaults_of_trl():
    actual = shaped([0.0] * 5, [1024, 1025, 1152, 1280, 1281], cap=1280, cache=256, factor=1.0)
    close(actual, [0, -0.0039, -0.5, -1, -1], 4)


@pytest.mark.holds("S1.17")
def test_s1_17_penalties_rewards_and_advantages_of_eight_completions():
    lengths, verdicts = [500, 800, 900, 1100, 600, 750, 950, 400], [1, -1, 1, 0, 1, -1, 0, 1]
    hyperparameters = dict(cap=1000, cache=200, factor=1.0)
    penalties, rewards = shaped([0.0] * 8, lengths, **hyperparameters), shaped(verdicts, lengths, **hyperparameters)
    close(penalties, [0, 0, -0.5, -1, 0, 0, -0.75, 0], 12)
    close(penalties.mean(), -0.28125, 5)
    close(rewards, [1, -1, 0.5, -1, 1, -1, -0.75, 1], 12)
    expected = [1.0459, -0.9826, 0.5388, -0.9826, 1.0459, -0.9826, -0.7290, 1.0459]
    close(advantages(rewards.tolist(), "local", eps=1e-8, ddof=1), expected, 4)


@pytest.mark.holds("S0.13")
def test_s0_15_overlong_filter():
    """The third completion is as long as the fourth; only it was cut off."""
    finished = torch.tensor([[True, True, False, True, True]])
    assert bind("filter", "overlong")(finished).tolist() == finished.tolist()


# ---- rewards of tasks


@pytest.mark.holds("S2.6", "S2.7")
@pytest.mark.parametrize(
    ("answer", "distance", "inclusion_ordering"), [([0, 1, 2, 3], 4, 7), ([7, 2, 2, 5], 1, 3), ([0, 3, 1, 2], 1, 6)]
)
def test_s2_6_and_s2_7_sorting_rewards(answer, distance, inclusion_ordering):
    prompt, given = torch.tensor([3, 1, 0, 2]), torch.tensor(answer)
    assert right_places(given, prompt.sort().values) == distance
    assert included(prompt, given) + in_order(given) == inclusion_ordering


def lecture_points(answers) -> list[list[float]]:
    """Points of answers ``[P G 3]`` to the three prompts of the lecture."""
    task = SortLecture(cap=3, weights=dict.fromkeys(SortLecture.components, 1.0), metric="eval/reward", floor=0.0)
    completions, prompts = torch.tensor([answers]), torch.tensor([SortLecture.lecture_prompts[: len(answers)]])
    mask = torch.ones_like(completions, dtype=torch.bool)
    return task.score(prompts, completions, mask, mask.all(-1)).components["inclusion_ordering"][0].tolist()


def test_s2_10_rewards_of_the_walk_through():
    assert lecture_points([[[1, 1, 1], [1, 2, 1], [1, 2, 1], [1, 1, 2], [1, 2, 1]]]) == [[3, 3, 3, 4, 3]]


@pytest.mark.parametrize(
    ("answers", "points", "mean"),
    [([[2, 2, 4], [3, 0, 1], [2, 4, 1]], [3, 2, 3], 2.667), ([[2, 0, 1], [0, 0, 1], [2, 3, 1]], [4, 2, 4], 3.333)],
    ids=["rewards", "centered"],
)
def test_s2_13_rewards_of_the_end_states(answers, points, mean):
    actual = lecture_points([[answer] for answer in answers])
    assert actual == [[point] for point in points]
    close(tensor(actual).mean(), mean, 3)


@pytest.mark.holds("S3.4")
def test_s3_4_weighted_rewards_skip_what_does_not_apply():
    components = {"accuracy": tensor([[1, 1, 0, math.nan]]), "format": tensor([[0.8, 0.7, -0.2, 0.8]])}
    close(total_reward(components, {"accuracy": 0.7, "format": 0.3})[0], [0.94, 0.91, -0.06, 0.24], 12)
