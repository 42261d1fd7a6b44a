"""Packed completions: the numbers of the plain transformer, the bits of a replica alone, and no work for ended ones."""

from __future__ import annotations

import pytest
import torch
from policies import policy_of, preference_task, prompts_of, shaken, sort_task, threads  # noqa: F401
from task_choices import length_world, tool
from torch.testing import assert_close

from rlexp.core import exact
from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rollout import decode_packed, inverse_cdf, most_likely, sample
from rlexp.loop.sampling import sample_distorted
from rlexp.models import MODELS, scalar
from rlexp.models.layers import Init
from rlexp.models.packed_decoding import PackedDecoding
from rlexp.models.policy import Policy

SEEDS, PROMPTS, GROUP = (3, 4, 9), 5, 4
# As in test_transformer: float64, the same products added up in another order.
SAME = dict(rtol=1e-10, atol=1e-10)
TEMPERATURE = torch.tensor([0.7, 1.3, 1.0], dtype=torch.float64)
NAMES = ["transformer", "llama"]
TASKS = {"20": sort_task(cap=20), "70": sort_task(cap=70, alphabet=9)}
every_model = pytest.mark.parametrize("name", NAMES)
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def completions(task, seeds=SEEDS, first: int = 0) -> torch.Tensor:
    """Completions that end anywhere, at once and never included, with anything behind their ends."""
    shape = PROMPTS, GROUP, task.cap
    tokens = (uniforms(seeds, Purpose.SAMPLING, 1, shape) * task.vocabulary).long()
    tokens = tokens.masked_fill(tokens == task.end, task.separator)
    ends = (uniforms(seeds, Purpose.SAMPLING, 2, shape[:2]) * (task.cap + 2)).long()
    ends[..., 0, 0], ends[..., 0, 1] = 0, task.cap + 1
    place = torch.arange(task.cap)
    return tokens.masked_fill((place == ends.unsqueeze(-1)) | (place == ends.unsqueeze(-1) + 3), task.end)


def mask_of(task, tokens: torch.Tensor) -> torch.Tensor:
    ends = (tokens == task.end).long()
    return ends.cumsum(-1) == ends


def unpacked(policy: Policy) -> Policy:
    """Return the same policy, reading completions as wholes; for the transformer that of the textbook."""
    name = "llama" if type(policy) is MODELS["llama"] else "transformer_plain"
    whole = policy_of(name, SEEDS, TASKS[str(policy.cap)]).double()
    whole.packs = False
    whole.load_state_dict(policy.state_dict())
    return whole


def slopes(policy, values, mask):
    weights = torch.randn(values.shape, generator=torch.Generator().manual_seed(2), dtype=values.dtype)
    return torch.autograd.grad((values * weights)[mask].sum(), list(policy.parameters()), retain_graph=True)


@every_model
@every_task
def test_log_probs_entropies_and_gradients_are_those_of_whole_completions(name, task):
    policy, tokens = shaken(policy_of(name, SEEDS, task)), completions(task)
    given, mask = (prompts_of(task, SEEDS, PROMPTS), tokens, TEMPERATURE), mask_of(task, tokens)
    oracle = unpacked(policy)
    assert policy.packs and not oracle.packs
    actual, expected = (each.log_probs(*given, entropies=True, distributions=True) for each in (policy, oracle))
    for values, wanted in zip(actual, expected, strict=True):
        assert_close(values[mask], wanted[mask], **SAME)
        assert not values[~mask].any()
        assert_close(slopes(policy, values, mask), slopes(oracle, wanted, mask), **SAME)
    assert_close(policy.distributions(*given)[mask], oracle.distributions(*given)[mask], **SAME)


@every_model
@every_task
def test_what_stands_behind_an_end_has_no_part_in_it(name, task):
    policy, tokens = shaken(policy_of(name, SEEDS, task)), completions(task)
    prompts, mask = prompts_of(task, SEEDS, PROMPTS), mask_of(task, tokens)
    cut = tokens.where(mask, task.pad)
    found = [policy.log_probs(prompts, each, TEMPERATURE).log_probs for each in (tokens, cut)]
    assert torch.equal(*found)
    found[0][~mask].sum().backward()
    assert all(not parameter.grad.any() for parameter in policy.parameters())


