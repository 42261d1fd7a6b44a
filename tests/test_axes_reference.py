"""Every choice of every axis against the loops of ``reference.py``: value and gradient, off-policy, ragged, R = 3."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import reference
import torch
from axis_choices import AXES, bind, choices, objective

# Both sides are float64 and differ only in the order of some ten additions of numbers of order one.
VALUE = dict(rtol=1e-10, atol=1e-12)
# Central differences with STEP = 1e-6 are good to about 1e-9; a wrong sign, factor or bound is off by 1e-2 and more.
SLOPE = dict(rtol=1e-6, atol=1e-8)

R, P, G, T = 3, 4, 4, 6
KL_COEF = 0.1
# Other values of knobs of which three quarters decide the same for every token of a small batch.
VISIBLE = {
    ("clip_cov", "share"): 0.3,
    ("clip_cov", "lb"): 0.01,
    ("clip_cov", "ub"): 1.2,
    ("kl_cov", "share"): 0.3,
    ("opsm", "delta"): 0.1,
    ("dual", "c"): 1.3,
    ("sequence_mask", "low"): 0.8,
    ("sequence_mask", "high"): 1.1,
    ("sequence_truncate", "low"): 0.8,
    ("sequence_truncate", "high"): 1.1,
    ("token_mask", "low"): 0.8,
    ("token_mask", "high"): 1.1,
    ("token_truncate", "low"): 0.8,
    ("token_truncate", "high"): 1.1,
    ("two_sided", "delta"): 1.3,
    ("cispo", "lower"): 0.9,
    ("cispo", "upper"): 1.1,
    ("dppo_tv", "upper"): 1.1,
    ("dppo_kl", "upper"): 1.1,
    ("dppo_kl", "low"): 0.01,
    ("dppo_kl", "high"): 0.01,
}
AFTER_THE_STEP = {("ema", "decay")}  # knobs that only what is remembered for the next step depends on
LONGEST = 20  # longer than the cap that the tests put in for ${task.cap}


def ragged_mask(rng) -> np.ndarray:
    """Each completion counts up to a length of 1 to T tokens; one of every replica does not count at all."""
    mask = np.arange(T) < rng.integers(1, T + 1, size=(R, P, G, 1))
    mask[:, 2, 3] = False
    return mask


def hard_cases_of_keep(rng) -> np.ndarray:
    """Group 1 keeps one completion, group 3 all, the others some; group 2 of the last replica keeps none."""
    keep = rng.random((R, P, G)) < 0.8
    keep[:, 1] = np.arange(G) == 2
    keep[:, 3] = True
    keep[-1, 2] = False
    return keep


def components(rng, rewards) -> np.ndarray:
    """Two components; the second does not apply to some completions, and to none of group 3."""
    second = np.where(rng.random(rewards.shape) < 0.3, np.nan, rng.normal(size=rewards.shape))
    second[:, 3] = np.nan
    return np.stack([rewards, second], -1)


@pytest.fixture
def batch() -> dict[str, np.ndarray]:
    """Random float64 numbers; group 0 has equal rewards, log-ratios have a standard deviation of 0.4.

    Group 1 has a mean between two values of a knob of ``difficulty``, group 3 of the last replica has no reward. One
    reward of group 2 is near the middle of 0 and 1; it and one of group 0 have bad luck.
    """
    rng = np.random.default_rng(17)
    rewards = rng.normal(size=(R, P, G))
    rewards[:, 0] = 0.7
    rewards[:, 2, 0] = 0.45
    rewards[:, 1] += 0.09 - rewards[:, 1].mean(-1, keepdims=True)
    scored = np.ones(rewards.shape, dtype=bool)
    scored[:, 2, 1], scored[-1, 3] = False, False
    luck = rng.permuted((np.arange(rewards.size).reshape(rewards.shape) + 0.5) / rewards.size)
    luck[:, 0, 1], luck[:, 2, 0] = 0.09, 0.01
    log_probs = -rng.exponential(size=(R, P, G, T)) - 0.05
    old_log_probs = np.minimum(log_probs + 0.4 * rng.normal(size=log_probs.shape), -0.01)
    ref_log_probs = log_probs + 0.4 * rng.normal(size=log_probs.shape)
    ref_log_probs[:, 0, 0, 0] += 3  # one token that π has all but given up, beyond the clamps of a KL
    lengths = rng.integers(1, LONGEST + 1, size=(R, P, G)).astype(float)
    return {
        "rewards": rewards,
        "keep": hard_cases_of_keep(rng),
        "lengths": lengths,
        "finished": rng.random((R, P, G)) < 0.6,
        "mask": ragged_mask(rng),
        "log_probs": log_probs,
        "old_log_probs": old_log_probs,
        "ref_log_probs": ref_log_probs,
        "advantages": rng.normal(size=log_probs.shape),
        "losses": rng.normal(size=log_probs.shape),
        "slants": rng.normal(size=log_probs.shape),
        "outcomes": rewards + 0.1,
        "adjustments": np.where(rewards < 0, 0.0, -0.3 * rewards),
        "token_penalties": rng.normal(size=log_probs.shape),
        "greedy_rewards": rng.normal(size=(R, P, 1)),
        "correct": (rng.random((R, P, G)) < 0.4).astype(float),
        "components": components(rng, rewards),
        "weights": rng.random((R, 2)),
        "sum_pi_squared": np.exp(old_log_probs) ** 2 + 0.1 * rng.random(log_probs.shape),
        "reward_average": rng.normal(size=R),
        "reward_moments": np.array([[5, 0.3, 4.1, -2.0, 1.5], [0, 0, 0, np.inf, -np.inf], [40, -0.2, 9.0, -0.9, 1.1]]),
        "mean_tokens": rng.uniform(5, 20, size=R),
        "progress": rng.uniform(0.2, 0.8, size=R),
        "uniforms": rng.random(log_probs.shape),
        "sampler_log_probs": np.minimum(log_probs + 0.4 * rng.normal(size=log_probs.shape), -0.01),
        "errors": rng.normal(size=log_probs.shape),
        "scored": scored,
        "drawn": luck,
        "hashed": luck,
        "entropies": rng.exponential(size=log_probs.shape).round(2),  # some of them equal
    }


def reference_of(choice):
    """Return the loops for a choice, bound to its knobs."""
    known = reference.REFERENCES[choice.axis]
    assert choice.name in known, f"{choice}: write {choice.axis}_{choice.name} in tests/reference.py from its source"
    return lambda *arrays: known[choice.name](*arrays, **choice.knobs)


def advantages_of(norm, one) -> np.ndarray:
    """What the loops make of one replica's rewards without shaping and without KL in the reward, ``[P G T]``."""
    whole = {"outcomes": one["rewards"], "adjustments": 0 * one["rewards"], "token_penalties": 0 * one["log_probs"]}
    one = one | whole | {"lengths": one["mask"].sum(-1)}
    values = reference_of(norm)(*(one[key] for key in norm.needs))
    return np.where(one["keep"][..., None], values if values.ndim == 3 else values[..., None], 0.0) * np.ones(T)


