"""Laws of the axes: what holds for every choice whatever its formula; clip, agg, shaping and filter in particular."""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import CLOSE, bind, choices, inputs, numbers, objective, same_bits, slopes
from hypothesis import given
from hypothesis import strategies as st

LEADING = [(), (1,), (3,), (2, 3)]
POISON = [math.inf, -math.inf, math.nan]
GARBAGE = [1e4, math.inf, math.nan]
REPLICAS, P, G, T = 6, 3, 4, 5


# ---- every choice of every axis


def test_replicas_do_not_mix(any_choice):
    stack = inputs(any_choice, REPLICAS, P, G, T)
    together = any_choice(*stack)
    assert all(same_bits(together[r], any_choice(*(x[r] for x in stack))) for r in range(REPLICAS))


@pytest.mark.parametrize("leading", LEADING, ids=str)
def test_any_number_of_leading_axes(any_choice, leading):
    stack = inputs(any_choice, REPLICAS, P, G, T)
    count = math.prod(leading)
    output = any_choice(*(x[:count].reshape(leading + x.shape[1:]) for x in stack))
    expected = any_choice(*stack)[:count]
    assert same_bits(output, expected.reshape(leading + expected.shape[1:]))


@pytest.mark.parametrize("poison", POISON)
def test_a_broken_replica_leaves_the_others_bitwise_alone(any_choice, poison):
    stack = inputs(any_choice, REPLICAS, P, G, T)
    broken = [x.clone() for x in stack]
    for x in broken:
        x[1] = poison if x.is_floating_point() else x[1]
    others = torch.arange(REPLICAS) != 1
    assert same_bits(any_choice(*broken)[others], any_choice(*stack)[others])
    if any_choice.axis in ("clip", "kl", "agg", "mismatch"):
        assert same_bits(slopes(any_choice, *broken)[others], slopes(any_choice, *stack)[others])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_dtype_is_preserved(any_choice, dtype):
    output = any_choice(*inputs(any_choice, REPLICAS, P, G, T, dtype=dtype))
    assert output.dtype == (torch.bool if any_choice.axis == "filter" else dtype)


def test_inputs_are_left_as_they_were(any_choice):
    given_, before = inputs(any_choice, REPLICAS, P, G, T), inputs(any_choice, REPLICAS, P, G, T)
    any_choice(*given_)
    assert all(same_bits(x, y) for x, y in zip(given_, before, strict=True))