@every_model
def test_a_judge_reads_the_end_too(name):
    task = TASKS["20"]
    judge = shaken(policy_of(name, SEEDS, task, outputs=1))
    tokens, prompts = completions(task), prompts_of(task, SEEDS, PROMPTS)
    mask = mask_of(task, tokens)
    packed = scalar.values(judge, prompts, tokens), scalar.last_value(judge, prompts, tokens, mask)
    judge.packs = False
    whole = scalar.values(judge, prompts, tokens), scalar.last_value(judge, prompts, tokens, mask)
    places = torch.cat([torch.ones_like(mask[..., :1]), mask], -1)  # before each token, and after the last
    assert_close(packed[0][places], whole[0][places], **SAME)
    assert_close(packed[1], whole[1], **SAME)
    assert packed[1].unique().numel() == packed[1].numel()


# ---- sampling


def sampled(policy, task, pick=inverse_cdf, seeds=SEEDS, dtype=torch.float64, prompts=PROMPTS, group=GROUP):
    noise = uniforms(seeds, Purpose.SAMPLING, 3, (prompts, group, task.cap)).to(dtype)
    temperature = TEMPERATURE[[SEEDS.index(seed) for seed in seeds]].to(dtype)
    return sample(policy, task, prompts_of(task, seeds, prompts), noise, temperature, pick)


@every_model
@every_task
@pytest.mark.parametrize("pick", [inverse_cdf, most_likely])
def test_both_draw_the_same_tokens(name, task, pick):
    policy = shaken(policy_of(name, SEEDS, task))
    actual, expected = sampled(policy, task, pick), sampled(unpacked(policy), task, pick)
    for field in ("completions", "mask", "finished"):
        assert torch.equal(getattr(actual, field), getattr(expected, field))
    assert_close(actual.old_log_probs, expected.old_log_probs, **SAME)
    if pick is inverse_cdf:
        assert expected.mask.sum(-1).unique().numel() > 3


def test_a_pick_that_looks_at_all_completions_sees_them_in_their_places():
    task = TASKS["20"]
    policy = shaken(policy_of("transformer", SEEDS, task))
    prompts = prompts_of(task, SEEDS, PROMPTS)
    noise = uniforms(SEEDS, Purpose.SAMPLING, 3, (PROMPTS, GROUP, task.cap)).double()
    scale = torch.arange(1.0, 1 + len(SEEDS) * PROMPTS * GROUP, dtype=torch.float64).view(len(SEEDS), PROMPTS, GROUP, 1)

    def distort(log_probs, t):
        return torch.log_softmax(log_probs / (scale * (t + 1)).sqrt(), -1)

    actual, expected = (
        sample_distorted(distort, each, task, prompts, noise, TEMPERATURE) for each in (policy, unpacked(policy))
    )
    assert torch.equal(actual.completions, expected.completions)
    assert_close(actual.old_log_probs, expected.old_log_probs, **SAME)
    assert_close(actual.sampler_log_probs, expected.sampler_log_probs, **SAME)


def test_an_environment_writes_into_completions_that_are_packed():
    task = tool(cap=24)
    policy = shaken(policy_of("transformer", SEEDS, task))
    whole = policy_of("transformer_plain", SEEDS, task).double()
    whole.load_state_dict(policy.state_dict())
    prompts = prompts_of(task, SEEDS, PROMPTS)
    noise = uniforms(SEEDS, Purpose.SAMPLING, 3, (PROMPTS, GROUP, task.cap)).double()
    likely = torch.zeros(task.vocabulary, dtype=torch.float64)
    likely[task.call], likely[task.symbols : task.operation] = 3.0, 2.5

    def distort(log_probs, t):
        return torch.log_softmax(log_probs + likely, -1)

    actual, expected = (sample_distorted(distort, each, task, prompts, noise, TEMPERATURE) for each in (policy, whole))
    written = task.environment(prompts, actual.completions)
    assert ((written >= 0) & actual.mask).any()
    assert torch.equal(actual.completions, expected.completions)
    assert_close(actual.old_log_probs, expected.old_log_probs, **SAME)


