"""Tokens that an environment writes: read by everybody, drawn by nobody, seen by losses only where that is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from interrupted import jobs, same_alone_together_and_resumed, stop_at  # noqa: F401 (a fixture)
from plain_step import Recipe
from policies import OF_ANY_TASK, policy_of, prompts_of, shaken, sort_task
from small_runs import SHORT, SMALL, compose
from task_choices import tool
from toy_state import PROMPTS, Conversation, make_experience, make_state, variant

from rlexp.core.blocks import map_variants
from rlexp.core.streams import Purpose, uniforms
from rlexp.loop import requested, start
from rlexp.loop.data import prefill_buffer
from rlexp.loop.metrics import metrics_of_rollout
from rlexp.loop.rollout import inverse_cdf, loss_mask, most_likely, response_mask, sample
from rlexp.loop.sampling import sample_distorted, sample_groups
from rlexp.loop.step import loss_terms, train_step
from rlexp.record.samples import samples
from rlexp.sweep.build import build

SEEDS = (3, 1)
TINY = ["task=tool", "task.symbols=3", "task.table=3", "task.keys=2", "task.value=2", "task.cap=10"]
TINY += ["model.width=8", "model.heads=2", "model.feedforward=8"]
ROUNDED = dict(rtol=1e-9, atol=1e-9)


def eager(policy, task):
    """Return a policy that says ``call``, keys and ends far more often than other tokens."""
    policy = shaken(policy)
    likely = torch.zeros(task.vocabulary, dtype=torch.float64)
    likely[task.call], likely[task.symbols : task.operation], likely[task.end] = 2.5, 2.0, 0.5
    inner, begin, go_on = policy.logits, policy.prefill, policy.decode
    policy.logits = lambda *inputs: inner(*inputs) + likely

    def prefill(*inputs):
        logits, state = begin(*inputs)
        return logits + likely, state

    def decode(*inputs):
        logits, state = go_on(*inputs)
        return logits + likely, state

    policy.prefill, policy.decode = prefill, decode
    return policy


def rolled(name, task, pick=None, draw=sample):
    policy = eager(policy_of(name, SEEDS, task), task)
    noise = uniforms(SEEDS, Purpose.SAMPLING, 1, (6, 5, task.cap)).double()
    given = policy, task, prompts_of(task, SEEDS, 6), noise, torch.tensor([1.0, 0.7], dtype=torch.float64)
    return policy, draw(*given, *([pick] if pick else []))


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", OF_ANY_TASK)
def test_the_environment_writes_into_what_a_policy_samples(name, trained):
    task = tool(train_on_environment=trained)
    for pick in (None, most_likely):
        policy, rollout = rolled(name, task, pick)
        written = task.environment(rollout.prompts, rollout.completions)
        theirs = (written >= 0) & rollout.mask
        assert theirs.any() and torch.equal(rollout.completions[theirs], written[theirs])
        own = response_mask(task, *rollout[:2], rollout.mask)
        assert torch.equal(own, rollout.mask & ~theirs)
        seen = loss_mask(task, *rollout[:2], rollout.mask)
        assert torch.equal(seen, rollout.mask if trained else own)
        temperature = torch.tensor([1.0, 0.7], dtype=torch.float64)
        read = policy.log_probs(rollout.prompts, rollout.completions, temperature).log_probs
        torch.testing.assert_close(rollout.old_log_probs, read.where(seen, 0.0), **ROUNDED)
        ends = (rollout.completions == task.end).any(-1)
        assert torch.equal(rollout.finished, ends) and (pick or 0 < ends.float().mean() < 1)
        tokens, there = rollout.pairs
        assert torch.equal(tokens[..., task.prompt_length :], rollout.completions)
        assert torch.equal(there[..., task.prompt_length :], rollout.mask)


def test_a_task_without_an_environment_has_one_mask():
    task, tokens = sort_task(), torch.zeros(1, 1, 1, 7, dtype=torch.long)
    given = task, tokens[..., 0, :], tokens, tokens == 0
    assert response_mask(*given) is given[-1] and loss_mask(*given) is given[-1]


@pytest.mark.parametrize("trained", [False, True])
def test_what_the_environment_writes_is_drawn_from_no_sampler(trained):
    """Its sampler_log_probs are those of the trainer, so that nothing is corrected; those of other tokens differ."""
    task, places = tool(train_on_environment=trained), []

    def distort(log_probs, place):
        places.append(place)
        return (1.5 * log_probs).log_softmax(-1)

    _, rollout = rolled("gru", task, draw=lambda *inputs: sample_distorted(distort, *inputs))
    own = response_mask(task, *rollout[:2], rollout.mask)
    assert places == [*range(task.cap)] and (rollout.mask & ~own).any()
    assert torch.equal(rollout.sampler_log_probs[~own], rollout.old_log_probs[~own])
    assert (rollout.sampler_log_probs != rollout.old_log_probs)[own].float().mean() > 0.9


# ---- gradients


CASES = {
    "default": ["entropy_coef=0.1"],
    "kl": ["kl=k3", "kl.coef=0.3", "agg=sequence"],
    "kl_in_reward": ["kl=k1", "kl.coef=0.3", "kl.place=reward", "norm=reinforce_pp"],
    "critic": ["critic=value", "norm=gae", "norm.lam=0.9", "entropy_coef=0.1"],
    "sequences": ["clip=gspo", "agg=sequence"],
    "filtered": ["filter=top_entropy", "clip=clip_cov"],
    "sampled": ["sampler=noisy", "mismatch=sequence_truncate", "norm=optimal_token"],
    "dr_grpo": ["agg=dr_grpo", "norm=center"],
}


def state_and_batch(*overrides):
    config = compose(*TINY, *SHORT, *SMALL, "start=sft", "start.accuracy=0.05", *overrides)
    state = build([config.model_copy(update={"seed": seed}) for seed in SEEDS])
    with torch.no_grad():  # calls and keys come often
        task, head = state.task, state.policy.head.weight
        head[:, :, task.call] += 1.0
        head += 0.5 * torch.randn(head.shape, generator=torch.Generator().manual_seed(1))
    groups = sample_groups(state, 1)
    drawn = torch.rand(groups.rewards.total.shape, generator=torch.Generator().manual_seed(2))
    groups = groups._replace(rewards=groups.rewards._replace(total=drawn))  # so early hardly any answer is right
    batch = make_experience(state, 1, groups)
    shared = requested.tensors_of_step(state, batch)
    return state, groups, batch, requested.tensors_of_update(state, batch, shared)


def losses_of(state, batch, tensors, log_probs, entropies):
    terms = map_variants(loss_terms, state.blocks, log_probs, entropies, batch, tensors)
    return sum(terms.values())


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_gradient_of_what_the_environment_writes(case, trained):
    """It is 0 to the bit where no loss sees it, whatever the numbers there are; otherwise it is not."""
    state, groups, batch, tensors = state_and_batch(*CASES[case], f"task.train_on_environment={trained}")
    rollout = groups.rollout
    theirs = rollout.mask & ~response_mask(state.task, *rollout[:2], rollout.mask)
    assert theirs.flatten(1).any(-1).all()
    read = state.policy.log_probs(rollout.prompts, rollout.completions, state.temperature, entropies=True)
    log_probs, entropies = ((each.detach() - 0.1).requires_grad_() for each in read[:2])
    total = losses_of(state, batch, tensors, log_probs, entropies)
    slopes = torch.autograd.grad(total.sum(), [log_probs, entropies], allow_unused=True)
    for slope in (each for each in slopes if each is not None):
        assert slope[batch.mask].any()
        assert slope[theirs & ~batch.mask].eq(0).all()
    assert trained or not (theirs & batch.mask).any()
    if trained and case != "filtered":
        assert (theirs & batch.mask).sum() == theirs.sum() and slopes[0][theirs].any()

    def moved(values, by):
        return values.where(~theirs, values + by)

    names = ("old_log_probs", "ref_log_probs", "sampler_log_probs", "advantages")
    other = batch._replace(**{name: moved(getattr(batch, name), 0.37) for name in names})
    again = losses_of(state, other, tensors, moved(log_probs, 0.21), moved(entropies, 0.5))
    assert torch.equal(again, total) == (not trained)


@pytest.mark.parametrize("trained", [False, True])
def test_no_gradient_reaches_the_logits_of_the_environments_places(trained, monkeypatch):
    """Through a whole update, with penalty and bonus: the gradient in the logits, place by place."""
    state, groups, *_ = state_and_batch(*CASES["kl"], "entropy_coef=0.1", f"task.train_on_environment={trained}")
    rollout, kept = groups.rollout, []
    theirs = rollout.mask & ~response_mask(state.task, *rollout[:2], rollout.mask)
    inner = type(state.policy).logits_after

    def logits_after(self, *inputs):
        found = inner(self, *inputs)
        if found.requires_grad and found.shape[:4] == theirs.shape:
            found.retain_grad()
            kept.append(found)
        return found

    monkeypatch.setattr(type(state.policy), "logits_after", logits_after)
    train_step(replace(state, minibatches=1), 1, False)
    (logits,) = [each for each in kept if each.grad is not None]
    moved = logits.grad.abs().sum(-1) > 0
    assert moved[rollout.mask & ~theirs].any() and not moved[~rollout.mask].any()
    assert moved[theirs].any() == trained


# ---- who sees what


def test_lengths_and_scores_are_of_the_whole_conversation_and_means_of_the_policys_tokens():
    state, groups, batch, _ = state_and_batch("shaping=overlong", "shaping.cap=9", "shaping.cache=2")
    rollout = groups.rollout
    own = response_mask(state.task, *rollout[:2], rollout.mask)
    assert torch.equal(batch.mask, own)
    reference = requested.reference_distributions(state, rollout)
    row = metrics_of_rollout(state, groups, reference, batch)
    lengths = rollout.mask.sum(-1)
    torch.testing.assert_close(row["length/mean"], lengths.float().mean((-1, -2)))
    torch.testing.assert_close(row["tokens"], lengths.sum((-1, -2)))
    torch.testing.assert_close(row["filter/tokens"], own.sum((1, 2, 3)) / rollout.mask.sum((1, 2, 3)))
    distributions = state.policy.distributions(rollout.prompts, rollout.completions, state.temperature)
    entropies = -(distributions.exp() * distributions).sum(-1)
    expected = torch.stack([entropies[r][own[r]].mean() for r in range(len(SEEDS))])
    torch.testing.assert_close(row["policy/entropy"], expected)
    late = (lengths > 7).float()
    punished = groups.rewards.total - batch.rewards
    assert ((punished > 0) == (late > 0)).all() and 0 < late.mean() < 1


def test_the_first_step_of_both_ways_to_train_measures_the_same_policy():
    """Training on the environment's tokens changes losses, and nothing of what is said of the rollout."""
    found = []
    for trained in (False, True):
        state, groups, batch, _ = state_and_batch(f"task.train_on_environment={trained}")
        reference = requested.reference_distributions(state, groups.rollout)
        found.append(metrics_of_rollout(state, groups, reference, batch))
    differing = {name for name in found[0] if not torch.equal(*(each[name].nan_to_num(-7.0) for each in found))}
    assert differing == {"filter/tokens"}


