"""Networks of one number: against plain ones, what a place may depend on, the same bits alone and together."""

from __future__ import annotations

import pytest
import reference_models
import torch
from axis_choices import CLOSE
from policies import SMALL, completions_of, preference_task, prompts_of, shaken, sort_task, threads  # noqa: F401
from torch.testing import assert_close

from rlexp.core.streams import Purpose, uniforms
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.models.scalar import at_end, cannot_judge, last_value, values

SEEDS, PROMPTS, GROUP = (3, 4), 4, 3
TASKS = {"padded": sort_task(), "fixed": preference_task(), "one token": preference_task(cap=1)}
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())
JUDGES = [name for name, model in MODELS.items() if model.reads_completions]
every_judge = pytest.mark.parametrize("name", JUDGES)


def network_of(name, task, seeds=SEEDS, purpose=Purpose.WEIGHTS, member=0, **hyperparameters):
    return MODELS[name](Init(seeds, purpose, member), task, 1, **(SMALL[name] | hyperparameters))


def example(name, task):
    """Return a float64 network, prompts, completions and a ragged mask; some completions have no token that counts."""
    network, prompts = shaken(network_of(name, task)), prompts_of(task, SEEDS, PROMPTS)
    completions = completions_of(task, SEEDS, PROMPTS, GROUP)
    lengths = torch.arange(len(SEEDS) * PROMPTS * GROUP).view(len(SEEDS), PROMPTS, GROUP, 1) % (task.cap + 1)
    return network, prompts, completions, torch.arange(task.cap) < lengths


def plain_values(name, network, task, prompts, completions):
    """Values by plain networks, ``[R P G T+1]``, and those networks where they hold weights of their own.

    One sequence at a time, with one more token of any kind behind it: they have no number after the last.
    """
    longer = torch.cat([completions, completions[..., -1:]], -1)
    plain = [reference_models.TorchGRU(network, r, task.pad) for r in range(len(SEEDS))] if name == "gru" else []

    def of_one(r, *sequence):
        by_name = reference_models.llama if name == "llama" else reference_models.transformer
        return plain[r](*sequence) if plain else by_name(network, r, task.pad, *sequence)

    return reference_models.logits(of_one, prompts, longer).squeeze(-1), plain


@pytest.mark.holds("S4.1")
@every_task
@every_judge
def test_values_are_those_of_a_plain_network_in_value_and_gradient(name, task):
    network, prompts, completions, _ = example(name, task)
    actual = values(network, prompts, completions)
    expected, plain = plain_values(name, network, task, prompts, completions)
    assert actual.shape == (*completions.shape[:-1], task.cap + 1)
    assert_close(actual, expected, **CLOSE)
    weights = torch.randn(actual.shape, generator=torch.Generator().manual_seed(2), dtype=actual.dtype)
    names, parameters = zip(*network.named_parameters(), strict=True)
    slopes = torch.autograd.grad((actual * weights).sum(), parameters, allow_unused=True)
    if plain:
        (expected * weights).sum().backward()
        wanted = [torch.stack([net.gradients()[each] for net in plain]) for each in names]
    else:
        wanted = torch.autograd.grad((expected * weights).sum(), parameters, allow_unused=True)
    for each, slope, other in zip(names, slopes, wanted, strict=True):
        assert_close(slope, other, **CLOSE, msg=lambda text, each=each: f"{each}: {text}")


@every_task
@every_judge
def test_the_number_after_the_last_token_that_counts(name, task):
    network, prompts, completions, mask = example(name, task)
    assert not mask.any(-1).all() and mask.all(-1).any()
    everywhere = values(network, prompts, completions)
    expected = torch.zeros_like(everywhere[..., 0])
    for place in torch.ones_like(expected).nonzero().tolist():
        expected[tuple(place)] = everywhere[tuple(place)][int(mask[tuple(place)].sum())]
    assert torch.equal(last_value(network, prompts, completions, mask), expected)
    assert torch.equal(at_end(everywhere, mask), expected)


@every_judge
@pytest.mark.parametrize("t", [0, 3, 6])
def test_a_value_depends_on_what_came_before_it_and_on_nothing_else(name, t):
    network, prompts, completions, _ = example(name, TASKS["padded"])
    changed = completions.clone()
    changed[1, 2, 1, t] = (completions[1, 2, 1, t] + 1) % TASKS["padded"].vocabulary
    differs = values(network, prompts, completions) != values(network, prompts, changed)
    expected = torch.zeros_like(differs)
    expected[1, 2, 1, t + 1 :] = True
    assert torch.equal(differs, expected)


@every_judge
def test_the_body_is_drawn_as_that_of_the_policy_unless_it_has_draws_of_its_own(name):
    task = TASKS["padded"]
    policy = MODELS[name](Init(SEEDS), task, **SMALL[name]).state_dict()
    body = {key: value for key, value in network_of(name, task).state_dict().items() if not key.startswith("head")}
    assert body and all(torch.equal(policy[key], value) for key, value in body.items())
    streams = [(Purpose.CRITIC_WEIGHTS, 0), (Purpose.REWARD_MODEL_WEIGHTS, 0), (Purpose.REWARD_MODEL_WEIGHTS, 1)]
    heads = [network_of(name, task, SEEDS, *stream).head.weight for stream in [(Purpose.WEIGHTS, 0), *streams]]
    assert heads[0].shape[-1] == 1
    assert len({tuple(head[0].flatten().tolist()) for head in heads}) == len(heads)


# Wide enough for a stack to be spread over threads where a replica alone is not: 2^15 numbers in PyTorch.
WIDE = {
    "gru": dict(hidden=45, layers=1),
    "llama": dict(width=42, layers=2, heads=3),
    "transformer": dict(width=42, layers=2, heads=3, feedforward=75),
    "transformer_plain": dict(width=42, layers=1, heads=3, feedforward=75),
}


def regressed(name, seeds, hyperparameters, prompts, group):
    """Values and gradients of a regression."""
    task = TASKS["padded"]
    network = network_of(name, task, seeds, **hyperparameters)
    actual = values(network, prompts_of(task, seeds, prompts), completions_of(task, seeds, prompts, group))
    targets = uniforms(seeds, Purpose.SAMPLING, 2, actual.shape[1:])
    return [actual.detach(), *torch.autograd.grad((actual - targets).square().sum(), list(network.parameters()))]


@pytest.mark.bits
@every_judge
@pytest.mark.parametrize(("hyperparameters", "prompts", "group"), [({}, 1, 1), ({}, 3, 5), (WIDE, 7, 5)])
@pytest.mark.slow  # each model in stacks of all sizes
def test_a_replica_has_the_same_bits_alone_and_in_a_stack(name, hyperparameters, prompts, group, threads):  # noqa: F811
    """Alone on one thread: with more, MKL splits the one product of a stack of one, which changes its last bit."""
    sizes, seeds = (hyperparameters.get(name, {}), prompts, group), (5, 2, 7, 2, 0)
    threads(1)
    alone = [regressed(name, [seed], *sizes) for seed in seeds]
    for count in (1, 2, 3):
        threads(count)
        for r, stacked in enumerate(zip(*regressed(name, seeds, *sizes), strict=True)):
            assert all(torch.equal(a, b[0]) for a, b in zip(stacked, alone[r], strict=True)), f"{count} threads, {r}"


def test_a_model_that_reads_no_completions_is_refused_in_one_line():
    assert all(cannot_judge(name, "a critic") == [] for name in JUDGES)
    assert cannot_judge("positional", "a critic") == [
        "model=positional reads no completions and cannot be a critic; choose one that does: "
        "gru, llama, transformer, transformer_plain"
    ]