def test_a_large_run_has_the_same_bits_alone_and_in_a_batch(any_choice):
    """A reduction over several large axes at once would be split between threads when it is alone."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        stack = inputs(any_choice, 3, 128, 16, 32, dtype=torch.float32)
        assert same_bits(any_choice(*stack)[1:2], any_choice(*(x[1:2] for x in stack)))
    finally:
        torch.set_num_threads(threads)


# ---- padding


def padding_reaches_nothing(chosen, garbage):
    """1B-17: −inf − −inf is NaN and NaN · 0 is NaN, so a mask that multiplies does not save the loss."""
    clean = numbers(REPLICAS, P, G, T)
    padding = ~clean["mask"]
    dirty = clean | {key: clean[key].masked_fill(padding, garbage) for key in clean if key.endswith("log_probs")}

    def loss_and_slope(batch):
        log_probs = batch["log_probs"].clone().requires_grad_()
        loss = objective(chosen, 0.1, batch | {"log_probs": log_probs})
        return loss.detach(), *torch.autograd.grad(loss.sum(), log_probs)

    return all(same_bits(a, b) for a, b in zip(loss_and_slope(clean), loss_and_slope(dirty), strict=True))


DEFAULT = {"norm": bind("norm", "center"), "clip": bind("clip", "ppo", low=0.2, high=0.2)}
DEFAULT |= {"kl": bind("kl", "k3"), "agg": bind("agg", "token")}
LOSS = [choice for axis in ("clip", "mismatch", "kl", "agg") for choice in choices(axis)]


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("choice", LOSS, ids=str)
def test_padding_reaches_neither_loss_nor_gradient(choice, garbage):
    assert padding_reaches_nothing(DEFAULT | {choice.axis: choice}, garbage)


def test_a_run_without_a_single_kept_token_has_loss_zero(agg_choice):
    every = numbers(P, G, T)
    every["mask"] = torch.zeros_like(every["mask"])
    tensors = [every[name] for name in agg_choice.needs]
    assert agg_choice(*tensors) == 0 and slopes(agg_choice, *tensors).eq(0).all()


# ---- clip

# Their tokens of large covariance get no gradient, which is what they are for.
NOT_THE_POLICY_GRADIENT = {"clip_cov"}
# They pull to the old policy whatever the advantage.
PULLED = {"dro", "kl_cov"}
COVARIANCES = {"clip_cov", "kl_cov"}


def clip_tensors(choice, every):
    return [every[name] for name in choice.needs]


def one_advantage_a_completion(**changes):
    """Return tensors whose advantages are the same for all tokens of a completion, as outcome rewards give them."""
    every = numbers(REPLICAS, P, G, T)
    return every | {"advantages": every["advantages"][..., :1].expand_as(every["advantages"])} | changes


def kept_slopes(choice, every):
    """Return the gradient of the sum of the losses of the tokens that count."""
    log_probs = every["log_probs"].clone().requires_grad_()
    losses = choice(*clip_tensors(choice, every | {"log_probs": log_probs})).where(every["mask"], 0.0)
    return torch.autograd.grad(losses.sum(), log_probs)[0]


def test_on_policy_gradient_is_the_policy_gradient(clip_choice):
    """At ρ = 1 every policy loss has slope −A, so that one update per rollout cannot tell them apart."""
    every = one_advantage_a_completion()
    every["old_log_probs"] = every["log_probs"]
    expected = -every["advantages"].where(every["mask"], 0.0)
    actual = kept_slopes(clip_choice, every)
    if clip_choice.name in NOT_THE_POLICY_GRADIENT:
        assert actual.eq(expected).logical_or(actual.eq(0)).all() and not actual.equal(expected)
    else:
        torch.testing.assert_close(actual, expected, **CLOSE)


def test_no_advantage_no_gradient(clip_choice):
    every = one_advantage_a_completion()
    actual = kept_slopes(clip_choice, every | {"advantages": torch.zeros_like(every["advantages"])})
    assert actual.any() == (clip_choice.name in PULLED)


def test_what_is_masked_has_no_gradient_and_gives_none(clip_choice):
    """Other log-probabilities and advantages where nothing counts: the same losses and slopes where it does."""
    every = one_advantage_a_completion()
    mask, other = every["mask"], numbers(REPLICAS, P, G, T, seed=4)
    mixed = {name: every[name].where(mask, other[name]) for name in ("log_probs", "old_log_probs", "uniforms")}
    # the mean advantage of a covariance is over what counts
    mixed["advantages"] = every["advantages"].where(mask, 7.0)
    expected, actual = kept_slopes(clip_choice, every), kept_slopes(clip_choice, every | mixed)
    assert same_bits(actual, expected) and not actual[~mask].any()


def test_completions_do_not_mix(clip_choice):
    """A completion alone has the gradient that it has in its minibatch."""
    if clip_choice.name in COVARIANCES:
        pytest.skip("covariances are those of the minibatch")
    every = one_advantage_a_completion()
    whole = kept_slopes(clip_choice, every)
    alone = kept_slopes(clip_choice, {name: x[:, :1, :1] if x.dim() > 2 else x for name, x in every.items()})
    assert same_bits(alone, whole[:, :1, :1])


def test_ppo_with_far_bounds_is_unclipped():
    tokens = inputs(bind("clip", "unclipped"), REPLICAS, P, G, T)
    far, unclipped = bind("clip", "ppo", low=1.0, high=1e6), bind("clip", "unclipped")
    assert same_bits(far(*tokens), unclipped(*tokens)) and same_bits(slopes(far, *tokens), slopes(unclipped, *tokens))


def test_two_sided_is_dual():
    every = one_advantage_a_completion()
    bounds = dict(low=0.2, high=0.28)
    dual, two_sided = bind("clip", "dual", c=1.4, **bounds), bind("clip", "two_sided", delta=1.4, **bounds)
    for one in (dual, two_sided):
        assert not same_bits(kept_slopes(one, every), kept_slopes(bind("clip", "ppo", **bounds), every))
    torch.testing.assert_close(kept_slopes(dual, every), kept_slopes(two_sided, every), **CLOSE)


def test_a_schedule_ends_where_it_says():
    every = one_advantage_a_completion()
    schedule = bind("clip", "scheduled", low=0.2, high=0.4, high_final=0.1)
    for progress, high in {0.0: 0.4, 0.5: 0.25, 1.0: 0.1}.items():
        at = every | {"progress": torch.full_like(every["progress"], progress)}
        actual, expected = kept_slopes(schedule, at), kept_slopes(bind("clip", "ppo", low=0.2, high=high), at)
        torch.testing.assert_close(actual, expected, **CLOSE)


def test_cispo_keeps_the_gradient_that_ppo_clips():
    every = one_advantage_a_completion()
    ratio = (every["log_probs"] - every["old_log_probs"]).exp()
    cispo = bind("clip", "cispo", lower=0.0, upper=1.2)
    expected = (-ratio.clamp(max=1.2) * every["advantages"]).where(every["mask"], 0.0)
    torch.testing.assert_close(kept_slopes(cispo, every), expected, **CLOSE)
    absolute = bind("clip", "cispo", lower=0.0, upper=0.2)  # TRL's epsilon_high left unset: every weight is 0.2
    torch.testing.assert_close(
        kept_slopes(absolute, every | {"old_log_probs": every["log_probs"]}),
        (-0.2 * every["advantages"]).where(every["mask"], 0.0),
        **CLOSE,
    )


def test_gspo_token_is_gspo_where_a_completion_has_one_advantage():
    """Equal values everywhere; equal gradients of the sum over a completion's tokens."""
    every, bounds = one_advantage_a_completion(), dict(low=0.1, high=0.1)
    gspo, token = bind("clip", "gspo", **bounds), bind("clip", "gspo_token", **bounds)
    torch.testing.assert_close(gspo(*clip_tensors(gspo, every)), token(*clip_tensors(token, every)), **CLOSE)
    torch.testing.assert_close(kept_slopes(gspo, every), kept_slopes(token, every), **CLOSE)
    assert kept_slopes(gspo, every).any() and not kept_slopes(gspo, every)[every["mask"]].all()


