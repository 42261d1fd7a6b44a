"""What decoding keeps for training: the same values to the bit, the same gradients, for every part of a batch."""

from __future__ import annotations

from typing import get_type_hints

import pytest
import torch
from axis_choices import CLOSE
from beartype.door import is_bearable
from jaxtyping import jaxtyped
from mixed_state import BLOCKS, MODELS, mixed
from policies import policy_of, preference_task, prompts_of, shaken, sort_task, threads  # noqa: F401
from torch.testing import assert_close

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rollout import Rollout, inverse_cdf, sample
from rlexp.loop.step import train_step

SEEDS, PROMPTS, GROUP = (3, 4), 4, 3
TASKS = {"padded": sort_task(), "fixed": preference_task(), "one token": preference_task(cap=1)}
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def ending_at(last, task):
    """Pick tokens at random, and the end at the last place."""
    places = iter(range(task.cap))

    def pick(log_probs, noise):
        return torch.full_like(noise, task.end).long() if next(places) == last else inverse_cdf(log_probs, noise)

    return pick


def recorded(task, dtype, pick=inverse_cdf):
    """Return a policy, a rollout, its temperatures, and the policy that recorded it, NaN where nothing was written."""
    policy = shaken(policy_of("transformer", SEEDS, task)).to(dtype)
    noise = uniforms(SEEDS, Purpose.SAMPLING, 3, (PROMPTS, GROUP, task.cap)).to(dtype)
    prompts, temperature = prompts_of(task, SEEDS, PROMPTS), torch.tensor([0.7, 1.3], dtype=dtype)
    recording = policy.recorded(prompts, GROUP)
    for block in recording.cache.blocks:
        for tensor in (block.attention.query, block.attention.key, block.attention.value, *block.activations):
            tensor.fill_(torch.nan)
    recording.cache.logits.fill_(torch.nan)
    rollout = sample(recording, task, prompts, noise, temperature, pick)
    return policy, rollout, temperature, recording


def slopes(policy, log_probs, mask):
    """Gradients of a weighted sum of the log-probabilities that count."""
    weights = torch.randn(log_probs.shape, generator=torch.Generator().manual_seed(2), dtype=log_probs.dtype)
    return torch.autograd.grad((log_probs * weights)[mask].sum(), list(policy.parameters()), allow_unused=True)


def fields(value, hint=None):
    """Yield every tensor of named tuples and lists, with its annotation."""
    if isinstance(value, list):
        for item in value:
            yield from fields(item)
    elif isinstance(value, tuple):
        for name, kind in get_type_hints(type(value)).items():
            yield from fields(getattr(value, name), kind)
    else:
        yield value, hint


@every_task
@pytest.mark.parametrize("flat", [False, True])
def test_all_fields_have_the_shapes_of_their_annotations(task, flat):
    """Sizes with the same name are equal through the whole cache."""
    *_, recording = recorded(task, torch.float64)
    forward_cache = recording.cache.flatten_tokens() if flat else recording.cache
    with jaxtyped("context"):
        checked = [is_bearable(tensor, hint) for tensor, hint in fields(forward_cache)]
        assert all(checked) and len(checked) == 4 + 10 * len(forward_cache.blocks)


@every_task
@pytest.mark.parametrize("prompts", [slice(None), slice(0, 2), slice(3, 4)], ids=["all", "first", "last"])
def test_with_the_cache_gradients_are_those_of_the_whole_pass(task, prompts):
    policy, rollout, temperature, recording = recorded(task, torch.float64)
    part = [tensor[:, prompts] for tensor in (rollout.prompts, rollout.completions)]
    mask = rollout.mask[:, prompts]
    recording = recording.slice_prompts(prompts)
    log_probs = [each.log_probs(*part, temperature).log_probs for each in (policy, recording)]
    assert task.end < 0 or (mask.sum(-1).unique().numel() > 1 and not mask.all())
    assert_close(log_probs[1][mask], log_probs[0][mask], **CLOSE)
    expected, actual = (slopes(policy, each, mask) for each in log_probs)
    assert all(slope.any() for slope in expected if slope is not None)
    assert_close(actual, expected, **CLOSE)


