"""A sampler that is not quite the trainer: what it samples and records, and what the corrections make of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import reference
import torch
import torch.nn.functional as F
from axis_choices import CLOSE, bind, choices, numbers, same_bits
from plain_step import Recipe
from policies import OF_ANY_TASK, policy_of, preference_task, prompts_of, sort_task
from small_runs import compose
from toy_state import make_state, variant

from rlexp.config.checks import remarks
from rlexp.core.streams import Purpose, normals, uniforms
from rlexp.loop import sampling, step
from rlexp.loop.rollout import sample
from rlexp.loop.sampling import sample_distorted
from rlexp.loop.step import train_step
from rlexp.models.policy import gather_log_probs

SEEDS = (3, 8, 5)
# Rounding of float32 log-probabilities of order ten, of two ways to add up the same products.
ROUNDED = dict(rtol=1e-5, atol=1e-5)
NOISY, BF16 = bind("sampler", "noisy", std=0.5), bind("sampler", "bf16")
CORRECTIONS = [choice for choice in choices("mismatch") if choice.name != "none"]
OPEN = {"low": 0.0, "high": 1e9}


def given(task, prompts=6, group=4):
    noise = uniforms(SEEDS, Purpose.SAMPLING, 1, (prompts, group, task.cap))
    return prompts_of(task, SEEDS, prompts), noise, torch.ones(len(SEEDS))


# ---- samplers


def test_an_exact_sampler_and_noise_without_a_deviation_are_the_policy():
    log_probs = numbers(2, 3, 4, 7)["log_probs"].log_softmax(-1)
    assert bind("sampler", "exact")(log_probs) is log_probs
    silent = bind("sampler", "noisy", std=0.0)(log_probs, torch.randn(log_probs.shape))
    torch.testing.assert_close(silent, log_probs, **CLOSE)


@pytest.mark.parametrize("std", [0.01, 0.1])
def test_the_divergence_of_a_noisy_sampler_is_that_of_its_docstring(std):
    """std²/2 · (1 − Σ π²), over 4000 draws of the errors; the standard error is about 1 %."""
    log_probs = torch.linspace(0, 3, 6).double().log_softmax(-1).view(1, 1, 1, 6).expand(1, 1, 4000, 6)
    errors = normals([1], Purpose.SAMPLER, 0, (1, 4000, 6)).double()
    distorted = bind("sampler", "noisy", std=std)(log_probs, errors)
    divergence = (distorted.exp() * (distorted - log_probs)).sum(-1).mean().item()
    expected = std**2 / 2 * (1 - log_probs[0, 0, 0].exp().square().sum().item())
    assert divergence == pytest.approx(expected, rel=0.05)


def test_a_bf16_sampler_keeps_eight_bits():
    log_probs = numbers(2, 3, 4, 7)["log_probs"].log_softmax(-1).float()
    distorted = BF16(log_probs)
    shift = (distorted - log_probs).abs().max()
    assert 0 < shift < log_probs.abs().max() * 2**-8 * 2
    assert same_bits(distorted, F.log_softmax(log_probs.to(torch.bfloat16).float(), -1))


@pytest.mark.parametrize("task", [sort_task(), preference_task()], ids=["ends", "full"])
@pytest.mark.parametrize("name", OF_ANY_TASK)
def test_tokens_come_from_the_sampler_and_old_log_probs_from_the_policy(name, task):
    policy, (prompts, noise, temperature) = policy_of(name, SEEDS, task), given(task)

    def distort(log_probs, t):
        return NOISY(log_probs, normals(SEEDS, Purpose.SAMPLER, t, log_probs.shape[1:]))

    rollout = sample_distorted(distort, policy, task, prompts, noise, temperature)
    every = policy.distributions(rollout.prompts, rollout.completions, temperature).detach()
    old = gather_log_probs(every, rollout.completions).where(rollout.mask, 0.0)
    torch.testing.assert_close(rollout.old_log_probs, old, **ROUNDED)
    for t in range(task.cap):
        expected = gather_log_probs(distort(every[..., t, :], t), rollout.completions[..., t]).where(
            rollout.mask[..., t], 0.0
        )
        torch.testing.assert_close(rollout.sampler_log_probs[..., t], expected, **ROUNDED)
    plain = sample(policy, task, prompts, noise, temperature)
    assert plain.sampler_log_probs is plain.old_log_probs and not torch.equal(plain.completions, rollout.completions)


def test_a_sampler_that_changes_nothing_gives_the_rollout_of_the_policy():
    task = sort_task()
    policy, arguments = policy_of("gru", SEEDS, task), given(task)
    plain = sample(policy, task, *arguments)
    through = sample_distorted(lambda log_probs, t: log_probs, policy, task, *arguments)
    assert all(torch.equal(a, b) for a, b in zip(plain, through, strict=True))


# ---- corrections


@pytest.mark.parametrize("choice", CORRECTIONS, ids=str)
def test_without_a_disagreement_losses_are_the_same_bits(choice):
    every = numbers(3, 3, 4, 5, dtype=torch.float32)
    every["sampler_log_probs"] = every["old_log_probs"]
    assert same_bits(choice(*(every[name] for name in choice.needs)), every["losses"])


@pytest.mark.parametrize("kind", ["truncate", "mask"])
def test_of_one_token_the_sequence_is_the_token(kind):
    every = numbers(3, 3, 4, 1)
    one, whole = (bind("mismatch", f"{level}_{kind}", low=0.7, high=1.4) for level in ("token", "sequence"))
    torch.testing.assert_close(*(choice(*(every[name] for name in choice.needs)) for choice in (one, whole)), **CLOSE)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_inside_the_bounds_truncation_and_mask_agree_and_outside_the_mask_drops(level):
    every = numbers(3, 3, 4, 5) | {"losses": torch.ones(3, 3, 4, 5).double()}
    truncate, mask = (bind("mismatch", f"{level}_{kind}", low=0.7, high=1.4) for kind in ("truncate", "mask"))
    kept, dropped = (choice(*(every[name] for name in choice.needs)) for choice in (truncate, mask))
    inside = (kept > 0.7) & (kept < 1.4)
    assert torch.equal(kept[inside], dropped[inside]) and not dropped[~inside].any()
    assert set(kept[~inside].tolist()) == {0.7, 1.4} and inside.any()


def with_gaps(shape=(3, 3, 4, 9)):
    """Numbers of completions with runs of tokens that count, between others that do not."""
    every = numbers(*shape)
    random = torch.Generator().manual_seed(5)
    return every | {"mask": torch.rand(shape, generator=random) < 0.6}


@pytest.mark.parametrize("name", ["segment_truncate", "segment_reject"])
def test_a_segment_ends_where_a_token_does_not_count(name):
    every, choice = with_gaps(), bind("mismatch", name, low=0.8, high=1.2)
    every["sampler_log_probs"] = every["sampler_log_probs"].masked_fill(~every["mask"], math.nan)
    found = choice(*(every[each] for each in choice.needs))
    for r in range(3):
        given = [every[each][r].numpy() for each in choice.needs]
        wanted = torch.from_numpy(reference.REFERENCES["mismatch"][name](*given, low=0.8, high=1.2))
        torch.testing.assert_close(found[r][every["mask"][r]], wanted[every["mask"][r]], **CLOSE)
    dropped = (found == 0) & every["mask"]
    assert (name == "segment_truncate" or dropped.any()) and not dropped[every["mask"]].all()


@pytest.mark.parametrize("name", ["segment_truncate", "segment_reject"])
def test_a_segment_is_corrected_as_a_completion_of_its_own(name):
    """Two turns with an answer between them, and each of them alone; an infinite ratio in the first stays there."""
    every, choice = numbers(3, 3, 4, 9), bind("mismatch", name, low=0.8, high=1.2)
    every["mask"] = torch.ones(3, 3, 4, 9, dtype=torch.bool)
    every["mask"][..., 4] = False
    whole = choice(*(every[each] for each in choice.needs))
    for part in (slice(0, 4), slice(5, 9)):
        cut = {each: x[..., part] if x.dim() == 4 else x for each, x in every.items()}
        torch.testing.assert_close(whole[..., part], choice(*(cut[each] for each in choice.needs)), **CLOSE)
    every["old_log_probs"][..., 1] = -math.inf
    broken = choice(*(every[each] for each in choice.needs))
    torch.testing.assert_close(broken[..., 5:], whole[..., 5:], rtol=0, atol=1e-6)
    least = 0.8 if name == "segment_truncate" else 0.0
    torch.testing.assert_close(broken[..., :4], least * every["losses"][..., :4], **CLOSE)


def test_without_gaps_a_segment_is_the_completion():
    every = numbers(3, 3, 4, 5)
    segment, whole = (bind("mismatch", f"{kind}_reject", low=0.8, high=1.2) for kind in ("segment", "geometric"))
    found, wanted = (choice(*(every[name] for name in choice.needs)) for choice in (segment, whole))
    assert torch.equal(found[every["mask"]], wanted[every["mask"]])


def test_where_no_environment_writes_a_segment_says_that_it_is_the_completion():
    chosen = "mismatch=segment_reject", "sampler=bf16"
    assert [note.partition(":")[0] for note in remarks(compose(*chosen))] == ["mismatch=segment_reject task=sort"]
    assert not [*remarks(compose(*chosen, "task=tool"))]


def exact_gradient(correction, logits, sampler, advantages):
    """Expected gradient of −A log π over all completions of two independent tokens drawn from ``sampler``."""
    logits = logits.clone().requires_grad_()
    pairs = [(a, b) for a in range(3) for b in range(3)]
    mask = torch.ones(1, 1, 2, dtype=torch.bool)
    total = 0
    for (a, b), advantage in zip(pairs, advantages, strict=True):
        log_probs = torch.stack([logits.log_softmax(-1)[0, a], logits.log_softmax(-1)[1, b]]).view(1, 1, 2)
        drawn = torch.stack([sampler[0, a], sampler[1, b]]).view(1, 1, 2)
        losses = -advantage * log_probs
        if correction:
            losses = correction(losses, log_probs.detach(), drawn, mask, torch.tensor(math.inf))
        total = total + drawn.sum().exp() * losses.sum()
    return torch.autograd.grad(total, logits)[0]


def test_the_product_makes_the_gradient_unbiased_the_token_ratio_does_not():
    """Over all nine completions of two tokens: the gradient of the policy's own expected loss, to rounding."""
    random = torch.Generator().manual_seed(6)
    logits, errors = torch.randn(2, 2, 3, generator=random).double()
    advantages = torch.randn(9, generator=random).double().tolist()
    sampler = (logits + errors).log_softmax(-1)
    wanted = exact_gradient(None, logits, logits.log_softmax(-1), advantages)
    biased = exact_gradient(None, logits, sampler, advantages)
    product = exact_gradient(bind("mismatch", "sequence_truncate", **OPEN), logits, sampler, advantages)
    token = exact_gradient(bind("mismatch", "token_truncate", **OPEN), logits, sampler, advantages)
    torch.testing.assert_close(product, wanted, **CLOSE)
    assert (biased - wanted).abs().max() > 0.1 and (token - wanted).abs().max() > 0.01


