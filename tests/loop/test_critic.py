"""The critic: its loss against loops, what it is given, what it begins from, what it leaves alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from axis_choices import CLOSE, bind
from interrupted import jobs, one_of_each, same_in_three_ways, stop_at  # noqa: F401 (a fixture)
from plain_step import Recipe
from reference import gradient
from small_runs import SHORT, SMALL, compose, rows, values
from torch.testing import assert_close
from toy_state import LAYERS, make_experience, make_state, variant

from rlexp.axes import norm
from rlexp.config.schema import load, read
from rlexp.core.errors import ConfigError
from rlexp.loop.critic import Critic, squared_errors, train_critic
from rlexp.loop.data import gather_groups
from rlexp.loop.optimizer import Adam, Schedule
from rlexp.loop.state import Network
from rlexp.loop.step import train_step
from rlexp.models import GRU, scalar
from rlexp.models.layers import Init
from rlexp.record import checkpoint
from rlexp.record.provenance import config_hash
from rlexp.sweep import starts
from rlexp.sweep.build import build
from rlexp.sweep.engine import train_jobs

SEEDS = [0, 1, 2]
GAE = dict(gamma=0.9, lam=0.8, bootstrap=0.5)
RATES = dict(lr=0.01, lr_final=1.0, warmup_steps=0, grad_clip=None)
SETTINGS = Critic(**RATES, coef=0.5, clip=0.1, updates=2, critic_warmup=None)
# Central differences with a step of 1e-6 of squares of order one.
SLOPE = dict(rtol=1e-6, atol=1e-7)
# Rewards are float32 sums of a few numbers of order one.
ROUNDED = dict(rtol=1e-5, atol=1e-6, check_dtype=False)


class Recorder(Adam):
    """An optimizer that keeps every gradient and moves nothing."""

    def __init__(self, module):
        none, one = torch.zeros(len(SEEDS)).double(), torch.ones(len(SEEDS)).double()
        super().__init__(module, Schedule(none, none, one, 1), math.inf * one)
        self.gradients = []

    def step(self):
        self.gradients.append([parameter.grad.clone() for parameter in self.parameters])
        return super().step()


def with_critic(settings=SETTINGS, recipe=None, **more):
    """Return three runs whose norm asks for the values of a critic that records its gradients."""
    chosen = replace(
        variant(recipe or Recipe()),
        norm=bind("norm", "gae", **GAE),
        value_target=lambda token_rewards, values, mask, finished: norm.TARGETS["gae"](
            token_rewards, values, mask, finished, **GAE
        ),
    )
    state = make_state([(chosen, len(SEEDS))], SEEDS, critic=settings, **more)
    module = GRU(Init(SEEDS), state.task, 1, hidden=5, layers=LAYERS).double()
    state.networks["critic"] = Network(module, Recorder(module))
    return state


# ---- the loss


@pytest.mark.holds("S4.5")
@pytest.mark.parametrize("clip", [None, 0.2])
def test_the_errors_are_those_of_a_loop_in_value_and_gradient(clip):
    rng = np.random.default_rng(3)
    new, old, returns = (rng.normal(scale=0.4, size=40) for _ in range(3))
    shape = 2, 2, 10

    def error(v, v_old, target):
        if clip is None:
            return (v - target) ** 2
        return max((v - target) ** 2, (v_old + min(max(v - v_old, -clip), clip) - target) ** 2)

    point = torch.tensor(new, requires_grad=True)
    given = (torch.as_tensor(each).view(shape) for each in (point, old, returns))
    errors, clipped = squared_errors(*given, clip)
    expected = [error(*row) for row in zip(new, old, returns, strict=True)]
    assert_close(errors.flatten(), torch.tensor(expected, dtype=torch.float64), **CLOSE)
    errors.sum().backward()
    slopes = gradient(lambda at: sum(error(*row) for row in zip(at, old, returns, strict=True)), new)
    np.testing.assert_allclose(point.grad.numpy(), slopes, **SLOPE)
    stopped = [clip is not None and error(*row) > (row[0] - row[2]) ** 2 for row in zip(new, old, returns, strict=True)]
    assert clipped.flatten().tolist() == stopped and (clip is None or 5 < sum(stopped) < 35)
    assert all(slope == 0 for slope, stop in zip(slopes, stopped, strict=True) if stop)


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(drop_from_loss=True), Recipe(drop_from_statistics=True)])
def test_an_update_is_the_mean_error_of_the_tokens_that_count(recipe):
    """½ · coef · Σ / n a minibatch, with the values after the critic has moved away from those of the rollout."""
    state = with_critic(recipe=recipe, minibatches=2)
    experience, module = make_experience(state, 1, gather_groups(state, 1)), state.networks["critic"].module
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.05
    row = train_critic(state, experience, True)
    assert len(state.networks["critic"].optimizer.gradients) == SETTINGS.updates * 2
    part = [slice(0, 2), slice(2, 4)]
    expected, wanted = [], []
    for rows_ in part:
        now = scalar.values(module, experience.prompts[:, rows_], experience.completions[:, rows_])[..., :-1]
        mask = experience.mask[:, rows_] & experience.keep[:, rows_, :, None]
        for r in range(len(SEEDS)):
            given = now[r][mask[r]], *(experience.critic[name][r, rows_][mask[r]] for name in ("values", "returns"))
            errors, _ = squared_errors(*(each.view(1, 1, -1) for each in given), 0.1)
            expected.append(0.25 * sum(errors.flatten()) / mask[r].sum())
        wanted.append(torch.autograd.grad(sum(expected[-len(SEEDS) :]), list(module.parameters())))
    means = torch.stack(expected).view(2, -1).mean(0)
    assert_close(row["value/loss"], means.detach(), **CLOSE)
    for step, slopes in enumerate([*wanted, *wanted]):
        assert_close(state.networks["critic"].optimizer.gradients[step], list(slopes), **CLOSE)
    assert (row["value/clipped"] > 0).any() and not experience.mask.all()


def test_metrics_of_values():
    state = with_critic()
    experience = make_experience(state, 1, gather_groups(state, 1))
    row = train_critic(state, experience, True)
    mask = experience.mask & experience.keep.unsqueeze(-1)
    for r in range(len(SEEDS)):
        v, target = (experience.critic[name][r][mask[r]].numpy() for name in ("values", "returns"))
        assert row["value/mean"][r].item() == pytest.approx(v.mean())
        assert row["value/explained_variance"][r].item() == pytest.approx(1 - np.var(target - v) / np.var(target))


# ---- what it is given


def test_the_norm_is_given_rewards_where_they_are_due():
    """Dense rewards where the task pays and judges, the rest of the outcome at the last token, penalties everywhere."""
    given = {}

    def ask(token_rewards, outcomes, token_penalties, mask, values):
        given.update(locals())
        return token_rewards

    state = with_critic(recipe=Recipe(kl_in_reward=0.3))
    (chosen, size) = state.blocks[0]
    paid = 0.1 * torch.arange(5.0).double()

    class Paying(type(state.task)):
        def score(self, *arguments):
            scores = super().score(*arguments)
            return scores._replace(token_rewards=paid.expand(arguments[1].shape))

    def somebody_else(verified):
        return verified

    paying, task_judges = Paying(unjudged=2), chosen.reward
    cases = (state.task, task_judges, 0 * paid), (paying, task_judges, paid), (paying, somebody_else, 0 * paid)
    for task, judge, dense in cases:
        runs = replace(state, task=task, blocks=[(replace(chosen, norm=ask, reward=judge), size)])
        make_experience(runs, 1, gather_groups(runs, 1))
        due = given["token_rewards"] + given["token_penalties"]
        assert_close(due.sum(-1), given["outcomes"], **ROUNDED)
        assert given["token_penalties"].any() and not due[~given["mask"]].any()
        last = given["mask"].cumsum(-1) == given["mask"].sum(-1, keepdim=True)
        early = given["mask"] & ~last & (given["outcomes"] != 0).unsqueeze(-1)
        assert_close(due[early], dense.expand(due.shape)[early], **ROUNDED)
        assert early.any() and given["values"].shape == (*due.shape[:-1], 6)


def test_a_critic_changes_no_policy_that_does_not_look_at_it():
    """Nor draws a number: what is sampled is the same, and the critic is trained after the policy."""
    plain = make_state([(variant(Recipe()), 3)], SEEDS)
    beside = with_critic()
    (chosen, size) = beside.blocks[0]
    beside = replace(
        beside, blocks=[(replace(chosen, norm=variant(Recipe()).norm, value_target=None), size)], critic=None
    )
    for state in (plain, beside):
        train_step(state, 1, False)
    assert all(map(torch.equal, plain.policy.parameters(), beside.policy.parameters()))


# ---- alone


def test_in_the_first_steps_the_critic_alone_is_trained_and_then_both():
    """The policy stands still, its optimizer too; from then on a step is what it was, with rates from the first."""
    state, moved = with_critic(replace(SETTINGS, critic_warmup=2)), []
    for step in (1, 2, 3):
        before = [p.clone() for p in state.policy.parameters()]
        row, updates = train_step(state, step, True), state.optimizer.updates
        moved.append(not all(map(torch.equal, before, state.policy.parameters())))
        assert len(state.networks["critic"].optimizer.gradients) == step * SETTINGS.updates
        assert ("loss/total" in row, "optim/lr" in row, "ratio/mean" in row) == (step > 2,) * 3
        assert updates == max(0, step - 2) and row["value/loss"].isfinite().all()
    assert moved == [False, False, True]
    plain = with_critic()
    assert_close(row["optim/lr"], train_step(plain, 1, True)["optim/lr"], **CLOSE)


def test_a_policy_descends_over_the_steps_that_it_is_updated_in():
    """Its last update has the same rate as without a warm-up: one part of the descent above the end."""
    chosen = ["norm=gae", "critic=value", "steps=10", "lr=1.0", "lr_final=0.5", "minibatches=2"]
    plain, waiting = (build([compose(*SHORT, *SMALL, *chosen, *more)]) for more in ([], ["critic.critic_warmup=4"]))
    assert (plain.optimizer.schedule.total, waiting.optimizer.schedule.total) == (20, 12)
    critics = [state.networks["critic"].optimizer.schedule.total for state in (plain, waiting)]
    assert critics == [20, 20]


@pytest.mark.bits
@pytest.mark.slow
def test_runs_whose_critic_is_trained_first_are_the_same_alone_together_and_resumed(tmp_path, stop_at):  # noqa: F811
    """Stopped at step 3, before the policy has been updated."""
    common = ["critic=value", "critic.critic_warmup=4", "checkpoint_every=2"]
    places = (tmp_path / name for name in ("all", "one", "parts"))
    together = same_in_three_ways(
        *(one_of_each(place, *common, variants=["gae", "gae_decoupled"]) for place in places), stop_at, 3
    )
    for job in together:
        has = {row["step"]: "loss/total" in row for row in rows(job.folder)}
        assert has == {0: False, **{step: step > 4 for step in range(2, 13, 2)}}


def test_configs_from_before_there_was_a_warm_up_mean_none_and_hash_alike(tmp_path):
    now = compose("norm=gae", "critic=value")
    values_now = now.model_dump()
    before = {**values_now, "critic": {k: v for k, v in values_now["critic"].items() if k != "critic_warmup"}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(before, allow_unicode=True), "utf-8")
    assert load(tmp_path / "config.yaml") == now
    assert config_hash(before) == config_hash(values_now)
    values_now["critic"]["critic_warmup"] = 3
    assert config_hash(before) != config_hash(values_now)


# ---- runs

CRITIC = ["critic=value", "norm=gae_whitened", "critic.updates=2", "critic.clip=0.1"]


def test_its_body_is_that_of_the_policy_whose_weights_are_drawn_anew():
    """Of each run, whatever its start's seed: both are drawn from the same numbers, in the same order."""
    chosen = ["critic=value", "norm=gae", "start=random"]
    state = build([compose(*chosen, "seed=0"), compose(*chosen, "seed=1")])
    policy = dict(state.policy.named_parameters())
    critic = dict(state.networks["critic"].module.named_parameters())
    body = [name for name in critic if critic[name].shape == policy[name].shape]
    assert len(body) > len(critic) / 2 and all(torch.equal(critic[name], policy[name]) for name in body)


