"""Sampling of the most likely tokens: which they are, what is recorded of them, and the policy that is trained."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import yaml
from axis_choices import CLOSE, bind, numbers
from plain_step import Recipe
from reference import gradient
from reference_mismatch import most_likely as loops
from small_runs import values
from toy_state import Conversation, Toy, make_state, variant

from rlexp.axes.sampler import OUTSIDE, truncated
from rlexp.config.schema import Config, read
from rlexp.core.errors import ConfigError
from rlexp.loop import requested, truncation
from rlexp.loop.data import Stale, prefill_buffer
from rlexp.loop.pipeline import Pipeline
from rlexp.loop.rollout import inverse_cdf
from rlexp.loop.sampling import sample_completions
from rlexp.loop.state import Experience
from rlexp.loop.step import loss_terms, train_step
from rlexp.models import Transformer
from rlexp.models.policy import TokenLogProbs
from rlexp.record.disk import saved_config
from rlexp.record.provenance import config_hash
from rlexp.sweep.build import build

CUTS = [(1, None), (3, None), (7, None), (99, None), (None, 1e-9), (None, 0.5), (None, 0.9), (None, 1.0), (4, 0.8)]
SEEDS = [0, 1, 2]


def distributions(*shape, seed=3):
    random = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(shape, generator=random, dtype=torch.float64)).log_softmax(-1)


def kept(log_probs):
    return truncation.inside(log_probs)


# ---- which tokens


@pytest.mark.parametrize(("top_k", "top_p"), CUTS)
def test_the_tokens_that_are_left_are_those_of_the_loops(top_k, top_p):
    log_probs = distributions(40, 7)
    log_probs[0, :3], log_probs[1] = log_probs[0, 0], -math.log(7)  # equals
    found = truncated(log_probs, top_k, top_p)
    for mine, whole in zip(found, log_probs, strict=True):
        wanted = torch.tensor(loops(whole.tolist(), top_k, top_p if top_p != 1 else None), dtype=torch.float64)
        torch.testing.assert_close(mine.where(kept(mine), -math.inf), wanted, **CLOSE)
        assert kept(mine).equal(wanted.isfinite()) and (mine[~kept(mine)] == OUTSIDE).all()
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(40, dtype=torch.float64), **CLOSE)


def test_without_numbers_nothing_is_computed():
    log_probs = distributions(4, 7)
    assert truncated(log_probs, None, None) is log_probs


@pytest.mark.parametrize(("top_k", "top_p"), [(3, None), (None, 0.7), (4, 0.8)])
def test_its_gradient_is_that_of_the_tokens_that_are_left(top_k, top_p):
    logits, slants = distributions(6, 5), distributions(6, 5, seed=4)
    logits.requires_grad_()
    found = truncated(logits.log_softmax(-1), top_k, top_p)
    (slope,) = torch.autograd.grad((found.where(kept(found), 0.0) * slants).sum(), logits)
    for row, mine in enumerate(slope):

        def weighed(point, row=row):
            point = torch.tensor(point).double()
            left = loops(point.log_softmax(-1).tolist(), top_k, top_p)
            return sum(a * b for a, b in zip(left, slants[row].tolist(), strict=True) if a > -math.inf)

        wanted = torch.tensor(gradient(weighed, logits[row].detach().numpy()))
        torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-7)
    assert slope[~kept(found)].abs().max() < 1e-15  # rounding of the two softmaxes


@pytest.mark.parametrize("top_p", [0.2, 0.5, 0.9])
def test_the_nucleus_is_the_smallest_set_with_its_share(top_p):
    log_probs = distributions(200, 9)
    there = kept(truncated(log_probs, None, top_p))
    share = (log_probs.exp() * there).sum(-1)
    least = log_probs.exp().where(there, 2.0).amin(-1)
    assert (share >= top_p).all() and (share - least < top_p).all()


def test_which_tokens_are_left_does_not_depend_on_their_order():
    log_probs, order = distributions(50, 8), torch.randperm(8, generator=torch.Generator().manual_seed(1))
    log_probs[:, :3] = log_probs[:, :1]  # equals, which a sort may turn round
    for cut in CUTS:
        assert kept(truncated(log_probs, *cut))[:, order].equal(kept(truncated(log_probs[:, order], *cut)))


@pytest.mark.parametrize(("top_k", "top_p"), CUTS)
def test_they_are_those_of_transformers(top_k, top_p):
    """Without equals, of which Transformers' nucleus keeps what its sort puts last."""
    warpers = pytest.importorskip("transformers").generation.logits_process
    log_probs = distributions(100, 9)
    theirs = log_probs
    theirs = theirs if top_k is None else warpers.TopKLogitsWarper(top_k)(None, theirs)
    theirs = theirs if top_p in (None, 1.0) else warpers.TopPLogitsWarper(top_p)(None, theirs)
    mine = truncated(log_probs, top_k, top_p)
    assert kept(mine).equal(theirs.isfinite())
    torch.testing.assert_close(mine.where(kept(mine), -math.inf), theirs.log_softmax(-1), **CLOSE)


