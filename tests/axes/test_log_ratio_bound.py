"""Log-ratios up to 1000 in float32: every loss, penalty, correction and aggregation is finite and as its loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference
import torch
from axis_choices import bind, choices, same_bits
from objectives import objective
from reference_batch import batch  # noqa: F401 (a fixture)

from rlexp.axes.ratio import bounded

BOUND = 20.0
INSIDE = (0.0, 15.0, BOUND)
LEVELS = (*INSIDE, 25.0, 100.0, 1000.0)
BOTH = (1.0, -1.0)
# Signs of the log-ratios of three completions; the second has two tokens, in the third a token has not moved.
SIGNS = torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, 0.0], [1.0, 0.0, -1.0]])
MASK = torch.tensor([[True, True, True], [True, True, False], [True, True, True]])
ADVANTAGES = torch.tensor([[1.0, 1.25, 0.75], [-0.5, -0.625, 1.5], [0.375, -1.125, -0.875]])
NEAREST = -0.5 - torch.arange(9).view(3, 3) / 16  # log-probabilities, no two alike
# A log-ratio of 20 is good to 1e-6 in float32, its exponential to as much of itself; some ten operations more.
CLOSE = dict(rtol=2e-5, atol=2e-6)
OF_SUMS = ("sequence_truncate", "sequence_mask", "ctpo", "flowrl")  # what they bound is a sum over tokens
STEPS = {"clip": 1e-6, "kl": 1e-6, "mismatch": 1.0, "agg": 1.0}  # the last two are linear


def edge_of(axis: str, levels=LEVELS, bound=BOUND) -> dict[str, torch.Tensor]:
    """Inputs ``[R 1 3 3]`` in float32: a replica for each level and sign of the advantages.

    Every log-probability is a short binary fraction, so that log-ratios are exact. A correction is of the policy that
    sampled, not of the one that is trained.
    """
    signed = torch.stack([level * SIGNS for _ in BOTH for level in levels]).unsqueeze(1)
    advantages = torch.stack([sign * ADVANTAGES for sign in BOTH for _ in levels]).unsqueeze(1)
    near, far = NEAREST + signed.clamp(max=0), NEAREST - signed.clamp(min=0)
    runs, mask = signed.shape[0], MASK.expand(signed.shape)
    return {
        "log_probs": near,
        "old_log_probs": near if axis == "mismatch" else far,
        "ref_log_probs": far,
        "sampler_log_probs": far,
        "advantages": advantages,
        "losses": advantages * signed.clamp(max=BOUND).exp(),
        "rewards": advantages.mean(-1),
        "mask": mask,
        "keep": torch.ones(signed.shape[:-1], dtype=torch.bool),
        "mean_tokens": mask.sum((-1, -2, -3)).float(),
        "progress": torch.full((runs,), 0.5),
        "uniforms": torch.linspace(0, 0.9, 9).view(3, 3).expand(signed.shape),
        "log_ratio_bound": torch.full((runs,), bound),
    }


def results(choice, every) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output of a choice and the slopes in the first input of its sum over what counts."""
    first = every[choice.needs[0]].clone().requires_grad_()
    output = choice(first, *(every[name] for name in choice.needs[1:]))
    kept = output.where(every["mask"], 0.0) if output.dim() == first.dim() else output
    (slopes,) = torch.autograd.grad(kept.sum() + (0 * first).sum(), first)
    return kept.detach(), slopes


def loops(choice, every) -> tuple[np.ndarray, np.ndarray]:
    """Return the same two by the loops, in float64; the slopes by differences unless they are written down."""
    function = reference.REFERENCES[choice.axis][choice.name]
    by_hand = reference.GRADIENTS.get(choice.axis, {}).get(choice.name)
    arrays = {name: (each.double() if each.is_floating_point() else each).numpy() for name, each in every.items()}
    values, slopes = [], []
    for r, mask in enumerate(arrays["mask"]):
        first, *others = (arrays[name][r] for name in choice.needs)

        def kept(point, function=function, others=others, mask=mask):
            output = function(point, *others, **choice.hyperparameters)
            return np.where(mask, output, 0.0) if np.ndim(output) == 3 else output

        values.append(kept(first))
        slopes.append(kept(first, by_hand) if by_hand else differences(kept, first, STEPS[choice.axis]))
    return np.stack(values), np.stack(slopes)