def test_completions_that_have_ended_cost_nothing_from_some_token_on(monkeypatch):
    """Of 60 completions those that still go on, and no more than a few others, are in each product."""
    task, rows, decode = TASKS["70"], [], PackedDecoding.decode

    def counted(self, tokens):
        rows.append(len(tokens))
        return decode(self, tokens)

    monkeypatch.setattr(PackedDecoding, "decode", counted)
    rollout = sampled(shaken(policy_of("transformer", SEEDS, task)), task)
    going_on = (rollout.mask.sum(-1, keepdim=True) > torch.arange(1, task.cap)).flatten(0, 2).sum(0).tolist()
    assert len(rows) <= task.cap - 1
    for t, number in enumerate(rows):
        assert going_on[t] <= number
        if t >= 16:
            assert number <= going_on[t - 16] + len(SEEDS) * 8
    if rollout.finished.all():
        assert len(rows) < rollout.mask.sum(-1).max() + 16


def test_all_may_end_with_their_first_token():
    task = TASKS["20"]
    policy = shaken(policy_of("transformer", SEEDS, task))
    rollout = sampled(policy, task, lambda log_probs, noise: torch.full_like(noise, task.end).long())
    assert rollout.mask.sum(-1).eq(1).all() and rollout.finished.all()
    log_probs = policy.log_probs(rollout.prompts, rollout.completions, TEMPERATURE).log_probs
    assert_close(log_probs[rollout.mask], rollout.old_log_probs[rollout.mask], **SAME)
    log_probs.sum().backward()


# ---- completions that share their beginnings


def shared(policy, task, pick=inverse_cdf, seeds=SEEDS, dtype=torch.float64, group=40):
    noise = uniforms(seeds, Purpose.SAMPLING, 3, (PROMPTS, group, task.cap)).to(dtype)
    temperature = TEMPERATURE[[SEEDS.index(seed) for seed in seeds]].to(dtype)
    prompts = prompts_of(task, seeds, PROMPTS)
    return [sample(policy, task, prompts, noise, temperature, pick, shared=each) for each in (True, False)]


@every_model
@pytest.mark.parametrize("task", [TASKS["20"], sort_task(), preference_task()], ids=["long", "short", "no end"])
@pytest.mark.parametrize("pick", [inverse_cdf, most_likely])
def test_shared_beginnings_lead_to_the_same_tokens(name, task, pick):
    actual, expected = shared(shaken(policy_of(name, SEEDS, task)), task, pick)
    for field in ("completions", "mask", "finished"):
        assert torch.equal(getattr(actual, field), getattr(expected, field))
    assert_close(actual.old_log_probs, expected.old_log_probs, **SAME)


def test_each_beginning_is_decoded_once(monkeypatch):
    """Rows are the beginnings that differ and still go on, but for those that fill a tile."""
    task, laid, real = TASKS["20"], [], []
    lay, decode = PackedDecoding.lay, PackedDecoding.decode

    def counted(self, rows):
        laid.append(len(rows))
        return lay(self, rows)

    def noted(self, tokens):
        real.append(laid[-1])
        return decode(self, tokens)

    monkeypatch.setattr(PackedDecoding, "lay", counted)
    monkeypatch.setattr(PackedDecoding, "decode", noted)
    policy = shaken(policy_of("transformer", SEEDS, task))
    noise = uniforms(SEEDS, Purpose.SAMPLING, 3, (PROMPTS, 40, task.cap)).double()
    rollout = sample(policy, task, prompts_of(task, SEEDS, PROMPTS), noise, TEMPERATURE, shared=True)
    assert len(real) == task.cap - 1 > len(laid) // 2
    for t, number in enumerate(real):
        going_on = rollout.mask[..., t + 1]
        beginnings = {
            (replica, prompt, *tokens[: t + 1])
            for replica in range(len(SEEDS))
            for prompt in range(PROMPTS)
            for tokens, on in zip(rollout.completions[replica, prompt].tolist(), going_on[replica, prompt], strict=True)
            if on
        }
        assert number == len(beginnings)