def test_samples_are_whole_conversations():
    state, groups, *_ = state_and_batch()
    texts = [each["completion"] for run in samples(state, 0) for each in run]
    assert any("result" in text or "error" in text for text in texts)


@pytest.mark.parametrize("name", ["sft", "mixture", "scaled"])
def test_a_start_imitates_the_policys_tokens_alone_however_training_goes(name, monkeypatch):
    masks, weights, inner = [], [], start.imitation_loss

    def spy(policy, prompts, completions, mask):
        masks.append((completions, mask))
        return inner(policy, prompts, completions, mask)

    monkeypatch.setattr(start, "imitation_loss", spy)
    settings = dict(lr=1e-3, prompts=4, every=2, checked=8, updates=3)
    settings |= {"sft": dict(accuracy=1.0), "mixture": dict(accuracy=0.5, tolerance=0.01, formed=1.0)}.get(name, {})
    settings |= dict(accuracy=1.0, entropy=0.5) if name == "scaled" else {}
    for trained in (False, True):
        task = tool(train_on_environment=trained)
        policy = policy_of("transformer", SEEDS, task)
        start.STARTS[name](policy, task, SEEDS, **settings)
        weights.append(torch.cat([each.detach().flatten() for each in policy.parameters()]))
    assert torch.equal(*weights)
    for completions, mask in masks:
        place = torch.arange(task.cap)
        assert torch.equal(mask, ((place < 2) | (place > 4) & (place < 8)).expand(mask.shape))
        assert (completions[..., 2] == task.result).all()