def test_sapo_gate_is_one_at_the_old_policy_and_falls_on_both_sides():
    """The gradient over that of −ρA: 4 σ(1 − σ), largest at ρ = 1."""
    sapo, far = bind("clip", "sapo", tau_positive=1.0, tau_negative=2.0), torch.linspace(-2, 1, 31).double()
    log_probs = far.view(1, 1, -1) - 2.5
    tensors = [log_probs, torch.full_like(log_probs, -2.5), torch.ones_like(log_probs), log_probs < 0]
    gate = slopes(sapo, *tensors) / slopes(bind("clip", "unclipped"), *tensors)
    assert gate.argmax() == 20 and gate[0, 0, 20].item() == pytest.approx(1)
    assert (gate[0, 0, :21].diff() > 0).all() and (gate[0, 0, 20:].diff() < 0).all()


def test_opsm_drops_whole_completions_that_are_unlikely_now_and_bad():
    every = one_advantage_a_completion()
    drift = (every["old_log_probs"] - every["log_probs"]).where(every["mask"], 0.0).sum(-1) / every["mask"].sum(-1)
    dropped = (drift > 0.1) & (every["advantages"][..., 0] < 0)
    ppo = bind("clip", "ppo", low=0.2, high=0.2)
    expected = kept_slopes(ppo, every).where(~dropped.unsqueeze(-1), 0.0)
    assert dropped.any() and not dropped.all()
    assert same_bits(kept_slopes(bind("clip", "opsm", low=0.2, high=0.2, delta=0.1), every), expected)


@pytest.mark.parametrize("share", [1e-9, 0.3])
def test_a_covariance_loss_treats_at_least_one_token_apart_and_the_share_of_them(share):
    every = one_advantage_a_completion()
    mask = every["mask"]
    k = (share * mask.sum((-1, -2, -3))).floor().clamp(min=1)
    kl_cov, unclipped = bind("clip", "kl_cov", share=share, coef=0.5), bind("clip", "unclipped")
    apart = kl_cov(*clip_tensors(kl_cov, every)) != unclipped(*clip_tensors(unclipped, every))
    assert torch.equal(apart.sum((-1, -2, -3)), k)
    clip_cov = bind("clip", "clip_cov", low=9.0, high=9.0, share=share, lb=-99.0, ub=99.0)
    dropped = (kept_slopes(clip_cov, every) == 0) & mask
    assert torch.equal(dropped.sum((-1, -2, -3)), k)


# ---- agg

# What a completion that is masked throughout does to the denominator.
LEAVES, STAYS = {"token", "bnpo", "prompt"}, {"sequence", "sequence_sum", "dr_grpo"}