def test_it_begins_with_the_body_of_the_start_and_a_head_of_its_own(monkeypatch):
    config = compose(*SHORT, *SMALL, *CRITIC, "start=sft", "model=gru", "model.hidden=8", "task=sort_lecture")

    def trained(configs):
        policy = build([config]).policy
        return [{name: torch.full_like(p[0], 0.5) for name, p in policy.named_parameters()}], [""]

    monkeypatch.setattr(starts, "train_starts", trained)
    state = build([config])
    head = state.networks["critic"].module.head.weight.clone()
    starts.apply_starts(state, [config], None)
    policy, critic = (dict(state.networks[name].module.named_parameters()) for name in ("policy", "critic"))
    assert all(torch.equal(policy[name], p) for name, p in critic.items() if not name.startswith("head"))
    assert (policy["head.weight"] == 0.5).all() and torch.equal(critic["head.weight"], head)


@pytest.mark.slow
def test_a_run_with_a_critic_goes_on_where_it_stopped(tmp_path, stop_at):  # noqa: F811
    common = ["critic=value", "critic.updates=2", "critic.warmup_steps=30", "critic.clip=0.1"]
    whole, part = (jobs(tmp_path / name, *common, variants=["gae"], seeds=[0, 1]) for name in ("whole", "part"))
    train_jobs(whole)
    stop_at(8)
    with pytest.raises(KeyboardInterrupt):
        train_jobs(part)
    train_jobs(part)
    for one, other in zip(whole, part, strict=True):
        assert rows(one.folder) == rows(other.folder)
        states = [checkpoint.load(each.folder)["networks"]["critic"] for each in (one, other)]
        assert all(torch.equal(states[0]["parameters"][n], p) for n, p in states[1]["parameters"].items())
        assert states[0]["optimizer"]["updates"] == states[1]["optimizer"]["updates"] == 12 * 2 * 2


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["norm=gae", "critic=value", "steps=8", "critic.critic_warmup=8"],
            "critic.critic_warmup=8: must be below steps=8, or the policy is never updated",
        ),
        (["norm=gae"], "norm=gae: asks for values, and critic=none has none; choose critic=value"),
        (
            ["critic=value"],
            "critic=value: norm=local asks for no values; take critic=none or one that does: "
            "gae, gae_decoupled, gae_length_adaptive, gae_whitened, value_baseline",
        ),
        (
            ["critic=value", "norm=gae", "task=sort_lecture", "model=positional"],
            "model=positional reads no completions and cannot be a critic; choose one that does: "
            "gru, llama, transformer, transformer_plain",
        ),
    ],
)
def test_what_cannot_be_is_one_line(overrides, line):
    with pytest.raises(ConfigError) as error:
        read(values(*overrides))
    assert error.value.problems == (line,)