def test_right_answers_among_the_data_have_the_environments_tokens():
    config = compose(*TINY, *SHORT, *SMALL, "data=offline", "data.batches=2", "data.oracle=1")
    state = build([config.model_copy(update={"seed": seed}) for seed in SEEDS])
    prefill_buffer(state)
    prompts, completions = state.buffer.prompts.flatten(0, 1), state.buffer.completions.flatten(0, 1)[:, :, :1]
    answers, mask = state.task.oracle(prompts)
    assert torch.equal(completions[:, :, 0], answers)
    written = state.task.environment(prompts, completions)[:, :, 0] >= 0
    old = state.buffer.old_log_probs.flatten(0, 1)[:, :, 0]
    assert (old[written] == 0).all() and (old[mask & ~written] < 0).all()


def test_the_comparison_with_plain_pytorch_reaches_conversations_cut_off_and_gone_on():
    """``test_step`` trains on them: the environment's tokens stand within answers, and at the end of some."""
    state = make_state([(variant(Recipe()), 2)], [0, 1], task=Conversation())
    groups = sample_groups(state, 1)
    batch = make_experience(state, 1, groups)
    theirs = groups.rollout.mask & ~batch.mask
    assert (theirs[..., 1:-1].any(-1) & batch.mask[..., -1]).any() and theirs[..., -1].any()
    assert batch.mask.shape[1] == PROMPTS