def test_no_number_draws_a_token_that_is_left_out():
    log_probs = truncated(distributions(1000, 9).float(), None, 0.6)
    largest = 1 - 2**-24  # of the random numbers: the last float32 below 1
    for number in (0.0, 1e-30, 0.5, largest):
        tokens = inverse_cdf(log_probs, torch.full((1000,), number))
        assert kept(log_probs.gather(-1, tokens.unsqueeze(-1))).all()


# ---- the world of all strings, exactly

WORLD = ["task=enumerable", "task.symbols=3", "task.cap=3", "task.good=0", "model=tabular", "model.std=0.7"]
PLAIN = ["norm=none", "clip=naive", "agg=token", "entropy_coef=0.0", "logger=none", "minibatches=1"]


def config_of(*overrides) -> Config:
    return read(values(*WORLD, *PLAIN, *overrides))


def every_string(state):
    strings = state.task.every_completion(torch.device("cpu"))
    prompts = torch.full((1, 1, 1), state.task.first_question)
    rewards = state.task.rewards.proxy
    return prompts, strings.view(1, 1, *strings.shape), rewards.view(1, 1, -1)


def drawn_from(state, prompts, strings, cut):
    """Log-probabilities of all strings, token by token, of the policy that is cut and of the whole one."""
    whole = state.policy.distributions(prompts, strings, state.temperature)
    pair = truncated(whole, *cut), whole
    return [each.gather(-1, strings.unsqueeze(-1)).squeeze(-1) for each in pair]


def expected_gradient(state):
    """The gradient that the training step expects: over all strings, as often as they are drawn."""
    (one, _), prompts, strings, rewards = state.blocks[0], *every_string(state)
    read = state.policy.log_probs(prompts, strings, state.temperature, distributions=True)
    old, _ = drawn_from(state, prompts, strings, (one.top_k, one.top_p))
    chance = old.detach().where(kept(old), -math.inf).sum(-1).exp()
    mask = torch.ones_like(strings, dtype=torch.bool)
    weighed = (chance * rewards).unsqueeze(-1).expand(mask.shape)
    old = old.detach().where(kept(old), read.log_probs.detach())
    given = dict(prompts=prompts, completions=strings, mask=mask, keep=mask[..., 0], rewards=rewards, critic={})
    given |= {"advantages": weighed, "prompt_numbers": prompts[..., 0]}
    given |= {f"{name}_log_probs": old for name in ("old", "ref", "sampler")}
    part = Experience(**given)
    (log_probs, *_), _ = truncation.as_trained(state.blocks, read, part)
    loss = loss_terms(one, log_probs, None, part, {"mean_tokens": torch.ones(1)})["loss/policy"]
    return torch.autograd.grad(-loss.sum(), state.policy.table.weight)[0]


def gradient_of_the_objective(state, cut):
    """∇ Σ p(string) reward(string) of the policy that is cut; which tokens it keeps has no gradient."""
    prompts, strings, rewards = every_string(state)
    mine, _ = drawn_from(state, prompts, strings, cut)
    chance = mine.where(kept(mine), -math.inf).sum(-1).exp()
    return torch.autograd.grad((chance * rewards).sum(), state.policy.table.weight)[0]


