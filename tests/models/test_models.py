"""Policies: against plain networks that read each sequence from its start, and each replica against itself alone."""

from __future__ import annotations

import pytest
import reference_models
import torch
import torch.nn.functional as F
from axis_choices import CLOSE
from policies import (  # noqa: F401
    OF_ANY_TASK,
    completions_of,
    example,
    policy_of,
    preference_task,
    prompts_of,
    shaken,
    sort_task,
    threads,
)
from torch.testing import assert_close

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rollout import sample
from rlexp.models.layers import Embedding, Init, Linear, Projection

TASKS = {"padded": sort_task(), "fixed": preference_task()}
every_model = pytest.mark.parametrize("name", OF_ANY_TASK)
causal_model = pytest.mark.parametrize("name", ["gru", "transformer", "transformer_plain", "llama"])
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def slopes_of(logits: torch.Tensor) -> torch.Tensor:
    """What multiplies the logits in the loss whose gradients are compared."""
    return torch.randn(logits.shape, generator=torch.Generator().manual_seed(2), dtype=logits.dtype)


def gradients(policy, logits: torch.Tensor) -> dict[str, torch.Tensor]:
    names, parameters = zip(*policy.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad((logits * slopes_of(logits)).sum(), parameters), strict=True))


# ---- against plain networks


@every_task
def test_gru_equals_torch_gru(task):
    policy, prompts, completions = example("gru", task)
    plain = [reference_models.TorchGRU(policy, r, task.pad) for r in range(2)]
    expected = reference_models.logits(lambda r, *sequence: plain[r](*sequence), prompts, completions)
    actual = policy(prompts, completions)
    assert_close(actual, expected, **CLOSE)
    (expected * slopes_of(expected)).sum().backward()
    for name, slope in gradients(policy, actual).items():
        assert_close(slope, torch.stack([net.gradients()[name] for net in plain]), **CLOSE)


@pytest.mark.holds("S2.8")
@every_task
def test_positional_equals_the_formula_of_the_lecture(task):
    policy, prompts, completions = example("positional", task)

    def of_one(r, prompt, completion):
        return reference_models.positional(policy.embedding.weight[r], policy.encoder[r], policy.decoder[r], prompt)

    actual, expected = policy(prompts, completions), reference_models.logits(of_one, prompts, completions)
    assert_close(actual, expected, **CLOSE)
    assert_close(gradients(policy, actual), gradients(policy, expected), **CLOSE)


@pytest.mark.holds("S0.1")
def test_s0_1_parameters_of_tiny_lm():
    policy = policy_of("gru", [0, 1, 2], preference_task(vocabulary=100), hidden=64, layers=2)
    assert sum(parameter[0].numel() for parameter in policy.parameters()) == 62820
    assert all(parameter.shape[0] == 3 for parameter in policy.parameters())


def test_initial_weights_are_distributed_as_those_of_torch():
    init, layers = Init(range(3)), {}
    layers["uniform"] = Linear(init, 100, 300).weight, 100**-0.5 / 3**0.5
    layers["without bias"] = Projection(init, 100, 300).weight, 100**-0.5 / 3**0.5
    layers["normal"] = Embedding(init, 300, 100).weight, 1.0
    layers["narrow"] = Embedding(init, 300, 100, std=0.5).weight, 0.5
    for weight, deviation in layers.values():
        assert_close(weight.mean((1, 2)), torch.zeros(3), rtol=0, atol=5 * deviation / 30000**0.5)
        assert_close(weight.std((1, 2)), torch.full((3,), deviation), rtol=0.02, atol=0.0)
    assert 0.099 < layers["uniform"][0].abs().max() <= 0.1


# ---- causality and padding


@pytest.mark.holds("E7")
@causal_model
@every_task
@pytest.mark.parametrize("t", [0, 2])
def test_a_completion_token_changes_what_follows_and_nothing_else(name, task, t):
    policy, prompts, completions = example(name, task)
    changed = completions.clone()
    changed[1, 2, 1, t] = (completions[1, 2, 1, t] + 1) % task.vocabulary
    differs = (policy(prompts, completions) != policy(prompts, changed)).any(-1)
    expected = torch.zeros_like(differs)
    expected[1, 2, 1, t + 1 :] = True
    assert torch.equal(differs, expected)


@every_model
@every_task
def test_a_prompt_token_changes_the_completions_of_its_prompt(name, task):
    policy, prompts, completions = example(name, task)
    changed = prompts.clone()
    changed[1, 2, -2] = (prompts[1, 2, -2] + 1) % 5
    differs = (policy(prompts, completions) != policy(changed, completions)).any(-1)
    assert differs[1, 2].all()
    differs[1, 2] = False
    assert not differs.any()


def test_positional_ignores_completions():
    policy, prompts, completions = example("positional", TASKS["padded"])
    assert torch.equal(policy(prompts, completions), policy(prompts, completions.flip(-1)))


@causal_model
def test_left_padding_is_inert(name):
    policy, prompts, completions = example(name, TASKS["padded"])
    wider = F.pad(prompts, (3, 0), value=TASKS["padded"].pad)
    assert (prompts == TASKS["padded"].pad).any() and (prompts != TASKS["padded"].pad).all(-1).any()
    actual, expected = policy(wider, completions), policy(prompts, completions)
    assert_close(actual, expected, **CLOSE)
    assert_close(gradients(policy, actual), gradients(policy, expected), **CLOSE)
    with torch.no_grad():
        first, state = policy.prefill(wider, 3)
        second, _ = policy.decode(completions[..., 0], state)
    assert_close(torch.stack([first, second], -2), expected[..., :2, :], **CLOSE)