def aggregate(choice, every, **changes):
    """Aggregate as a training step does: ``mean_tokens`` is that of the whole rollout unless it is given."""
    whole = {"mean_tokens": every["mask"].to(every["losses"].dtype).sum((-1, -2, -3))}
    return choice(*((whole | every | changes)[name] for name in choice.needs))


def rollout():
    """Losses and mask; the last completion of each group does not count, nor does the second prompt of replica 0."""
    every = numbers(REPLICAS, 4, G, T)
    mask = every["mask"].clone()
    mask[..., -1, :] = False
    mask[0, 1] = False
    return {"losses": every["losses"], "mask": mask}


@pytest.mark.only("token", "bnpo", "sequence", "prompt")
def test_a_constant_loss_is_its_own_mean(agg_choice):
    every = numbers(REPLICAS, P, G, T)
    full = {"losses": every["losses"].fill_(2.5), "mask": every["mask"]}
    torch.testing.assert_close(aggregate(agg_choice, full), full["losses"][:, 0, 0, 0], **CLOSE)


def test_dr_grpo_of_a_constant_loss_is_the_share_of_its_constant_length():
    losses, mask = inputs(bind("agg", "dr_grpo", length=7), REPLICAS, P, G, T)
    share = mask.double().sum((-1, -2, -3)) / (P * G * 7)
    torch.testing.assert_close(bind("agg", "dr_grpo", length=7)(losses.fill_(2.5), mask), 2.5 * share, **CLOSE)


@pytest.mark.only("token", "bnpo", "prompt")
def test_masking_equals_slicing_away(agg_choice):
    losses = numbers(REPLICAS, P, G, T)["losses"]
    mask = torch.zeros_like(losses, dtype=torch.bool)
    mask[..., :3, :2] = True
    sliced = losses[..., :3, :2]
    expected = aggregate(agg_choice, {"losses": sliced, "mask": torch.ones_like(sliced).bool()})
    torch.testing.assert_close(aggregate(agg_choice, {"losses": losses, "mask": mask}), expected, **CLOSE)


def test_what_a_masked_completion_does_to_the_denominator(agg_choice):
    """It leaves it, as if it were not there, or it stays, as a completion of loss 0."""
    every = rollout()
    without = {name: x[..., :-1, :] for name, x in every.items()}
    expected = aggregate(agg_choice, without) * (1 if agg_choice.name in LEAVES else (G - 1) / G)
    assert agg_choice.name in LEAVES | STAYS
    torch.testing.assert_close(aggregate(agg_choice, every), expected, **CLOSE)


def test_a_masked_prompt_stays_in_the_mean_over_prompts():
    every, prompt = rollout(), bind("agg", "prompt")
    others = {name: x[:, [0, 2, 3]] for name, x in every.items()}
    torch.testing.assert_close(prompt(*every.values())[0], 0.75 * prompt(*others.values())[0], **CLOSE)


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_splitting_changes_no_gradient_but_that_of_bnpo(agg_choice, parts):
    """The mean of the minibatches' losses against the loss of the whole rollout, value and slopes."""
    every = rollout()
    losses = every["losses"].requires_grad_()
    whole = aggregate(agg_choice, every)
    mean_tokens = every["mask"].double().sum((-1, -2, -3)) / parts
    pieces = zip(losses.chunk(parts, 1), every["mask"].chunk(parts, 1), strict=True)
    split = sum(
        aggregate(agg_choice, {"losses": piece, "mask": mask}, mean_tokens=mean_tokens) for piece, mask in pieces
    )
    differences = [split / parts - whole, *torch.autograd.grad((split / parts - whole).sum(), losses)]
    same = all(each.abs().max() < 1e-12 for each in differences)
    assert same == (agg_choice.name != "bnpo" or parts == 1)


def test_token_weighs_every_token_of_the_rollout_the_same_and_bnpo_does_not():
    every = rollout()
    losses = every["losses"].requires_grad_()
    mean_tokens = every["mask"].double().sum((-1, -2, -3)) / 2

    def weights(choice):
        pieces = zip(losses.chunk(2, 1), every["mask"].chunk(2, 1), strict=True)
        total = sum(aggregate(choice, {"losses": a, "mask": b}, mean_tokens=mean_tokens).sum() for a, b in pieces)
        slope = torch.autograd.grad(total, losses)[0]
        return [slope[r][every["mask"][r]] for r in range(REPLICAS)]

    assert all((each == each[0]).all() for each in weights(bind("agg", "token")))
    assert not any((each == each[0]).all() for each in weights(bind("agg", "bnpo")))