# ---- the training step


def mixed(*samplers, mismatch=None, seeds=(0, 1, 2), **options):
    """Return a state with a variant for each sampler, one replica each."""
    base = replace(variant(Recipe()), mismatch=mismatch or bind("mismatch", "none"))
    blocks = [(replace(base, sampler=each), 1) for each in samplers]
    return make_state(blocks, list(seeds), dtype=torch.float32, minibatches=2, inner_steps=2, **options)


def test_a_run_with_an_exact_sampler_does_not_notice_neighbours_with_noise():
    exact = bind("sampler", "exact")
    correction = bind("mismatch", "token_truncate", low=0.0, high=2.0)
    together = mixed(NOISY, exact, BF16, mismatch=correction)
    alone = mixed(exact, mismatch=correction, seeds=[1])
    rows = [(train_step(together, at, True), train_step(alone, at, True)) for at in (1, 2, 3)]
    for all_of_them, one in rows:
        for name, values in one.items():
            torch.testing.assert_close(values[0], all_of_them[name][1], rtol=0, atol=0, equal_nan=True)
    assert rows[0][0]["mismatch/kl"][1] == 0 and (rows[0][0]["mismatch/kl"][[0, 2]] > 0).all()
    assert rows[0][0]["mismatch/weight"][1] == 1 and rows[0][0]["mismatch/weight"][0] != 1


