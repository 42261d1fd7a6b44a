"""The stacked Llama against plain loops and against Transformers' ``LlamaForCausalLM``; there and back in a folder."""

from __future__ import annotations

import pytest
import reference_models
import torch
import torch.nn.functional as F
from policies import completions_of, example, policy_of, preference_task, prompts_of, shaken, sort_task
from torch.testing import assert_close

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rollout import sample
from rlexp.models.llama import RMSNorm, gated, named_as_transformers, stacked_of

SEEDS, PROMPTS, GROUP = (3, 4), 4, 3
# Two float64 networks of two layers that add up the same products in another order; logits are of order ten, gradients
# of order a hundred: 1e-10 is some thousand units in the last place.
SAME = dict(rtol=1e-10, atol=1e-10)
# Float32, of a width of 18: some hundred units in the last place of logits of order one.
ROUNDING = dict(rtol=2e-5, atol=2e-5)
TASKS = {
    "ragged": sort_task(),
    "long prompts": sort_task(longest=9, cap=11),
    "fixed": preference_task(),
    "one token": preference_task(cap=1),
}
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def gradients(policy, values: torch.Tensor) -> dict[str, torch.Tensor]:
    weights = torch.randn(values.shape, generator=torch.Generator().manual_seed(2), dtype=values.dtype)
    names, parameters = zip(*policy.named_parameters(), strict=True)
    found = torch.autograd.grad((values * weights).sum(), parameters, allow_unused=True, retain_graph=True)
    return {name: 0 if each is None else each for name, each in zip(names, found, strict=True)}


@every_task
@pytest.mark.parametrize("padding", [0, 3])
def test_it_equals_plain_loops_in_value_and_gradient(task, padding):
    policy, prompts, completions = example("llama", task)
    prompts = F.pad(prompts, (padding if task.pad >= 0 else 0, 0), value=task.pad)

    def of_one(r, *sequence):
        return reference_models.llama(policy, r, task.pad, *sequence)

    actual, expected = policy.logits(prompts, completions), reference_models.logits(of_one, prompts, completions)
    assert_close(actual, expected, **SAME)
    assert_close(gradients(policy, actual), gradients(policy, expected), **SAME)


@every_task
@pytest.mark.parametrize("prompts", [slice(None), slice(1, 3)], ids=["all", "some"])
def test_what_sampling_leaves_has_the_same_values_and_gradients(task, prompts):
    """With a forward cache only the backward pass is left: as read anew, but for the tokens behind an end."""
    policy = shaken(policy_of("llama", SEEDS, task))
    questions, temperature = prompts_of(task, SEEDS, PROMPTS), torch.tensor([0.7, 1.3], dtype=torch.float64)
    noise = uniforms(SEEDS, Purpose.SAMPLING, 3, (PROMPTS, GROUP, task.cap)).double()
    recorded = policy.recorded(questions, GROUP)
    rollout = sample(recorded, task, questions, noise, temperature)
    assert torch.equal(rollout.completions, sample(policy, task, questions, noise, temperature).completions)
    given = rollout.prompts[:, prompts], rollout.completions[:, prompts], temperature
    mask = rollout.mask[:, prompts]
    asked = {"entropies": True, "distributions": True}
    actual, expected = (each.log_probs(*given, **asked) for each in (recorded.slice_prompts(prompts), policy))
    assert_close(actual.log_probs.where(mask, 0.0), rollout.old_log_probs[:, prompts])
    for values, wanted in zip(actual, expected, strict=True):
        there = mask.view(*mask.shape, *[1] * (values.dim() - mask.dim()))
        values, wanted = values.where(there, 0.0), wanted.where(there, 0.0)
        assert_close(values, wanted, **SAME)
        assert_close(gradients(policy, values), gradients(policy, wanted), **SAME)


def test_norm_and_gate_are_torchs_own_in_value_and_gradient():
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(RMSNorm.apply, x)
    assert_close(RMSNorm.apply(x), F.rms_norm(x, (6,), eps=1e-6))
    gate, linear = x.detach().chunk(2, -1)
    assert_close(gated(x.detach()), F.silu(gate) * linear)


def transformers_twin(policy, replica: int):
    transformers = pytest.importorskip("transformers")
    return transformers.AutoModelForCausalLM.from_config(
        transformers.LlamaConfig(**policy.transformers_config()), attn_implementation="eager"
    ).eval(), named_as_transformers(policy, replica)


@pytest.mark.parametrize("trained", [False, True])
def test_it_equals_transformers_llama_with_padding(trained):
    """Random weights as both initialize them, and weights that were moved; float32 on both sides."""
    task = TASKS["ragged"]
    policy = policy_of("llama", SEEDS, task)
    if trained:
        policy = shaken(policy).float()
    prompts, completions = prompts_of(task, SEEDS, PROMPTS), completions_of(task, SEEDS, PROMPTS, GROUP)
    actual = policy.logits(prompts, completions)
    slopes = gradients(policy, actual)
    upstream = torch.randn(actual.shape, generator=torch.Generator().manual_seed(2))
    for r in range(len(SEEDS)):
        model, weights = transformers_twin(policy, r)
        missing = model.load_state_dict(weights, strict=False)
        assert not missing.unexpected_keys and missing.missing_keys in ([], ["lm_head.weight"])
        model.tie_weights()
        rows = torch.cat([prompts[r].unsqueeze(1).expand(-1, GROUP, -1), completions[r]], -1).flatten(0, 1)
        present = torch.ones_like(rows, dtype=torch.bool)
        present[:, : prompts.shape[-1]] = rows[:, : prompts.shape[-1]] != task.pad
        logits = model(input_ids=rows, attention_mask=present.long()).logits[:, prompts.shape[-1] - 1 : -1]
        assert_close(actual[r].flatten(0, 1), logits, **ROUNDING)
        (logits * upstream[r].flatten(0, 1)).sum().backward()
        theirs = {name: parameter.grad for name, parameter in model.named_parameters()}
        for name, ours in stacked_of(theirs).items():
            close = dict(rtol=1e-4, atol=1e-4 * ours.abs().max().item())
            assert_close(slopes[name][r], ours, **close, msg=lambda text, name=name: f"{name}: {text}")


def test_names_there_and_back_are_the_same_weights():
    policy = shaken(policy_of("llama", SEEDS, TASKS["ragged"]))
    for r in range(len(SEEDS)):
        back = stacked_of(named_as_transformers(policy, r))
        assert back.keys() == dict(policy.named_parameters()).keys()
        assert all(torch.equal(back[name], parameter[r]) for name, parameter in policy.named_parameters())


def test_the_initial_weights_scatter_as_those_of_transformers():
    policy = policy_of("llama", range(50), TASKS["ragged"])
    for name, parameter in policy.named_parameters():
        if name.endswith("gain"):
            assert (parameter == 1).all()
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.05)