def test_luspo_is_gspo_times_the_length():
    """TRL: the mean over completions of length · loss of the completion."""
    every = one_advantage_a_completion()
    gspo = bind("clip", "gspo", low=0.1, high=0.1)
    losses = gspo(*clip_tensors(gspo, every))
    lengths = every["mask"].double().sum(-1)
    expected = (losses[..., 0] * lengths).mean((-1, -2))
    torch.testing.assert_close(bind("agg", "sequence_sum")(losses, every["mask"]), expected, **CLOSE)


@given(length=st.integers(1, T))
def test_with_equal_lengths_all_aggregations_coincide_up_to_the_length(length):
    losses = numbers(REPLICAS, P, G, T)["losses"]
    every = {"losses": losses, "mask": (torch.arange(T) < length).expand_as(losses)}
    token = aggregate(bind("agg", "token"), every)
    for other in (
        *(bind("agg", name) for name in ("bnpo", "sequence", "prompt")),
        bind("agg", "dr_grpo", length=length),
    ):
        torch.testing.assert_close(aggregate(other, every), token, **CLOSE)
    torch.testing.assert_close(aggregate(bind("agg", "sequence_sum"), every), token * length, **CLOSE)


# ---- shaping and filter


def shaped(choice, rewards, *, lengths=3.0, finished=True, drawn=0.5, hashed=0.5):
    """Shape rewards ``[N]``; numbers stand for all completions. Luck of 0.5 is no noise and no wrong verdict."""
    given_ = {"lengths": lengths, "finished": finished, "drawn": drawn, "hashed": hashed}
    offered = {name: torch.as_tensor(value, dtype=None if name == "finished" else torch.float64).expand(1, len(rewards))
               for name, value in given_.items()}  # fmt: skip
    offered["rewards"] = torch.tensor([rewards], dtype=torch.float64)
    return choice(*(offered[name] for name in choice.needs)).view(-1)


@given(lengths=st.tuples(st.integers(1, 40), st.integers(1, 40)))
def test_a_longer_completion_is_never_rewarded_for_its_length(shaping_choice, lengths):
    shorter, longer = shaped(shaping_choice, [1.0, 1.0], lengths=sorted(lengths))
    assert longer <= shorter <= 1


def test_a_completion_is_shaped_by_itself(shaping_choice):
    """Each completion alone gives the same bits: no shaping looks at a neighbour."""
    every = inputs(shaping_choice, REPLICAS, P, G, T)
    together = shaping_choice(*every)
    for p, g in [(0, 0), (P - 1, G - 2)]:
        one = (slice(None), slice(p, p + 1), slice(g, g + 1))
        assert same_bits(shaping_choice(*(x[one] for x in every)), together[one])


@pytest.mark.parametrize("luck", [0.0, 0.001, 0.999])
@pytest.mark.parametrize("finished", [True, False])
def test_a_completion_without_a_reward_gets_none(shaping_choice, luck, finished):
    output = shaped(shaping_choice, [math.nan], lengths=40.0, finished=finished, drawn=luck, hashed=luck)
    assert output.isnan().all()


@pytest.mark.parametrize("name", ["noise", "noise_persistent"])
def test_noise_is_normal(name):
    """Over a fine grid of uniform numbers: mean 0, deviation std, and 0.135 % beyond three deviations."""
    evenly = ((torch.arange(100_000) + 0.5) / 100_000).double()
    output = shaped(bind("shaping", name, std=0.5), [2.0] * 100_000, drawn=evenly, hashed=evenly)
    assert output.mean().item() == pytest.approx(2, abs=1e-6)
    assert output.std().item() == pytest.approx(0.5, rel=1e-4)  # the grid leaves the outermost tails out
    assert (output > 3.5).double().mean().item() == pytest.approx(0.00135, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_and_the_largest_number_of_a_stream_give_finite_noise(dtype):
    ends = torch.tensor([[0.0, 1 - 2.0**-24]], dtype=torch.float32)
    assert bind("shaping", "noise", std=1.0)(torch.zeros(1, 2, dtype=dtype), ends).isfinite().all()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0)])