@pytest.mark.parametrize("last", [0, 2], ids=["at once", "early"])
def test_what_was_not_decoded_is_nothing(last):
    """All completions end early, or with their first token: the rest of the cache is zero."""
    task = TASKS["padded"]
    policy, rollout, temperature, recording = recorded(task, torch.float64, ending_at(last, task))
    assert rollout.finished.all() and not rollout.mask[..., last + 1 :].any()
    part = rollout.prompts, rollout.completions
    log_probs = [each.log_probs(*part, temperature).log_probs for each in (policy, recording)]
    expected, actual = (slopes(policy, each, rollout.mask) for each in log_probs)
    assert_close(actual, expected, **CLOSE)


# Products that are left to MKL, and to more than one thread.
WIDE = dict(width=42, layers=2, heads=3, feedforward=75)


@pytest.mark.bits
@pytest.mark.parametrize("prompts", [slice(None), slice(0, 3)], ids=["all", "some"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.slow  # each model in stacks of all sizes
def test_a_replica_has_the_same_bits_alone_and_in_a_stack(count, prompts, threads):  # noqa: F811
    """Alone on one thread: with more, MKL splits the one product of a stack of one, which changes its last bit."""

    def trained(seeds):
        policy, task = policy_of("transformer", seeds, TASKS["padded"], **WIDE), TASKS["padded"]
        noise, questions = uniforms(seeds, Purpose.SAMPLING, 3, (7, 5, task.cap)), prompts_of(task, seeds, 7)
        temperature, recording = torch.ones(len(seeds)), policy.recorded(questions, 5)
        rollout = sample(recording, task, questions, noise, temperature)
        part = Rollout(*(tensor[:, prompts] for tensor in rollout))
        recording = recording.slice_prompts(prompts)
        log_probs = recording.log_probs(part.prompts, part.completions, temperature).log_probs
        loss = (log_probs * uniforms(seeds, Purpose.SAMPLING, 2, log_probs.shape[1:])).where(part.mask, 0.0).sum()
        return [*rollout, *torch.autograd.grad(loss, list(policy.parameters()))]

    seeds = (5, 2, 7, 2, 0)
    threads(1)
    alone = [trained([seed]) for seed in seeds]
    threads(count)
    for r, stacked in enumerate(zip(*trained(seeds), strict=True)):
        assert all(torch.equal(a, b[0]) for a, b in zip(stacked, alone[r], strict=True)), r


@every_task
def test_with_the_cache_the_policy_has_the_log_probs_that_sampled_to_the_bit(task):
    policy, rollout, temperature, recording = recorded(task, torch.float32)
    again = recording.log_probs(rollout.prompts, rollout.completions, temperature).log_probs
    assert torch.equal(again[rollout.mask], rollout.old_log_probs[rollout.mask])


def test_a_step_with_caches_is_the_step_without(monkeypatch):
    """Two minibatches, one with a cache, and runs whose groups come from several rounds, whose cache is redone."""
    assert max(owner.refill_rounds for owner, _ in BLOCKS) > 1

    def trained(forward_caches: bool):
        runs = mixed(**MODELS["transformer"])
        runs.policy.double()
        if not forward_caches:
            monkeypatch.setattr(runs.policy, "recorded", lambda *sizes: runs.policy, raising=False)
        return train_step(runs, 1, True), list(runs.policy.parameters())

    (row, weights), (expected, plain) = trained(True), trained(False)
    assert (row["filter/rounds"] > 1).any() and (row["filter/rounds"] == 1).any()
    for name in ("optim/grad_norm", "ratio/max", "policy/entropy", "loss/total"):
        assert_close(row[name], expected[name], **CLOSE)
    assert_close(weights, plain, **CLOSE)
