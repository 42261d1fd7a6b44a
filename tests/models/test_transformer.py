"""The fused transformer against the plain one, and the plain one against torch's own attention."""

from __future__ import annotations

import pytest
import reference_models
import torch
import torch.nn.functional as F
from policies import completions_of, example, policy_of, preference_task, prompts_of, shaken, sort_task
from torch.testing import assert_close

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rollout import Rollout, sample
from rlexp.models.policy import Policy

SEEDS, PROMPTS, GROUP = (3, 4), 4, 3
# Two float64 networks of two layers, widths up to eleven, that add up the same products in another order. Logits and
# log-probabilities are of order ten, gradients of order a hundred: 1e-10 is some thousand units in the last place.
EVERYTHING = {"entropies": True, "distributions": True}
SAME = dict(rtol=1e-10, atol=1e-10)
TEMPERATURE = torch.tensor([0.7, 1.3], dtype=torch.float64)
TASKS = {
    "ragged": sort_task(),  # prompts of 1 to 4 items, padded on the left
    "short prompts": sort_task(longest=1, cap=3),
    "long prompts": sort_task(longest=9, cap=11),
    "fixed": preference_task(),  # no pad and no end
    "one token": preference_task(cap=1),
}
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def twins(task) -> tuple[Policy, Policy]:
    """Return the fused and the plain transformer with the same float64 parameters, none of them as it was drawn."""
    fused = shaken(policy_of("transformer", SEEDS, task))
    plain = policy_of("transformer_plain", SEEDS, task).double()
    plain.load_state_dict(fused.state_dict())
    return fused, plain


def gradients(policy: Policy, values: torch.Tensor) -> dict[str, torch.Tensor]:
    """Gradients of a weighted sum of ``values``; 0 where a parameter has no part in it."""
    weights = torch.randn(values.shape, generator=torch.Generator().manual_seed(2), dtype=values.dtype)
    names, parameters = zip(*policy.named_parameters(), strict=True)
    slopes = torch.autograd.grad((values * weights).sum(), parameters, allow_unused=True, retain_graph=True)
    zeros = [torch.zeros_like(p) if s is None else s for s, p in zip(slopes, parameters, strict=True)]
    return dict(zip(names, zeros, strict=True))


@pytest.mark.holds("S1.18")
@every_task
def test_the_plain_transformer_equals_torchs_attention_over_each_sequence(task):
    policy, prompts, completions = example("transformer_plain", task)

    def of_one(r, *sequence):
        return reference_models.transformer(policy, r, task.pad, *sequence)

    actual, expected = policy.logits(prompts, completions), reference_models.logits(of_one, prompts, completions)
    assert_close(actual, expected, **SAME)
    assert_close(gradients(policy, actual), gradients(policy, expected), **SAME)


def test_one_seed_gives_both_the_same_initial_weights():
    task = TASKS["ragged"]
    fused, plain = (policy_of(name, SEEDS, task).state_dict() for name in ("transformer", "transformer_plain"))
    assert list(fused) == list(plain)
    assert all(torch.equal(fused[name], plain[name]) for name in fused)


@every_task
@pytest.mark.parametrize("padding", [0, 3])
def test_the_fused_transformer_equals_the_plain_one(task, padding):
    fused, plain = twins(task)
    prompts = F.pad(prompts_of(task, SEEDS, PROMPTS), (padding if task.pad >= 0 else 0, 0), value=task.pad)
    completions = completions_of(task, SEEDS, PROMPTS, GROUP)
    assert_close(fused.logits(prompts, completions), plain.logits(prompts, completions), **SAME)
    given = prompts, completions, TEMPERATURE
    actual, expected = (policy.log_probs(*given, **EVERYTHING) for policy in (fused, plain))
    for values, wanted in zip(actual, expected, strict=True):
        assert_close(values, wanted, **SAME)
        assert_close(gradients(fused, values), slopes := gradients(plain, wanted), **SAME)
        assert slopes["tokens.weight"].any()


@every_task
@pytest.mark.parametrize("prompts", [slice(None), slice(0, 2), slice(3, 4)], ids=["all", "first", "last"])
@pytest.mark.parametrize("cached", [True, False])
def test_both_sample_the_same_tokens_and_learn_the_same_from_them(task, prompts, cached):
    """With a forward cache the fused one has only its backward pass left; the tokens behind an end do not count."""
    fused, plain = twins(task)
    questions = prompts_of(task, SEEDS, PROMPTS)
    noise = uniforms(SEEDS, Purpose.SAMPLING, 3, (PROMPTS, GROUP, task.cap)).double()
    policy = fused.recorded(questions, GROUP) if cached else fused
    rollout = sample(policy, task, questions, noise, TEMPERATURE)
    wanted = sample(plain, task, questions, noise, TEMPERATURE)
    for name in ("prompts", "completions", "mask", "finished"):
        assert torch.equal(getattr(rollout, name), getattr(wanted, name))
    assert_close(rollout.old_log_probs, wanted.old_log_probs, **SAME)
    part = Rollout(*(tensor[:, prompts] for tensor in rollout))
    given = part.prompts, part.completions, TEMPERATURE
    actual = policy.slice_prompts(prompts).log_probs(*given, **EVERYTHING)
    expected = plain.log_probs(*given, **EVERYTHING)
    for values, target in zip(actual, expected, strict=True):
        there = part.mask.view(*part.mask.shape, *[1] * (values.dim() - part.mask.dim()))
        values, target = values.where(there, 0.0), target.where(there, 0.0)
        assert_close(values, target, **SAME)
        assert_close(gradients(fused, values), gradients(plain, target), **SAME)


@every_task
def test_both_decode_the_same_whatever_was_written(task):
    fused, plain = twins(task)
    prompts, completions = prompts_of(task, SEEDS, PROMPTS), completions_of(task, SEEDS, PROMPTS, GROUP)
    with torch.no_grad():
        steps = [policy.prefill(prompts, GROUP) for policy in (fused, plain)]
        for t in range(task.cap - 1):
            assert_close(steps[0][0], steps[1][0], **SAME)
            steps = [p.decode(completions[..., t], s) for p, (_, s) in zip((fused, plain), steps, strict=True)]
        assert_close(steps[0][0], steps[1][0], **SAME)