@pytest.mark.parametrize("name", ["flips", "flips_persistent"])
def test_flips_have_their_rates_and_shrink_the_expected_reward(name, low, high):
    """arXiv 2510.00915: E[r'] of right and wrong differ by (1 − ρ0 − ρ1) times what their rewards differ by."""
    evenly = ((torch.arange(1000) + 0.5) / 1000).double()
    flips = bind("shaping", name, low=low, high=high, false_positives=0.1, false_negatives=0.3)
    wrong, right = (shaped(flips, [reward] * 1000, drawn=evenly, hashed=evenly) for reward in (low, high))
    assert (wrong == high).double().mean().item() == pytest.approx(0.1, abs=1e-9)
    assert (right == low).double().mean().item() == pytest.approx(0.3, abs=1e-9)
    assert (right.mean() - wrong.mean()).item() == pytest.approx(0.6 * (high - low), abs=1e-9)


@pytest.mark.parametrize(("a", "b"), [(2.0, -1.0), (-0.5, 3.0)])
def test_affine_rewards_and_the_norms_that_ignore_them(a, b):
    rewards, keep = (numbers(REPLICAS, P, G, T)[name] for name in ("rewards", "keep"))
    other = bind("shaping", "affine", a=a, b=b)(rewards)
    center, local = bind("norm", "center"), bind("norm", "local", eps=1e-12, ddof=1)
    torch.testing.assert_close(center(other, keep), a * center(rewards, keep), **CLOSE)
    torch.testing.assert_close(local(other, keep), math.copysign(1, a) * local(rewards, keep), **CLOSE)


@pytest.mark.only("none", "overlong")
def test_filters_keep_what_finished(filter_choice):
    (finished,) = inputs(filter_choice, REPLICAS, P, G, T)
    assert filter_choice(finished)[finished].all()


CONSTANTS = [0.7, 1.1, 0.1, 1 / 3, 1e-8, 1e30]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("size", [2, 8, 10, 32, 33])
@pytest.mark.parametrize("value", CONSTANTS)
def test_equal_rewards_are_zero_variance_and_the_next_number_is_not(value, size, dtype):
    rewards = torch.full((2, size), value, dtype=dtype)
    rewards[1, size // 2] = rewards[1, 0].nextafter(torch.tensor(torch.inf, dtype=dtype))
    keep = bind("filter", "zero_variance")(rewards, torch.ones_like(rewards, dtype=torch.bool))
    assert not keep[0].any() and keep[1].all()


def test_a_deviation_of_zero_would_not_have_found_them():
    """Why zero_variance compares extremes."""
    found = [
        torch.full((size,), value, dtype=torch.float32).std(correction=0).item()
        for value in CONSTANTS
        for size in (10, 32, 33)
    ]
    assert any(found)


@pytest.mark.only("zero_variance", "difficulty")
def test_a_filter_of_groups_keeps_all_of_a_group_or_nothing(filter_choice):
    keep = filter_choice(*inputs(filter_choice, REPLICAS, P, G, T))
    assert torch.equal(keep.all(-1), keep.any(-1))


@pytest.mark.only("zero_variance", "difficulty")
def test_rewards_that_are_not_there_do_not_decide(filter_choice):
    rewards, scored = inputs(filter_choice, REPLICAS, P, G, T)
    assert same_bits(filter_choice(rewards.where(scored, 1e9), scored), filter_choice(rewards, scored))
    assert not filter_choice(rewards, torch.zeros_like(scored)).any()


@given(share=st.sampled_from([0.01, 0.1, 0.2, 0.5, 0.8, 1.0]))
def test_top_entropy_keeps_its_share_and_the_most_uncertain(share):
    chosen = bind("filter", "top_entropy", share=share)
    entropies, mask = inputs(chosen, REPLICAS, P, G, T)
    keep = chosen(entropies, mask)
    assert not (keep & ~mask).any()
    assert keep.sum((-1, -2, -3)).tolist() == [max(1, round(share * n)) for n in mask.sum((-1, -2, -3)).tolist()]
    lowest = entropies.masked_fill(~keep, torch.inf).amin((-1, -2, -3))
    assert (lowest > entropies.masked_fill(keep | ~mask, -torch.inf).amax((-1, -2, -3))).all()
    garbage = entropies.masked_fill(~mask, math.nan)
    assert same_bits(chosen(garbage, mask), keep)
    assert same_bits(chosen(entropies.flip(-3), mask.flip(-3)), keep.flip(-3))


def test_tokens_of_equal_entropy_stay_together():
    mask = torch.ones(2, 3, 4, dtype=torch.bool)
    assert bind("filter", "top_entropy", share=0.1)(torch.full((2, 3, 4), 0.7), mask).all()
    assert not bind("filter", "top_entropy", share=0.1)(torch.full((2, 3, 4), 0.7), ~mask).any()
