"""Starts: the warm-up against plain PyTorch, where it stops, what scaling leaves as it is, replicas on their own."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch
from plain_step import PlainNetwork
from policies import policy_of, preference_task, sort_task
from task_choices import addition
from toy_state import HIDDEN, LAYERS, unstacked

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop import start
from rlexp.loop.rewards import score_with
from rlexp.loop.rollout import most_likely, sample
from rlexp.loop.start import pretrained_mixture, scaled, sft
from rlexp.models import GRU
from rlexp.models.layers import Init
from rlexp.tasks import TASKS

pytestmark = pytest.mark.slow  # whole runs

SEEDS = [0, 1, 2]
# The learning rate is a float32 number, divided by Adam's correction in float32: 6e-8 of each update.
CLOSE = dict(rtol=1e-6, atol=1e-8)
KNOBS = dict(accuracy=0.8, lr=3e-3, prompts=16, every=2, checked=64, updates=100)
MODELS = ["gru", "transformer"]


def weights(policy):
    return {name: parameter.detach().clone() for name, parameter in policy.named_parameters()}


def same(ours, theirs, replica=slice(None)):
    return all(torch.equal(ours[name][replica], theirs[name]) for name in theirs)


def started(model, seeds, function=sft, **hyperparameters):
    """Return the weights of a start and what went wrong."""
    task = preference_task()
    policy = policy_of(model, seeds, task)
    problems = function(policy, task, seeds, **(KNOBS | hyperparameters))
    return policy, task, problems


# ---- the loss and the warm-up


class Table(torch.nn.Module):
    """A policy whose logits ``[R, P, 1, T, V]`` are its parameters."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.nn.Parameter(logits)

    def forward(self, prompts, completions):
        return self.logits


def test_the_loss_is_the_cross_entropy_of_the_right_answer():
    rng = np.random.default_rng(1)
    logits, answers = rng.normal(size=(2, 3, 1, 4, 5)), rng.integers(0, 5, size=(2, 3, 4))
    mask = np.arange(4) < rng.integers(1, 5, size=(2, 3, 1))
    policy = Table(torch.from_numpy(logits))
    losses = start.imitation_loss(policy, torch.zeros(2, 3, 1).long(), *map(torch.from_numpy, (answers, mask)))
    losses.sum().backward()
    slopes = np.zeros_like(logits)
    for r in range(2):
        tokens = [(p, t) for p in range(3) for t in range(4) if mask[r, p, t]]
        total = 0.0
        for p, t in tokens:
            weights = [math.exp(x) for x in logits[r, p, 0, t]]
            total -= math.log(weights[answers[r, p, t]] / sum(weights))
            for v, weight in enumerate(weights):
                slopes[r, p, 0, t, v] = (weight / sum(weights) - (v == answers[r, p, t])) / len(tokens)
        assert losses[r].item() == pytest.approx(total / len(tokens), rel=1e-12)
    np.testing.assert_allclose(policy.logits.grad.numpy(), slopes, rtol=1e-10, atol=1e-14)


def test_the_warm_up_is_that_of_plain_pytorch():
    """One network and optimizer a seed, one sequence at a time, right answers by ``sorted``."""
    task, seeds, updates, prompts = sort_task(filler=0), [3, 4], 4, 5
    policy = GRU(Init(seeds), task, hidden=HIDDEN, layers=LAYERS).double()
    singles = []
    for replica, seed in enumerate(seeds):
        network = PlainNetwork(task.vocabulary, HIDDEN, LAYERS).double()
        network.load_state_dict(unstacked(policy, replica))
        optimizer = torch.optim.Adam(network.parameters(), lr=2**-7)
        for update in range(updates):
            draws = uniforms([seed], Purpose.START_PROMPTS, update, (prompts, task.draws))
            losses = []
            for row in task.prompts(draws, held_out=False)[0].tolist():
                prompt = [token for token in row if token != task.pad]
                answer = [*sorted(prompt[:-1]), task.end]
                log_probs = network(prompt, answer)[:-1].log_softmax(-1)
                losses += [-log_probs[t, token] for t, token in enumerate(answer)]
            optimizer.zero_grad()
            torch.stack(losses).mean().backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        singles.append(network.state_dict())
    hyperparameters = KNOBS | dict(accuracy=1.0, lr=2**-7, prompts=prompts, updates=updates, checked=8)
    problems = sft(policy, task, seeds, **hyperparameters)
    assert all("after 4 updates, wanted 1;" in problem for problem in problems)
    for replica, single in enumerate(singles):
        for name, values in unstacked(policy, replica).items():
            torch.testing.assert_close(values, single[name], **CLOSE)


@pytest.fixture
def checks(monkeypatch):
    """Return what every check has found, by update."""
    found, real = {}, start.answers

    def spy(policy, task, seeds, prompts, at):
        rollout = real(policy, task, seeds, prompts, at)
        found[at] = score_with(task, rollout).correct.float().mean((-1, -2))
        return rollout

    monkeypatch.setattr(start, "answers", spy)
    return found


@pytest.mark.bits
@pytest.mark.parametrize("model", MODELS)
def test_each_replica_stops_at_its_first_check_that_finds_the_accuracy_and_alone_is_the_same(checks, model):
    policy, _, problems = started(model, SEEDS)
    assert problems == ["", "", ""]
    course = dict(checks)
    stops = [min(at for at, found in course.items() if found[r] >= KNOBS["accuracy"]) for r in range(3)]
    assert list(course) == list(range(0, max(stops) + 1, KNOBS["every"])) and len(set(stops)) > 1
    for replica, seed in enumerate(SEEDS):
        checks.clear()
        alone, _, _ = started(model, [seed])
        assert max(checks) == stops[replica]
        assert same(weights(policy), weights(alone), slice(replica, replica + 1))