def test_an_environment_writes_into_shared_beginnings():
    task = tool()
    actual, expected = shared(shaken(policy_of("transformer", SEEDS, task)), task)
    assert ((task.environment(actual.prompts, actual.completions) >= 0) & actual.mask).any()
    assert torch.equal(actual.completions, expected.completions)


# ---- bits

WIDE = {"transformer": dict(width=42, layers=2, heads=3, feedforward=75), "llama": dict(width=36, layers=2, heads=3)}


def trained(name, seeds, task):
    """Return what sampling and one pass leave of each replica, float32; a later one draws longer completions."""
    policy = MODELS[name](Init(seeds), task, **WIDE[name])
    with torch.no_grad():
        for parameter in policy.head_parameters():
            for replica, seed in enumerate(seeds):
                parameter[replica] *= 1 + 2 * SEEDS.index(seed)
    rollout = sampled(policy, task, seeds=seeds, dtype=torch.float32, prompts=4, group=3)
    temperature = torch.ones(len(seeds))
    given = rollout.prompts, rollout.completions, temperature
    log_probs, entropies, every = policy.log_probs(*given, entropies=True, distributions=True)
    mask = rollout.mask
    divergences = (every.exp() * every * torch.linspace(-1, 1, task.vocabulary)).sum(-1)
    ((log_probs * torch.linspace(-1, 1, task.cap) + entropies + divergences) * mask).sum().backward()
    found = {f"gradient of {name}": parameter.grad for name, parameter in policy.named_parameters()}
    many, _ = shared(policy, task, seeds=seeds, dtype=torch.float32, group=20)
    found |= {"shared tokens": many.completions, "shared log_probs": many.old_log_probs}
    return found | {"log_probs": log_probs, "entropies": entropies, "tokens": rollout.completions, "mask": mask}


@pytest.mark.bits
@pytest.mark.slow  # each model in stacks of all sizes
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.rare] * (name == "llama")) for name in NAMES])
@pytest.mark.parametrize("path", ["tried", "in pairs"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_replica_has_the_same_bits_alone_and_beside_longer_ones(name, path, count, threads, monkeypatch):  # noqa: F811
    if path == "in pairs":
        monkeypatch.setattr(exact, "trial", lambda *_: False)
    exact.forget()
    task = TASKS["20" if path == "in pairs" else "70"]  # pairs take long
    threads(count)
    together = trained(name, SEEDS, task)
    lengths = together["mask"].sum(-1).float().mean((1, 2))
    assert lengths.max() > 1.3 * lengths.min()
    threads(1)
    for replica, seed in enumerate(SEEDS):
        alone = trained(name, (seed,), task)
        for what, values in alone.items():
            assert torch.equal(values[0], together[what][replica]), what
    exact.forget()


def test_short_answers_and_tasks_without_an_end_are_read_as_they_were():
    tasks = sort_task(cap=17), sort_task(cap=16), preference_task(cap=40), length_world(cap=64)
    for task, packs in zip(tasks, (True, False, False, False), strict=True):
        assert policy_of("transformer", SEEDS, task).packs is packs
        assert policy_of("llama", SEEDS, task).packs is packs


def test_packed_decoding_gives_tokens_of_every_completion():
    task = TASKS["20"]
    policy = shaken(policy_of("transformer", SEEDS, task))
    noise = uniforms(SEEDS, Purpose.SAMPLING, 3, (PROMPTS, GROUP, task.cap)).double()
    with torch.no_grad():
        given = prompts_of(task, SEEDS, PROMPTS), noise, TEMPERATURE
        tokens, log_probs = decode_packed(policy, task, *given, inverse_cdf)
    assert len(tokens) == len(log_probs) == task.cap
    assert all(each.shape == (len(SEEDS), PROMPTS, GROUP) for each in (*tokens, *log_probs))