# ---- prefill, decode, forward


@every_model
@every_task
def test_token_by_token_equals_all_at_once(name, task):
    policy, prompts, completions = example(name, task)
    with torch.no_grad():
        logits, state = policy.prefill(prompts, completions.shape[2])
        steps = [logits]
        for t in range(task.cap - 1):
            logits, state = policy.decode(completions[..., t], state)
            steps.append(logits)
    assert_close(torch.stack(steps, -2), policy(prompts, completions), **CLOSE)


@every_model
def test_a_completion_of_one_token(name):
    policy, prompts, completions = example(name, preference_task(cap=1))
    logits = policy(prompts, completions)
    assert_close(logits.squeeze(-2), policy.prefill(prompts, 3)[0], **CLOSE)
    assert any(slope.any() for slope in gradients(policy, logits).values())


def rows_read(policy, *arguments) -> set[int]:
    """Numbers of tokens, or of rows, that went through each kind of layer with an input of its own."""
    counts = {}

    def count(module, inputs, _):
        rows = inputs[0].numel() if isinstance(module, Embedding) else inputs[0][..., 0].numel()
        counts[module] = counts.get(module, 0) + rows

    body = {"gru": "embedding layers.0 layers.1", "transformer": "tokens blocks.0.down blocks.1.qkv"}
    hooks = [policy.get_submodule(m).register_forward_hook(count) for m in body[type(policy).__name__.lower()].split()]
    policy(*arguments)
    for hook in hooks:
        hook.remove()
    return set(counts.values())


@pytest.mark.parametrize("name", ["gru", "transformer"])
def test_a_prompt_is_read_once_for_its_group(name):
    policy, prompts, completions = example(name, TASKS["padded"], group=6)
    assert rows_read(policy, prompts, completions) == {prompts.numel() + completions[..., :-1].numel()}


# ---- replicas


@pytest.mark.holds("E34")
@every_model
def test_replicas_start_by_their_seed_alone(name):
    stack = policy_of(name, [9, 4, 9], TASKS["padded"])
    alone = policy_of(name, [4], TASKS["padded"])
    for parameter, own in zip(stack.parameters(), alone.parameters(), strict=True):
        assert torch.equal(parameter[0], parameter[2])
        assert torch.equal(parameter[1:2], own)
    drawn = [p for p in stack.parameters() if p[0].unique().numel() > 1]
    assert drawn and not any(torch.equal(p[0], p[1]) for p in drawn)


# Wide enough for a stack to be spread over threads where a replica alone is not: 2^15 numbers in PyTorch.
WIDE = {
    "gru": dict(hidden=45, layers=1),
    "llama": dict(width=42, layers=1, heads=3),
    "transformer": dict(width=42, layers=1, heads=3, feedforward=75),
    "transformer_plain": dict(width=42, layers=1, heads=3, feedforward=75),
    "positional": dict(width=33),
}
SEEDS = (5, 2, 7, 2, 0)


def trained(name: str, seeds, task, hyperparameters, prompts: int, group: int) -> list[torch.Tensor]:
    """Logits, gradients and a rollout of some replicas."""
    policy = policy_of(name, seeds, task, **hyperparameters)
    questions, answers = prompts_of(task, seeds, prompts), completions_of(task, seeds, prompts, group)
    logits = policy(questions, answers)
    log_probs = F.log_softmax(logits, -1).gather(-1, answers.unsqueeze(-1)).squeeze(-1)
    loss = (log_probs * uniforms(seeds, Purpose.SAMPLING, 2, answers.shape[1:])).sum()
    slopes = torch.autograd.grad(loss, list(policy.parameters()))
    noise = uniforms(seeds, Purpose.SAMPLING, 3, answers.shape[1:])
    return [logits.detach(), *slopes, *sample(policy, task, questions, noise, torch.ones(len(seeds)))]


@pytest.mark.bits
@every_model
@pytest.mark.parametrize(
    ("task", "hyperparameters", "prompts", "group"),
    [("padded", {}, 1, 1), ("padded", {}, 3, 5), ("fixed", {}, 4, 2), ("padded", WIDE, 7, 5)],
    ids=["one", "odd", "fixed", "threaded"],
)
@pytest.mark.slow  # each model in stacks of all sizes
def test_a_replica_has_the_same_bits_alone_and_in_a_stack(name, task, hyperparameters, prompts, group, threads):  # noqa: F811
    """Alone on one thread: with more, MKL splits the one product of a stack of one, which changes its last bit."""
    sizes = TASKS[task], hyperparameters.get(name, {}), prompts, group
    threads(1)
    alone = [trained(name, [seed], *sizes) for seed in SEEDS]
    for count in (1, 2, 3) if hyperparameters else (1, 2):
        threads(count)
        for r, stacked in enumerate(zip(*trained(name, SEEDS, *sizes), strict=True)):
            assert all(torch.equal(a, b[0]) for a, b in zip(stacked, alone[r], strict=True)), f"{count} threads, {r}"


@every_model
def test_a_sick_replica_does_not_touch_its_neighbours(name):
    policy, prompts, completions = example(name, TASKS["padded"])
    healthy = policy(prompts, completions)
    slopes = gradients(policy, healthy)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter[0] = float("nan")
    sick = policy(prompts, completions)
    assert torch.equal(sick[1], healthy[1])
    for name_, slope in gradients(policy, sick).items():
        assert torch.equal(slope[1], slopes[name_][1])
