"""Every choice of every axis against the loops of ``references/``: value and gradient, off-policy, ragged, R = 3."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import reference
import reference_norm_token
import torch
from axis_choices import AXES, bind, choices, file_of
from objectives import objective
from reference_batch import R, T, batch  # noqa: F401 (batch is a fixture)
from visible_knobs import UNSEEN, VISIBLE

from rlexp import axes
from rlexp.core.registry import knobs

# Both sides are float64 and differ only in the order of some ten additions of numbers of order one.
VALUE = dict(rtol=1e-10, atol=1e-12)
# Central differences with STEP = 1e-6 are good to about 1e-9; a wrong sign, factor or bound is off by 1e-2 and more.
SLOPE = dict(rtol=1e-6, atol=1e-8)

KL_COEF = 0.1


def reference_of(choice):
    """Return the loops for a choice, bound to its knobs."""
    known = reference.REFERENCES[choice.axis]
    place = f"tests/references/{next(iter(known.values())).__module__}.py"
    assert choice.name in known, (
        f"{choice}: write {choice.axis}_{choice.name} in {place} from its source, with loops, and enter it in the "
        f"table there as {choice.name}"
    )
    return lambda *arrays: known[choice.name](*arrays, **choice.knobs)


def advantages_of(norm, one) -> np.ndarray:
    """What the loops make of one replica's rewards without shaping and without KL in the reward, ``[P G T]``."""
    whole = {"outcomes": one["rewards"], "adjustments": 0 * one["rewards"], "token_penalties": 0 * one["log_probs"]}
    one = one | whole | {"lengths": one["mask"].sum(-1), "token_rewards": reference_norm_token.due(one)}
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
    for name in set(AXES[axis]) - {choice.name for choice in choices(axis)}:
        knobs_of = "".join(f", and `{knob}`" for knob in knobs(AXES[axis][name]))
        pytest.fail(f"{axis}: no YAML chooses `{name}`; write conf/{axis}/{name}.yaml with `name: {name}`{knobs_of}")


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
    wanted = used(any_choice, batch, expected(any_choice, batch))
    np.testing.assert_allclose(used(any_choice, batch, output), wanted, **VALUE, err_msg=disagreement(any_choice))


def disagreement(choice) -> str:
    """Say where the two are that should be one formula."""
    loops = reference.REFERENCES[choice.axis][choice.name]
    code = f"`{choice.func.__name__}` in {file_of(choice.func)} and `{loops.__name__}` in {file_of(loops)}"
    return f"{choice}: {code} are not the same formula: one of them is not what its source says"


def test_every_knob_is_obeyed(any_choice, batch):
    """One knob after another at another value, so that a number written into the code does not pass."""
    inputs = [tensors(batch)[key] for key in any_choice.needs]
    before = used(any_choice, batch, any_choice(*inputs).numpy())
    for knob, value in any_choice.knobs.items():
        if knob in knobs_of_update(any_choice) or (any_choice.name, knob) in UNSEEN:
            continue
        retuned = any_choice.changed(**{knob: VISIBLE.get((any_choice.name, knob)) or another(value)})
        now = used(retuned, batch, retuned(*inputs).numpy())
        wanted = used(retuned, batch, expected(retuned, batch))
        np.testing.assert_allclose(now, wanted, **VALUE, err_msg=disagreement(retuned))
        assert not np.array_equal(now, before), (
            f"{any_choice}: the knob {knob} of `{any_choice.func.__name__}` in {file_of(any_choice.func)} changes "
            "nothing on this batch: use it, or give it in VISIBLE of this file a value that shows"
        )


def knobs_of_update(choice) -> set[str]:
    """Return the knobs that only what is remembered for the next step depends on."""
    memory = getattr(axes.AXES[choice.axis], "MEMORIES", {}).get(choice.name)
    return {*knobs(memory.update), *knobs(memory.start)} if memory else set()


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
    chosen, batch = DEFAULT | {choice.axis: choice}, batch | {"log_ratio_bound": np.full(R, 1.0)}
    norm, clip, mismatch, agg, kl = (chosen[axis] for axis in ("norm", "clip", "mismatch", "agg", "kl"))
    inputs = tensors(batch)
    log_probs = inputs["log_probs"].requires_grad_()
    loss = objective(chosen, KL_COEF, inputs)
    (slopes,) = torch.autograd.grad(loss.sum(), log_probs)

    def composed(one, advantages, point):
        at = one | {"log_probs": point, "advantages": advantages}
        at["losses"] = reference_of(clip)(*(at[key] for key in clip.needs))
        corrected = reference_of(mismatch)(*(at[key] for key in mismatch.needs))
        at["losses"] = corrected + KL_COEF * reference_of(kl)(*(at[key] for key in kl.needs))
        return reference_of(agg)(*(at[key] for key in agg.needs))

    for r in range(R):
        one = replica(batch, r)
        advantages = advantages_of(norm, one)
        at = functools.partial(composed, one, advantages)
        np.testing.assert_allclose(loss[r].item(), at(one["log_probs"]), **VALUE)
    # the slopes of one replica are enough here: that replicas do not mix is a law
    if choice.name not in reference.GRADIENTS.get(choice.axis, {}):
        np.testing.assert_allclose(slopes[-1].numpy(), reference.gradient(at, one["log_probs"]), **SLOPE)