def replica(batch, index: int) -> dict[str, np.ndarray]:
    return {key: array[index] for key, array in batch.items()}


def replicas(batch) -> list[dict[str, np.ndarray]]:
    return [replica(batch, r) for r in range(R)]


def tensors(batch) -> dict[str, torch.Tensor]:
    return {key: torch.from_numpy(array) for key, array in batch.items()}


def expected(choice, batch) -> np.ndarray:
    """Values of the loops, one replica after another."""
    function = reference_of(choice)
    return np.stack([function(*(replica(batch, r)[key] for key in choice.needs)) for r in range(R)])


def expected_gradient(choice, batch) -> np.ndarray:
    """Slope of Σ weight · output in the axis' first input; by hand where the function stops gradients."""
    if by_hand := reference.GRADIENTS.get(choice.axis, {}).get(choice.name):
        slopes = [by_hand(*(one[key] for key in choice.needs), **choice.knobs) for one in replicas(batch)]
        return np.stack(slopes) * batch["slants"]
    function, (moving, *fixed) = reference_of(choice), choice.needs

    def slope(one):
        def total(point):
            output = function(point, *(one[key] for key in fixed))
            return float(np.sum(output * (one["slants"] if np.ndim(output) else 1)))

        return reference.gradient(total, one[moving])

    return np.stack([slope(one) for one in replicas(batch)])


def actual_gradient(choice, batch) -> np.ndarray:
    inputs = tensors(batch)
    moving = inputs[choice.needs[0]].requires_grad_()
    output = choice(*(inputs[key] for key in choice.needs))
    total = (output * inputs["slants"]).sum() if output.ndim == moving.ndim else output.sum()
    (slopes,) = torch.autograd.grad(total + 0 * moving.sum(), moving)  # so that a constant has a gradient, of zero
    return slopes.numpy()


@pytest.mark.parametrize("axis", AXES)
def test_every_function_is_named_by_a_yaml(axis):
    assert set(AXES[axis]) == {choice.name for choice in choices(axis)}


def used(choice, batch, output) -> np.ndarray:
    """What training uses of an output: of advantages those in the statistics, and of tokens those that count."""
    if choice.axis != "norm":
        return output
    return (
        np.where(batch["keep"], output, 0) if output.ndim == 3 else output * (batch["keep"][..., None] & batch["mask"])
    )


def test_value_equals_the_reference(any_choice, batch):
    inputs = tensors(batch)
    output = any_choice(*(inputs[key] for key in any_choice.needs)).numpy()
    np.testing.assert_allclose(
        used(any_choice, batch, output), used(any_choice, batch, expected(any_choice, batch)), **VALUE
    )