def bias_by_hand(state, cut):
    """Σ p_cut(string) reward(string) Σ_t ∇ log Z_t, Z_t what the whole policy gives to the tokens that are kept."""
    prompts, strings, rewards = every_string(state)
    mine, whole = drawn_from(state, prompts, strings, cut)
    chance = mine.where(kept(mine), -math.inf).sum(-1).exp().detach()
    shares = (whole - mine).where(kept(mine), 0.0).sum(-1)
    return torch.autograd.grad((chance * rewards * shares).sum(), state.policy.table.weight)[0]


TRAINED = ["sampler.training=truncated"]
ROUNDED = dict(rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("cut", [["sampler.top_k=2"], ["sampler.top_p=0.7"], ["sampler.top_k=2", "sampler.top_p=0.8"]])
def test_trained_as_it_is_sampled_the_gradient_is_that_of_the_objective_and_else_it_is_biased(cut):
    """By the gradient of the probability that is cut off, over all 27 strings; a tenth of the gradient or more."""
    state = build([config_of(*cut, *TRAINED)])
    one = state.blocks[0][0]
    both = one.top_k, one.top_p
    wanted = gradient_of_the_objective(state, both)
    torch.testing.assert_close(expected_gradient(state), wanted, **ROUNDED)
    other = build([config_of(*cut)])
    bias = expected_gradient(other) - wanted
    torch.testing.assert_close(bias, bias_by_hand(other, both), **ROUNDED)
    assert bias.norm() > 0.1 * wanted.norm() > 0
    # nor is it that of the whole policy's objective
    assert (expected_gradient(other) - gradient_of_the_objective(other, (None, None))).norm() > 0.1 * wanted.norm()


@pytest.mark.parametrize("training", [[], TRAINED], ids=["whole", "truncated"])
def test_strings_come_as_often_as_the_cut_policy_says_and_what_is_recorded_is_its_own(training):
    state = build([config_of("sampler.top_p=0.7", *training, "group_size.completions=4096", "group_size.prompts=1")])
    prompts, strings, _ = every_string(state)
    noise = torch.rand(1, 1, 4096, 3, generator=torch.Generator().manual_seed(0))
    rollout = sample_completions(state, state.policy, prompts, noise, 1, 0)
    mine, whole = (each.detach() for each in drawn_from(state, prompts, rollout.completions, (None, 0.7)))
    torch.testing.assert_close(rollout.sampler_log_probs, mine, **ROUNDED)
    torch.testing.assert_close(rollout.old_log_probs, mine if training else whole, **ROUNDED)
    chance, _ = drawn_from(state, prompts, strings, (None, 0.7))
    chance = chance.detach().sum(-1).exp().flatten()
    places = (rollout.completions.view(-1, 3) * torch.tensor([9, 3, 1])).sum(-1)
    found = places.bincount(minlength=27) / 4096
    assert (found[chance == 0] == 0).all()
    assert ((found - chance).abs() < 5 * (chance * (1 - chance) / 4096).sqrt() + 1e-9).all()


# ---- the training step


def cut_state(*, recipe=None, top_p=0.6, training=True, data=None, task=None, sampler=None, seeds=SEEDS, **more):
    one = replace(variant(recipe or Recipe()), top_p=top_p, trains_truncated=training)
    one = replace(one, sampler=sampler) if sampler else one
    settings = dict(dtype=torch.float32, minibatches=1, inner_steps=3) | more
    state = make_state([(one, len(seeds))], seeds, task=task, data=data, **settings)
    if data:
        state = replace(state, buffer=data.empty(state))
        prefill_buffer(state)
    return state


def test_the_first_update_is_on_policy_to_the_bit():
    for model in (None, Transformer):
        more = {"model": model, "hyperparameters": dict(width=6, layers=2, heads=3, feedforward=11)} if model else {}
        row = train_step(cut_state(inner_steps=1, **more), 1, True)
        assert all((row[name] == 1).all() for name in ("ratio/min", "ratio/max"))
        assert (row["mismatch/kl"] == 0).all() and (row["ratio/outside"] == 0).all()
        row = train_step(cut_state(inner_steps=1, training=False, **more), 1, True)
        assert (row["ratio/max"] == 1).all() and (row["mismatch/kl"] > 0.01).all() and "ratio/outside" not in row


LOSSES = {
    "ppo": dict(low=0.2, high=0.2),
    "naive": {},
    "gspo": dict(low=3e-4, high=4e-4),
    "cispo": dict(lower=0.5, upper=1.5),
    "sapo": dict(tau_positive=1.0, tau_negative=1.05),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("bound", [20.0, None])
def test_tokens_that_the_policy_can_draw_no_longer_leave_everything_finite(name, bound):
    clip = bind("clip", name, **LOSSES[name])
    state = cut_state(
        recipe=Recipe(kl_in_loss=0.3, entropy_bonus=0.1), data=Stale(age=2), sampler=bind("sampler", "noisy", std=1.0)
    )
    blocks = [
        (replace(one, clip=clip, log_ratio_bound=bound, anchor=bind("anchor", "proximal")), size)
        for one, size in state.blocks
    ]
    state, seen = replace(state, blocks=blocks), 0
    for step in range(1, 6):
        row = train_step(state, step, True)
        seen += row["ratio/outside"].sum().item()
        assert all(
            values.isfinite().all() for key, values in row.items() if "unjudged" not in key and "length" not in key
        ), row
    assert seen > 0.05
    assert all(weights.isfinite().all() for weights in state.policy.parameters())


def test_metrics_are_of_the_policy_that_is_trained():
    """Of one token alone the entropy is 0; a policy that cannot draw what was sampled is no infinite distance away."""
    state = cut_state(top_p=1e-9, inner_steps=1)
    row = train_step(state, 1, True)
    assert (row["policy/entropy"].abs() < 1e-6).all() and (row["kl/ref_exact"] == row["kl/ref_k1"]).all()
    assert (row["kl/ref_k1"] > 0.5).all()  # log of what the reference gives to the token
    whole = train_step(cut_state(top_p=1e-9, inner_steps=1, training=False), 1, True)
    assert (whole["policy/entropy"] > 1).all()
    state = cut_state(data=Stale(age=2))
    drifts = torch.stack([train_step(state, step, True)["data/drift"] for step in range(1, 6)])
    assert (drifts < 100).all() and drifts.max() > 0


def test_a_token_outside_has_no_gradient_and_the_others_have_theirs():
    """Its log-probability is the old one, as a constant; a policy of all tokens is left as it is, beside it."""
    whole = distributions(2, 1, 3, 4, 6).requires_grad_()
    found = numbers(2, 1, 3, 4)
    tokens = torch.randint(6, (2, 1, 3, 4), generator=torch.Generator().manual_seed(2))
    part = Experience(
        **{name: found.get(name) for name in Experience._fields} | {"critic": {}, "kept": {}, "completions": tokens}
    )
    read = TokenLogProbs(whole.gather(-1, tokens.unsqueeze(-1)).squeeze(-1), None, whole)
    one = replace(variant(Recipe()), top_k=2, trains_truncated=True)
    (log_probs, entropies, _), outside = truncation.as_trained([(one, 1), (variant(Recipe()), 1)], read, part)
    (outside,) = outside.values()
    left_out = outside[0].bool()
    assert 0 < left_out.sum() < left_out.numel() and not outside[1].any() and entropies is None
    assert log_probs[0][left_out].equal(part.old_log_probs[0][left_out]) and log_probs[1].equal(read.log_probs[1])
    (slope,) = torch.autograd.grad(log_probs[0][left_out].sum(), whole, retain_graph=True)
    assert not slope.any()
    (slope,) = torch.autograd.grad(log_probs.sum(), whole)
    assert (slope[0].abs().sum(-1) > 0).equal(~left_out)


def test_a_run_has_the_same_bits_alone_and_beside_other_samplers():
    base, cuts = variant(Recipe(entropy_bonus=0.1)), [{}, {"top_k": 2}, {"top_p": 0.6, "trains_truncated": True}]
    variants = [replace(base, **cut) for cut in cuts]
    sizes = dict(width=6, layers=2, heads=3, feedforward=11)
    for task in (Toy(), Long()):
        options = dict(task=task, model=Transformer, hyperparameters=sizes, inner_steps=2, minibatches=2)
        together = make_state([(one, 1) for one in variants], SEEDS, dtype=torch.float32, **_copied(options))
        alone = [
            make_state([(one, 1)], [seed], dtype=torch.float32, **_copied(options)) for seed, one in enumerate(variants)
        ]
        assert together.policy.packs == (task.cap > 16)
        for step in (1, 2, 3):
            row, rows = train_step(together, step, True), [train_step(state, step, True) for state in alone]
            for place, one in enumerate(rows):
                for name, value in one.items():
                    torch.testing.assert_close(value[0], row[name][place], rtol=0, atol=0, equal_nan=True, msg=name)


def _copied(options):
    return {key: dict(value) if isinstance(value, dict) else value for key, value in options.items()}


class Long(Toy):
    """Answers so long that a transformer packs them."""

    cap = 20


@pytest.mark.parametrize("task", [Toy(), Conversation()], ids=["toy", "conversation"])
def test_one_rollout_of_a_pipeline_is_fresh_to_the_bit(task):
    whole = Pipeline(rollouts=1, tokens=task.cap, max_age=None)
    rows = [
        [train_step(state, step, True) for step in (1, 2)]
        for state in (cut_state(task=task), cut_state(task=task, data=whole))
    ]
    for fresh, piped in zip(*rows, strict=True):
        assert all(torch.equal(fresh[name].nan_to_num(), piped[name].nan_to_num()) for name in fresh)


def test_the_proximal_policy_is_cut_too():
    state = cut_state(data=Stale(age=2), inner_steps=1)
    blocks = [(replace(one, anchor=bind("anchor", "proximal")), size) for one, size in state.blocks]
    state = replace(state, blocks=blocks)
    for step in range(1, 4):
        groups = state.data.gather(state, step)
        found = requested.tensors_of_rollout(state, step, groups)["proximal_log_probs"]
        rollout = groups.rollout
        whole = state.policy.distributions(rollout.prompts, rollout.completions, state.temperature).detach()
        mine = truncated(whole, None, 0.6).gather(-1, rollout.completions.unsqueeze(-1)).squeeze(-1)
        there = kept(mine) & rollout.mask
        torch.testing.assert_close(found[there], mine[there], rtol=0, atol=0)
        assert found[~kept(mine)].equal(rollout.old_log_probs[~kept(mine)])
        train_step(state, step, False)
    assert (~there & rollout.mask).any()


# ---- configs


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["distillation=jsd", "teacher.network=reference"],
            "distillation=jsd sampler.training=truncated: compares all tokens",
        ),
        (["data=demonstrations", "data.oracle=2"], "data.oracle=2 sampler.training=truncated: the policy may not have"),
        (["task=tool", "task.train_on_environment=true"], "task.train_on_environment=true sampler.training=truncated:"),
    ],
)
def test_what_asks_for_tokens_that_are_left_out_is_refused_in_a_line(overrides, line):
    with pytest.raises(ConfigError) as error:
        read(values("sampler=top_p_trained", *overrides))
    assert [problem.startswith(line) for problem in error.value.problems] == [True]
    read(values("sampler=top_p", *overrides))


@pytest.mark.parametrize("key", ["sampler.top_k=0", "sampler.top_p=0.0", "sampler.top_p=1.5", "sampler.training=whole"])
def test_another_number_is_refused(key):
    with pytest.raises(ConfigError) as error:
        read(values(key))
    assert error.value.problems[0].startswith(key.rstrip("0").rstrip("."))


def test_configs_that_were_saved_before_are_read_and_are_the_same_run(tmp_path):
    config = read(values("sampler=noisy")).model_dump(mode="json")
    before = config | {"sampler": {"name": "noisy", "std": 0.1}}
    assert config_hash(before) == config_hash(config)
    assert config_hash(config | {"sampler": config["sampler"] | {"top_p": 0.9}}) != config_hash(config)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(before | {"format": 1}))
    assert saved_config(tmp_path / "config.yaml")["sampler"] == config["sampler"]


def test_a_run_from_python_has_its_keys():
    config = Config(**{"sampler": "top_p_trained", "sampler.top_p": 0.8, "steps": 1, "log_every": 1, "logger": "none"})
    written = {key: value for key, value in config.sampler.model_dump().items() if value is not None}
    assert written == {"name": "exact", "top_p": 0.8, "training": "truncated"}