def differences(function, point: np.ndarray, size: float) -> np.ndarray:
    """Central differences, of each output by itself: those that do not move cancel, however large they are."""
    slopes = np.empty(point.shape)
    for index in np.ndindex(*point.shape):
        step = np.zeros(point.shape)
        step[index] = size
        slopes[index] = np.sum((function(point + step) - function(point - step)) / (2 * size))
    return slopes


EVERY = [choice for axis in ("clip", "kl", "mismatch", "agg") for choice in choices(axis)]
BOUNDED = [choice for choice in EVERY if "log_ratio_bound" in choice.needs]


@pytest.mark.parametrize("choice", EVERY, ids=str)
def test_values_and_gradients_are_finite_and_those_of_the_loops(choice):
    """But for slopes at the bound itself, where a difference sees both of its sides."""
    every = edge_of(choice.axis)
    values, slopes = results(choice, every)
    assert values.isfinite().all() and slopes.isfinite().all()
    wanted_values, wanted_slopes = loops(choice, every)
    np.testing.assert_allclose(values.numpy(), wanted_values, **CLOSE)
    elsewhere = np.array([level != BOUND for _ in BOTH for level in LEVELS])
    np.testing.assert_allclose(slopes.numpy()[elsewhere], wanted_slopes[elsewhere], **CLOSE)


def test_up_to_the_bound_there_are_the_bits_of_no_bound():
    """The bound itself belongs to what is inside, gradient included, as for ``torch.clamp``."""
    for choice in BOUNDED:
        levels = [level / 4 for level in INSIDE] if choice.name in OF_SUMS else INSIDE
        found = [results(choice, edge_of(choice.axis, levels, bound)) for bound in (BOUND, math.inf)]
        assert all(same_bits(one, other) for one, other in zip(*found, strict=True)), choice


def test_what_is_not_finite_without_a_bound_asks_for_it():
    found = {str(each): results(each, edge_of(each.axis, bound=math.inf)) for each in EVERY}
    broken = {name for name, parts in found.items() if not all(part.isfinite().all() for part in parts)}
    assert broken <= {str(choice) for choice in BOUNDED} and len(broken) > 20


def test_beyond_the_bound_a_ratio_has_no_gradient():
    """A weighted loss, −sg(w) · A · log π, keeps that of log π."""
    every = edge_of("clip")
    values, slopes = results(bind("clip", "unclipped"), every)
    moved = (every["log_probs"] - every["old_log_probs"]).abs()
    assert not slopes[moved > BOUND].any() and slopes[(moved <= BOUND) & every["mask"]].all()
    assert values[moved > BOUND].abs().max().item() == pytest.approx(1.25 * math.exp(BOUND))
    assert results(bind("clip", "cispo", lower=0.8, upper=1.2), every)[1][every["mask"]].all()


def test_each_run_has_its_own_bound():
    log_ratio = torch.tensor([3.0, -3.0]).expand(2, 1, 1, 2)
    assert bounded(log_ratio, torch.tensor([1.0, math.inf])).tolist() == [[[[1.0, -1.0]]], [[[3.0, -3.0]]]]


DEFAULT = {"norm": bind("norm", "local", eps=1e-6, ddof=1), "clip": bind("clip", "ppo", low=0.2, high=0.2)}
DEFAULT |= {"agg": bind("agg", "token"), "kl": bind("kl", "k3")}
DEFAULT |= {"mismatch": bind("mismatch", "token_truncate", low=0.0, high=2.0)}


@pytest.mark.parametrize("axis", ["norm", "clip", "agg", "mismatch", "kl"])
def test_the_objective_of_a_step_is_finite(axis, batch):  # noqa: F811
    """With every two policies up to 1000 nats apart at some token."""
    inputs = {name: torch.from_numpy(array) for name, array in batch.items()}
    inputs = {name: each.float() if each.is_floating_point() else each for name, each in inputs.items()}
    inputs["log_ratio_bound"] = torch.full_like(inputs["log_ratio_bound"], BOUND)
    random, distances = torch.Generator().manual_seed(5), torch.tensor([0.0, 100.0, 1000.0])
    for name in ("log_probs", "old_log_probs", "ref_log_probs", "sampler_log_probs"):
        inputs[name] = inputs[name] - distances[torch.randint(3, inputs["mask"].shape, generator=random)]
    log_probs = inputs["log_probs"].requires_grad_()
    for choice in choices(axis):
        loss = objective(DEFAULT | {axis: choice}, 0.1, inputs)
        (slopes,) = torch.autograd.grad(loss.sum(), log_probs)
        assert loss.isfinite().all() and slopes.isfinite().all(), choice