def test_a_check_samples_at_temperature_1_on_held_out_prompts():
    task = sort_task()
    policy = policy_of("gru", SEEDS, task)
    rollout = start.answers(policy, task, SEEDS, 50, 7)
    items = rollout.prompts[..., :-1].masked_fill(rollout.prompts[..., :-1] == task.pad, 0)
    assert (items.sum(-1) % task.alphabet == 0).all()
    log_probs = policy(rollout.prompts, rollout.completions).log_softmax(-1)
    taken = log_probs.gather(-1, rollout.completions.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(taken[rollout.mask], rollout.old_log_probs[rollout.mask])


def test_a_replica_that_does_not_arrive_says_so():
    _, _, problems = started("gru", SEEDS, updates=1, accuracy=0.999)
    assert all(p.startswith("start: sampled accuracy 0.") and "take more start.updates" in p for p in problems)


# ---- scaling


@pytest.mark.parametrize("model", ["gru", "transformer", "positional"])
def test_all_logits_are_linear_in_the_head(model):
    task = TASKS["sort_lecture"](**LECTURE) if model == "positional" else sort_task()
    policy = policy_of(model, SEEDS, task)
    prompts = task.prompts(uniforms(SEEDS, Purpose.PROMPTS, 0, (4, task.draws)), held_out=False)
    completions = torch.zeros(3, 4, 2, task.cap, dtype=torch.long)
    before = policy(prompts, completions)
    with torch.no_grad():
        for parameter in policy.head_parameters():
            parameter.mul_(2)
    assert torch.equal(policy(prompts, completions), 2 * before)


LECTURE = dict(
    cap=3, weights={"distance": 0.0, "inclusion_ordering": 1.0, "multiset_ordering": 0.0}, metric="x", floor=0.0
)


def mean_entropy(policy, visited, replica):
    """Of one replica, token by token in float64."""
    found = []
    for logits, mask in zip(policy(visited.prompts, visited.completions)[replica], visited.mask[replica], strict=True):
        for row in logits.double()[mask].tolist():
            weights = [math.exp(x - max(row)) for x in row]
            found.append(-sum(w / sum(weights) * math.log(w / sum(weights)) for w in weights if w))
    return sum(found) / len(found)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("entropy", [0.3, 2.1])
def test_scaling_brings_the_entropy_and_keeps_every_greedy_answer(model, entropy):
    plain, task, _ = started(model, SEEDS)
    policy, _, problems = started(model, SEEDS, functools.partial(scaled, entropy=entropy))
    assert problems == ["", "", ""]
    visited = start.answers(plain, task, SEEDS, KNOBS["checked"], KNOBS["updates"] + 1)
    for replica in range(3):
        assert mean_entropy(policy, visited, replica) == pytest.approx(entropy, abs=1e-3)
        assert abs(mean_entropy(plain, visited, replica) - entropy) > 0.02
    noise = torch.zeros(3, 64, 1, task.cap)
    answers = [
        sample(each, task, visited.prompts, noise, torch.ones(3), most_likely).completions for each in (plain, policy)
    ]
    assert torch.equal(*answers)
    before, after = weights(plain), weights(policy)
    head = [name for name in before if name.startswith("head.")]
    assert all(torch.equal(before[name], after[name]) for name in before if name not in head)
    scales = torch.stack([(after[name] / before[name]).flatten(1).median(-1).values for name in head])
    torch.testing.assert_close(scales, scales[:1].expand_as(scales))
    assert ((scales > 1) == (entropy < 1)).all()


@pytest.mark.bits
@pytest.mark.parametrize("model", MODELS)
def test_a_scaled_replica_is_the_same_alone(model):
    flattened = functools.partial(scaled, entropy=2.1)
    policy, _, _ = started(model, SEEDS, flattened)
    for replica, seed in enumerate(SEEDS):
        alone, _, _ = started(model, [seed], flattened)
        assert same(weights(policy), weights(alone), slice(replica, replica + 1))


def test_an_entropy_that_no_scale_gives_is_said():
    policy = Table(torch.zeros(1, 2, 1, 3, 6))
    _, reached = start.scale_to(1.0, policy.logits, torch.ones(1, 2, 1, 3, dtype=torch.bool))
    assert reached.item() == pytest.approx(math.log(6))
    _, _, problems = started("gru", [0], functools.partial(scaled, entropy=3.0))
    assert problems[0].startswith("start: entropy 2.197, wanted 3 nats a token: no scale of the logits")


# ---- a corpus


def test_pretraining_learns_the_corpus_with_its_mistakes(monkeypatch):
    """The answers of each update are the corpus' to its prompts, drawn of streams that are the seed's alone."""
    task, seeds, learned = addition(), [0, 3], []
    real = start.imitation_loss
    monkeypatch.setattr(start, "imitation_loss", lambda *given: learned.append(given[1:]) or real(*given))
    policy = policy_of("transformer", seeds, task)
    problems = pretrained_mixture(policy, task, seeds, **(KNOBS | dict(accuracy=1.0, updates=3, every=3)), hinted=None)
    assert all("after 3 updates, wanted 1;" in problem for problem in problems)
    for update, (prompts, completions, mask) in enumerate(learned):
        numbers = uniforms(seeds, Purpose.START_CORPUS, update, (KNOBS["prompts"],))
        expected = task.corpus(prompts, numbers)
        assert torch.equal(completions, expected[0]) and torch.equal(mask, expected[1])
        wrong = (completions != task.oracle(prompts)[0]).any(-1)
        assert torch.equal(wrong, numbers < task.mistakes) and wrong.any() and not wrong.all()