def test_noise_is_drawn_only_for_the_runs_that_ask_for_it(monkeypatch):
    drawn, real = [], sampling.normals
    monkeypatch.setattr(sampling, "normals", lambda *address, **at: (drawn.append(address[0]), real(*address, **at))[1])
    train_step(mixed(bind("sampler", "exact"), NOISY, BF16), 1, False)
    assert drawn == [[1]]
    monkeypatch.setattr(sampling, "sample_distorted", None)
    train_step(mixed(bind("sampler", "exact"), seeds=[1]), 1, False)


def test_the_policy_loss_is_weighed_and_the_penalty_is_not(monkeypatch):
    """Weights of zero: no policy gradient, and the penalty as it was."""
    recipe = Recipe(kl_in_loss=0.3)
    nothing = bind("mismatch", "token_mask", low=1e8, high=1e9)
    rows = []
    for correction in (bind("mismatch", "none"), nothing):
        one = replace(variant(recipe), mismatch=correction, sampler=NOISY)
        rows.append(train_step(make_state([(one, 2)], [0, 1]), 1, True))
    assert not rows[1]["loss/policy"].any() and rows[0]["loss/policy"].any()
    torch.testing.assert_close(rows[1]["loss/kl"], rows[0]["loss/kl"], **CLOSE)
    assert (rows[1]["mismatch/dropped"] == 1).all() and not rows[0]["mismatch/dropped"].any()


def test_the_measured_divergence_is_that_of_the_noise():
    """κ − 1 − log κ over the sampled tokens against the exact sum, on a policy and its noise; five standard errors."""
    random = torch.Generator().manual_seed(2)
    policy = torch.randn(8, generator=random).double().log_softmax(-1)
    sampler = (policy + 0.3 * torch.randn(8, generator=random).double()).log_softmax(-1)
    tokens = torch.multinomial(sampler.exp(), 100_000, replacement=True, generator=random).view(1, 1, 1, -1)
    offered = {
        "old_log_probs": policy[tokens],
        "sampler_log_probs": sampler[tokens],
        "mask": torch.ones_like(tokens) > 0,
    }
    row = step.metrics.mismatch_metrics(bind("mismatch", "none"), offered)
    exact = (sampler.exp() * (sampler - policy)).sum().item()
    ratios = (policy - sampler).exp()
    spread = (sampler.exp() * (ratios - 1 - ratios.log() - exact).square()).sum().sqrt().item()
    assert abs(row["mismatch/kl"].item() - exact) < 5 * spread / math.sqrt(100_000)
