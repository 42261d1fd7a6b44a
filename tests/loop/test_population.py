"""A population in the place of a policy: who completes what, how it is rewarded, where the weights go, whole runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from interrupted import same_in_three_ways, stop_at  # noqa: F401 (a fixture)
from plain_step import Recipe
from small_runs import SHORT, SMALL, compose, rows, values
from toy_state import GROUP, PROMPTS, Toy, make_state, variant

from rlexp.axes.optimizer import FUNCTIONS, evolution_strategies
from rlexp.config.checks import population_problems, remarks
from rlexp.config.schema import read
from rlexp.core.errors import ConfigError
from rlexp.core.streams import Purpose, normals
from rlexp.loop.data import gather_groups
from rlexp.loop.optimizer import Optimizer, Schedule, flat
from rlexp.loop.population import fitness
from rlexp.loop.rollout import sample
from rlexp.loop.step import train_step
from rlexp.sweep.build import bucket_key
from rlexp.sweep.job import Job

SIGMAS = 0.3, 0.1
SEEDS = [3, 1]
WAY = ["optimizer=evolution_strategies", "minibatches=1", "norm=none", "clip=naive", "entropy_coef=0", "grad_clip=null"]
CLOSE = dict(rtol=1e-9, atol=1e-11)  # float64 sums of some hundred numbers of order one


def evolving(task=None):
    """Runs of the toy whose weights a population moves, each with a deviation of its own."""
    own = variant(Recipe())
    chosen = [replace(own, optimizer=partial(evolution_strategies, sigma=sigma)) for sigma in SIGMAS]

    def optimizer(policy, schedule, limits):
        return Optimizer(policy, schedule, limits, [(each.optimizer, 1) for each in chosen])

    return make_state([(each, 1) for each in chosen], SEEDS, task=task, adam=optimizer)


def weights(state):
    return flat(state.policy.parameters()).clone()


def noise_of(state, replica):
    """Return what is on the weights of a run's members in its first step, ``[G, N]``."""
    width = weights(state).shape[-1]
    return normals([SEEDS[replica]], Purpose.POPULATION, 0, (GROUP, width))[0].double()


def test_the_completions_of_a_member_are_those_of_its_weights():
    state = evolving()
    rollout = gather_groups(state, 1).rollout
    before = weights(state)
    uniforms = state.uniforms(Purpose.SAMPLING, 1, PROMPTS, GROUP, state.task.cap)
    for member in range(GROUP):
        other = evolving()
        for replica, sigma in enumerate(SIGMAS):
            moved = before[replica] + sigma * noise_of(state, replica)[member]
            for parameter, part in zip(
                other.policy.parameters(),
                moved.split([p[0].numel() for p in other.policy.parameters()]),
                strict=True,
            ):
                parameter.data[replica] = part.view_as(parameter[replica])
        theirs = sample(
            other.policy, state.task, rollout.prompts, uniforms[:, :, member : member + 1], state.temperature
        )
        assert torch.equal(theirs.completions[:, :, 0], rollout.completions[:, :, member])
        assert torch.equal(theirs.mask[:, :, 0], rollout.mask[:, :, member])
        torch.testing.assert_close(theirs.old_log_probs[:, :, 0], rollout.old_log_probs[:, :, member], **CLOSE)
    assert torch.equal(weights(state), before)


@pytest.mark.parametrize("task", [Toy(), Toy(unjudged=2)], ids=["all judged", "some unjudged"])
def test_a_step_is_that_of_loops(task):
    """Rewards by hand from lists, z-scores, and a sum over members of what each has on its weights.

    The toy's rewards are float32, and moves of the order of one.
    """
    state = evolving(task)
    before, rollout = weights(state), gather_groups(state, 1).rollout
    rates = state.optimizer.schedule.rates(0)
    train_step(state, 1, True)
    for replica, sigma in enumerate(SIGMAS):
        means = []
        for member in range(GROUP):
            rewards = []
            for prompt in range(PROMPTS):
                tokens = rollout.completions[replica, prompt, member][rollout.mask[replica, prompt, member]].tolist()
                rewards.append(task.judge(rollout.prompts[replica, prompt].tolist(), tokens))
            means.append(np.nanmean(rewards))
        z = (np.array(means) - np.mean(means)) / np.std(means)
        step = sum(score * each.numpy() for score, each in zip(z, noise_of(state, replica), strict=True))
        wanted = before[replica].numpy() + rates[replica].item() / (GROUP * sigma) * step
        np.testing.assert_allclose(weights(state)[replica].numpy(), wanted, rtol=0, atol=1e-6)
        assert np.abs(wanted - before[replica].numpy()).max() > 1e-3


def test_many_members_find_the_gradient():
    """With fitness linear in the weights z · ε has the mean g / |g|, whatever its scale: five standard errors of it."""
    random = torch.Generator().manual_seed(4)
    members, slope = 40_000, torch.tensor([3.0, -2.0, 0.5, 0.0])
    noise = torch.randn(1, members, 4, generator=random, dtype=torch.float64)
    given = dict(noise=noise, fitness=7 + 0.01 * (noise @ slope.double()), rates=torch.ones(1).double())
    move = evolution_strategies(gradient=torch.full((1, 4), torch.nan).double(), sigma=0.5, **given)
    torch.testing.assert_close(-0.5 * move[0].float(), slope / slope.norm(), rtol=0, atol=5 * (2 / members) ** 0.5)