def test_every_knob_is_obeyed(any_choice, batch):
    """One knob after another at another value, so that a number written into the code does not pass."""
    inputs = [tensors(batch)[key] for key in any_choice.needs]
    before = used(any_choice, batch, any_choice(*inputs).numpy())
    for knob, value in any_choice.knobs.items():
        if (any_choice.name, knob) in AFTER_THE_STEP:
            continue
        retuned = any_choice.changed(**{knob: VISIBLE.get((any_choice.name, knob)) or another(value)})
        now = used(retuned, batch, retuned(*inputs).numpy())
        np.testing.assert_allclose(now, used(retuned, batch, expected(retuned, batch)), **VALUE)
        assert not np.array_equal(now, before), f"{knob} changes nothing on this batch"


def another(value):
    """Return another value of a knob: a neighbour of a count, half of a number, a half for none."""
    if isinstance(value, int):
        return value - 1 if value > 1 else 1 - value
    return 0.5 * value or 0.5


def test_gradient_of_a_clip_equals_the_reference(clip_choice, batch):
    np.testing.assert_allclose(actual_gradient(clip_choice, batch), expected_gradient(clip_choice, batch), **SLOPE)


def test_gradient_of_an_agg_equals_the_reference(agg_choice, batch):
    np.testing.assert_allclose(actual_gradient(agg_choice, batch), expected_gradient(agg_choice, batch), **SLOPE)


def test_gradient_of_a_mismatch_equals_the_reference(mismatch_choice, batch):
    actual, wanted = actual_gradient(mismatch_choice, batch), expected_gradient(mismatch_choice, batch)
    np.testing.assert_allclose(actual, wanted, **SLOPE)


def test_gradient_of_a_kl_equals_the_reference(kl_choice, batch):
    np.testing.assert_allclose(actual_gradient(kl_choice, batch), expected_gradient(kl_choice, batch), **SLOPE)


def test_the_batch_reaches_both_sides_of_a_clip(batch):
    """Otherwise the comparisons above would prove nothing about the bounds."""
    ratio, positive = np.exp(batch["log_probs"] - batch["old_log_probs"]), batch["advantages"] > 0
    cases = [positive & (ratio > 1.3), positive & (ratio < 0.7), ~positive & (ratio > 1.3), ~positive & (ratio < 0.7)]
    assert all((case & batch["mask"]).any(axis=(1, 2, 3)).all() for case in cases)


def test_advantages_are_finite_and_carry_no_gradient(norm_choice, batch):
    inputs = tensors(batch)
    advantages = norm_choice(*(inputs[key] for key in norm_choice.needs))
    assert advantages.dtype == torch.float64 and advantages.isfinite().all() and not advantages.requires_grad


DEFAULT = {"norm": bind("norm", "local", eps=1e-6, ddof=1), "clip": bind("clip", "ppo", low=0.2, high=0.2)}
DEFAULT |= {"agg": bind("agg", "token"), "kl": bind("kl", "k3"), "mismatch": bind("mismatch", "none")}
COMPOSED = [choice for axis in ("norm", "clip", "agg", "mismatch") for choice in choices(axis)]


@pytest.mark.parametrize("choice", COMPOSED, ids=str)
def test_objective_equals_the_composed_reference(choice, batch):
    """Rewards to loss and its slope in the log-probs: norm, clip, weights of mismatch, k3 in the loss, agg."""
    chosen = DEFAULT | {choice.axis: choice}
    norm, clip, mismatch, agg, kl = (chosen[axis] for axis in ("norm", "clip", "mismatch", "agg", "kl"))
    inputs = tensors(batch)
    log_probs = inputs["log_probs"].requires_grad_()
    loss = objective(chosen, KL_COEF, inputs)
    (slopes,) = torch.autograd.grad(loss.sum(), log_probs)

    def composed(one, advantages, point):
        at = one | {"log_probs": point, "advantages": advantages}
        at["losses"] = reference_of(clip)(*(at[key] for key in clip.needs))
        corrected = reference_of(mismatch)(*(at[key] for key in mismatch.needs))
        at["losses"] = corrected + KL_COEF * reference_of(kl)(point, one["ref_log_probs"])
        return reference_of(agg)(*(at[key] for key in agg.needs))

    for r in range(R):
        one = replica(batch, r)
        advantages = advantages_of(norm, one)
        at = functools.partial(composed, one, advantages)
        np.testing.assert_allclose(loss[r].item(), at(one["log_probs"]), **VALUE)
    # the slopes of one replica are enough here: that replicas do not mix is a law
    if choice.name not in reference.GRADIENTS.get(choice.axis, {}):
        np.testing.assert_allclose(slopes[-1].numpy(), reference.gradient(at, one["log_probs"]), **SLOPE)
