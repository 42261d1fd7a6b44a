"""V, Q and A as CS336 lecture 17 defines them, on a task whose completions can all be counted out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from axis_choices import bind
from plain_step import Recipe
from toy_state import Toy, make_state, variant

from rlexp.axes import norm
from rlexp.loop.critic import Critic
from rlexp.loop.optimizer import Adam, Schedule
from rlexp.loop.state import Network
from rlexp.loop.step import train_step
from rlexp.models import GRU, scalar
from rlexp.models.layers import Init
from rlexp.tasks import Scores

SEEDS, GAMMA = [0, 1, 2], 0.9
STEPS, UPDATES = 80, 2
PROMPT = [0, 0]
# What V may miss when it has been learnt: the returns of a state deviate by up to 1 and a state is visited by some 40
# of 1024 completions or more; the last ten rollouts, whose steps are small, are averaged: 1 / √400 = 0.05.
LEARNT = 0.08


@dataclass(frozen=True)
class Tiny(Toy):
    """One prompt of two symbols, completions of up to three tokens, of which the second kind ends one."""

    pad, end, vocabulary, prompt_length, cap, draws = 2, 1, 3, 2, 3, 2
    weights, reward_range = {"zeros": 1.0}, (-1.0, 3.0)

    def prompts(self, uniforms, held_out):
        return torch.zeros_like(uniforms).long()

    def score(self, prompts, completions, mask, finished):
        zeros, lengths = ((completions == 0) & mask).sum(-1).double(), mask.sum(-1).double()
        return Scores({"zeros": zeros - 0.3 * lengths}, zeros > 1)

    def judge(self, prompt, tokens):
        return tokens.count(0) - 0.3 * len(tokens)


def fixed_policies(name, **hyperparameters):
    """Runs whose policies stay what they are, with a critic that learns; the norm is ``name``."""
    asking = replace(
        variant(Recipe()),
        norm=bind("norm", name, **hyperparameters),
        value_target=partial(norm.TARGETS[name], **hyperparameters),
    )
    rates = dict(lr=0.02, lr_final=0.02, warmup_steps=0, grad_clip=None)
    settings = Critic(**rates, coef=1.0, clip=None, updates=UPDATES, critic_warmup=None)
    state = make_state([(asking, len(SEEDS))], SEEDS, task=Tiny(), critic=settings, prompts=32, group=32)
    state.optimizer.schedule = state.optimizer.schedule._replace(peak=torch.zeros(len(SEEDS)).double())
    module = GRU(Init(SEEDS), state.task, 1, hidden=12, layers=1).double()
    rates = (torch.full((len(SEEDS),), number).double() for number in (settings.lr, 0.0, settings.lr_final))
    adam = Adam(module, Schedule(*rates, STEPS * UPDATES), torch.full((len(SEEDS),), math.inf).double())
    state.networks["critic"] = Network(module, adam)
    return state


def at_prefix(function, prefix):
    """Call a function of prompts and completions for one prefix; what it says of the place behind it, ``[R ...]``."""
    tokens = torch.zeros(len(SEEDS), 1, 1, Tiny.cap, dtype=torch.long)
    tokens[..., : len(prefix)] = torch.tensor(prefix, dtype=torch.long)
    return function(torch.tensor(PROMPT).expand(len(SEEDS), 1, -1), tokens)[:, 0, 0, len(prefix)].detach()


def exact(state, replica):
    """V of every prefix that is no whole completion, Q and π of each token that can follow it: by recursion."""
    task, found = state.task, {}

    def value(prefix):
        odds = at_prefix(state.policy.logits, prefix)[replica].softmax(-1).tolist()
        after = [(*prefix, token) for token in range(task.vocabulary)]
        q = [task.judge(PROMPT, each) if is_whole(each) else GAMMA * value(each) for each in after]
        found[prefix] = sum(p * each for p, each in zip(odds, q, strict=True)), q, odds
        return found[prefix][0]

    value(())
    return found


def is_whole(tokens):
    return tokens[-1] == Tiny.end or len(tokens) == Tiny.cap


@pytest.mark.slow  # it trains until it has converged
@pytest.mark.parametrize(
    ("name", "hyperparameters"),
    [
        pytest.param("value_baseline", dict(gamma=GAMMA), marks=pytest.mark.rare),
        ("gae", dict(gamma=GAMMA, lam=0.5, bootstrap=0.0)),
    ],
    ids=["returns", "bootstrapped"],
)
def test_the_values_of_a_critic_converge_to_v(name, hyperparameters):
    state = fixed_policies(name, **hyperparameters)
    before = partial(scalar.values, GRU(Init(SEEDS), state.task, 1, hidden=12, layers=1).double())
    for step in range(1, STEPS + 1):
        train_step(state, step, False)
    learnt, missed = partial(scalar.values, state.networks["critic"].module), []
    for r in range(len(SEEDS)):
        for prefix, (value, *_) in exact(state, r).items():
            assert abs(at_prefix(learnt, prefix)[r].item() - value) < LEARNT, (r, prefix)
            missed.append(abs(at_prefix(before, prefix)[r].item() - value))
    assert len(missed) == 3 * 7 and max(missed) > 5 * LEARNT


def advantages(tokens, known, choice=None, **settings):
    """Advantages by ``gae``, or a ``choice``, of a completion, or of the part of one, whose values are known."""
    paid = [0.0] * (len(tokens) - 1) + [Tiny().judge(PROMPT, tokens) if is_whole(tokens) else 0.0]
    given = (torch.tensor([[row]], dtype=torch.float64) for row in (paid, known))
    mask, finished = torch.ones(1, 1, len(tokens), dtype=torch.bool), torch.tensor([[is_whole(tokens)]])
    choice = bind("norm", choice or "gae", gamma=GAMMA, bootstrap=1.0, **settings)
    return choice(*given, mask, finished)[0, 0].tolist()


@pytest.mark.holds("S2.5")
@pytest.mark.parametrize("replica", range(len(SEEDS)))
def test_with_exact_values_advantages_are_q_minus_v(replica):
    """λ = 0: the error of one step, which is Q − V as only the token is left to chance. λ = 1: return minus value.

    Under the policy the advantages of a state add up to 0. Rounding of a few float64 operations.
    """
    values = exact(fixed_policies("gae", gamma=GAMMA, lam=0.0, bootstrap=0.0), replica)
    for prefix, (value, q, odds) in values.items():
        found = []
        for token, expected in enumerate(q):
            tokens = (*prefix, token)
            known = [values[tokens[:t]][0] for t in range(len(tokens))]
            known.append(123.0 if is_whole(tokens) else values[tokens][0])  # after an end nothing is read
            found.append(advantages(tokens, known, lam=0.0)[-1])
            assert found[-1] == pytest.approx(expected - value, abs=1e-12)
            whole = GAMMA ** len(prefix) * expected - known[0]
            assert advantages(tokens, known, lam=1.0)[0] == pytest.approx(whole, abs=1e-12)
        assert sum(p * each for p, each in zip(odds, found, strict=True)) == pytest.approx(0.0, abs=1e-12)
    assert len(values) == 7


def mean_advantages(values, **choice):
    """Return the mean advantage of each first token over all completions that begin with it."""
    totals = [0.0] * Tiny.vocabulary

    def follow(tokens, odds):
        if tokens and is_whole(tokens):
            known = [values[tokens[:t]][0] for t in range(len(tokens))]
            totals[tokens[0]] += odds * advantages(tokens, [*known, 0.0], **choice)[0]
            return
        for token, share in enumerate(values[tokens][2]):
            follow((*tokens, token), odds * (share if tokens else 1.0))

    follow((), 1.0)
    return totals


@pytest.mark.parametrize("replica", range(len(SEEDS)))
def test_with_exact_values_a_lambda_of_all_lengths_is_unbiased_and_one_by_length_is_not(replica):
    """Which λ a completion has depends on where it ends, and so on the errors that it weighs."""
    values = exact(fixed_policies("gae", gamma=GAMMA, lam=0.0, bootstrap=0.0), replica)
    value, q, _ = values[()]
    expected = [each - value for each in q]
    assert mean_advantages(values, lam=0.7) == pytest.approx(expected, abs=1e-12)
    decoupled = dict(choice="gae_decoupled", lam=0.7, lam_value=1.0)
    assert mean_advantages(values, **decoupled) == pytest.approx(expected, abs=1e-12)
    by_length = mean_advantages(values, choice="gae_length_adaptive", alpha=0.8, lam_value=1.0)
    assert by_length[Tiny.end] == pytest.approx(expected[Tiny.end], abs=1e-12)  # nothing is to come
    assert max(abs(a - b) for a, b in zip(by_length, expected, strict=True)) > 1e-3