def test_equal_members_move_nothing():
    noise = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(1))
    move = evolution_strategies(torch.ones(2, 7), noise, torch.full((2, 5), 0.3), torch.ones(2), sigma=0.1)
    assert not move.any()


def test_a_member_without_a_reward_counts_as_the_mean_of_the_others():
    rewards = torch.tensor([[[1.0, torch.nan, 4.0], [3.0, torch.nan, 9.0]]])
    keep = torch.tensor([[[True, True, True], [True, True, False]]])
    assert fitness(rewards, keep).tolist() == [[2.0, 3.0, 4.0]]


def test_rewards_rise_without_a_gradient():
    """Of the toy from .57 of a random policy; runs end between .85 and 1.25."""
    chosen = replace(variant(Recipe()), optimizer=partial(evolution_strategies, sigma=0.1))

    def optimizer(policy, schedule, limits):
        constant = Schedule(torch.full_like(limits, 0.05), torch.zeros_like(limits), torch.ones_like(limits), 60)
        return Optimizer(policy, constant, limits, [(chosen.optimizer, 2)])

    state = make_state([(chosen, 2)], SEEDS, adam=optimizer, group=32, prompts=16)
    before = gather_groups(state, 1).rewards.total.mean((1, 2))
    for step in range(1, 61):
        train_step(state, step, False)
    after = gather_groups(state, 61).rewards.total.mean((1, 2))
    assert (after - before > 0.25).all(), (before, after)


@pytest.mark.bits
@pytest.mark.slow
@pytest.mark.parametrize(
    "model", ["transformer", *(pytest.param(name, marks=pytest.mark.rare) for name in ("llama_10k", "gru"))]
)
def test_runs_are_the_same_alone_together_and_resumed(tmp_path, stop_at, model):  # noqa: F811
    ways = {"one": [], "two": ["optimizer.sigma=0.1"], "shaped": ["shaping=overlong", "filter=overlong"]}

    def jobs(folder):
        for name, way in ways.items():
            (folder / name).mkdir(parents=True)
            several = [*SHORT, *SMALL, *WAY, *way, f"model={model}", "steps=6", "checkpoint_every=3", "task.longest=2"]
            yield Job(compose(*several), folder / name, name, name)

    together = same_in_three_ways(*(list(jobs(tmp_path / place)) for place in ("all", "one", "parts")), stop_at, 5)
    assert not any(rows(job.folder)[-1]["optim/grad_norm"] for job in together)
    assert len({rows(job.folder)[-1]["eval/reward"] for job in together}) > 1


def test_a_population_trains_beside_no_gradient():
    keys = {bucket_key(compose("minibatches=1", *way)) for way in ([], ["optimizer=sgd"], WAY[:1])}
    assert len(keys) == 2


REFUSED = [
    ([], "optimizer=evolution_strategies inner_steps=1 minibatches=2: a population is rewarded for one update; take"),
    (["group_size.completions=1", "norm=none"], "optimizer=evolution_strategies group_size.completions=1: compares"),
    (["data=stale"], "optimizer=evolution_strategies data=stale: members of a population complete every prompt"),
    (["critic=value", "norm=gae"], "optimizer=evolution_strategies critic=value: members"),
    (["sampler=noisy"], "optimizer=evolution_strategies sampler=noisy: members"),
    (["sampler.top_k=3"], "optimizer=evolution_strategies: members draw from all tokens; take null for sampler.prod"),
    (["optimizer.sigma=0"], "optimizer.sigma=0: must be above 0"),
]


@pytest.mark.parametrize(("overrides", "line"), REFUSED, ids=[" ".join(each[0]) for each in REFUSED])
def test_what_cannot_be_is_refused_in_a_line(overrides, line):
    with pytest.raises(ConfigError) as error:
        read(values("optimizer=evolution_strategies", *overrides))
    assert any(each.startswith(line) for each in error.value.problems), error.value.problems


def test_a_function_of_ones_own_says_how_large_the_noise_is(monkeypatch):
    def move(gradient, noise, rates):
        return gradient.zero_()

    monkeypatch.setitem(FUNCTIONS, "noisy_move", move)
    config = compose(*WAY)
    config = config.model_copy(update={"optimizer": SimpleNamespace(name="noisy_move")})
    (line,) = population_problems(config)
    assert line.startswith("optimizer=noisy_move: asks for a population, so it must have a hyperparameter sigma")


def test_what_is_idle_is_named():
    assert not [*remarks(read(values(*WAY)))]
    (line,) = remarks(read(values(*WAY[:2], "clip=naive", "kl=k3")))
    assert line == (
        "optimizer=evolution_strategies: no loss has a gradient, so norm=local, grad_clip=1, entropy_coef=0.02, kl=k3 "
        "are idle"
    )