# ---- alone, together, resumed


ALONE = {
    "critic": ["critic=value", "data=replay", "data.capacity=2", "filter=dynamic", "filter.refill.rounds=2"],
    "offline": ["data=offline", "data.batches=3", "data.oracle=1", "sampler=noisy", "mismatch=token_mask"],
    "trained": ["task.train_on_environment=true", "kl=k3", "kl.coef=0.1", "data=stale", "data.age=2"],
}


@pytest.mark.bits
@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.rare] * (name != "critic")) for name in ALONE])
def test_alone_together_and_resumed_are_the_same_bits(tmp_path, stop_at, name):  # noqa: F811
    variants = ("gae", "gae_whitened") if name == "critic" else ("local", "running")
    common = [*TINY, "shaping=overlong", "shaping.cap=8", "shaping.cache=5", *ALONE[name]]  # rewards that vary
    same_alone_together_and_resumed(tmp_path, stop_at, *common, variants=variants)


# ---- packed completions


PACKED = tool(symbols=3, table=3, keys=2, value=4, cap=20)


def packing(name, seeds=SEEDS):
    """Return a policy that packs its completions, and calls in most of them."""
    policy = shaken(policy_of(name, SEEDS, PACKED))
    assert policy.packs
    if seeds != SEEDS:
        rows = [SEEDS.index(seed) for seed in seeds]
        alone = policy_of(name, seeds, PACKED).double()
        alone.load_state_dict({key: values[rows] for key, values in policy.state_dict().items()})
        policy = alone
    inner = policy.packed_decoding

    def packed_decoding(*inputs):
        logits, decoding = inner(*inputs)
        go_on = decoding.decode
        decoding.decode = lambda tokens: go_on(tokens) + likely
        return logits + likely, decoding

    likely = torch.zeros(PACKED.vocabulary, dtype=torch.float64)
    likely[PACKED.call], likely[PACKED.symbols : PACKED.operation], likely[PACKED.end] = 2.0, 1.5, 1.0
    policy.packed_decoding, inner_logits = packed_decoding, policy.logits
    policy.logits = lambda *inputs: inner_logits(*inputs) + likely
    return policy


def drawn(policy, seeds, pick):
    noise = uniforms(seeds, Purpose.SAMPLING, 1, (6, 5, PACKED.cap)).double()
    temperature = torch.tensor([{3: 1.0, 1: 0.7}[seed] for seed in seeds], dtype=torch.float64)
    return sample(policy, PACKED, prompts_of(PACKED, seeds, 6), noise, temperature, pick), temperature


@pytest.mark.parametrize("pick", [inverse_cdf, most_likely, lambda *given: inverse_cdf(*given)])
@pytest.mark.parametrize("name", ["transformer", "llama"])
def test_the_environment_writes_into_packed_completions(name, pick):
    """As into whole ones, and with the same bits for a run alone."""
    policy = packing(name)
    rollout, temperature = drawn(policy, SEEDS, pick)
    written = PACKED.environment(rollout.prompts, rollout.completions)
    theirs = (written >= 0) & rollout.mask
    assert theirs.any() and torch.equal(rollout.completions[theirs], written[theirs])
    read = policy.distributions(rollout.prompts, rollout.completions, temperature)
    expected = read.gather(-1, rollout.completions.unsqueeze(-1)).squeeze(-1).where(rollout.mask & ~theirs, 0.0)
    torch.testing.assert_close(rollout.old_log_probs, expected, **ROUNDED)
    alone, _ = drawn(packing(name, SEEDS[1:]), SEEDS[1:], pick)
    assert all(torch.equal(one[0], both[1]) for one, both in zip(alone, rollout, strict=True))
