"""Evaluation: pass@k by enumeration, and policies whose accuracy is known."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import reference_tasks
import torch
from policies import Sorter, policy_of, sort_task
from task_choices import addition
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop import evaluation
from rlexp.loop.evaluation import evaluate, pass_at
from rlexp.loop.optimizer import Adam, Schedule
from rlexp.loop.rollout import sample
from rlexp.loop.state import Network, TrainState

TASK = sort_task(weights={"exact": 1.0, "graded": 0.5, "lecture": 0.0, "multiset": 0.0, "format": 0.25})
SEEDS = (6, 1, 3)
ASKED = dict(prompts=30, samples=5, ks=[1, 2, 5])
# Rounding of means over a few hundred float32 numbers.
ROUNDED = dict(rtol=1e-5, atol=1e-6)


def state_of(policy, seeds=SEEDS) -> TrainState:
    ones = torch.ones(len(seeds))
    schedule = Schedule(ones, ones, ones, 1)
    adam = Adam(policy_of("positional", seeds, TASK), schedule, ones)
    sizes = dict(prompts=2, group=2, inner_steps=1, minibatches=1)
    networks = {"policy": Network(policy, adam), "reference": Network(policy)}
    shared = dict(task=TASK, networks=networks, blocks=[], memory={})
    return TrainState(seeds=seeds, temperature=ones, **shared, **sizes)


def sorter(margins, seeds=SEEDS) -> TrainState:
    return state_of(Sorter(TASK, torch.tensor(margins)), seeds)


# ---- many samples


@pytest.mark.parametrize("name", ["transformer", "gru"])
def test_many_samples_come_in_blocks_and_say_the_same(name, monkeypatch):
    """The samples of the first block are those that all would be; with one block so is everything."""
    state = state_of(policy_of(name, SEEDS, TASK))
    usual = evaluate(state, 3, **ASKED)
    monkeypatch.setattr(evaluation, "MANY", 5)
    for key, values in evaluate(state, 3, **ASKED).items():
        assert_close(values, usual[key], **ROUNDED)
    monkeypatch.setattr(evaluation, "BLOCK", 50)
    blocks = evaluate(state, 3, **ASKED)
    assert torch.equal(blocks["eval/greedy_accuracy"], usual["eval/greedy_accuracy"])
    assert not torch.equal(blocks["eval/reward"], usual["eval/reward"])
    assert_close(blocks["eval/reward"], usual["eval/reward"], rtol=0.5, atol=0.1)
    first = evaluate(state, 3, **(ASKED | dict(prompts=10)))
    monkeypatch.setattr(evaluation, "MANY", 6)
    assert_close(first["eval/length"], evaluate(state, 3, **(ASKED | dict(prompts=10)))["eval/length"], **ROUNDED)


# ---- pass@k


@pytest.mark.parametrize("samples", [1, 4, 6])
def test_pass_at_k_counts_the_subsets_with_a_right_one(samples):
    for k, hits in itertools.product(range(1, samples + 1), range(samples + 1)):
        subsets = list(itertools.combinations([True] * hits + [False] * (samples - hits), k))
        expected = sum(any(subset) for subset in subsets) / len(subsets)
        assert pass_at(k, torch.tensor([[hits]]), samples).item() == pytest.approx(expected, rel=1e-6)


def test_pass_at_k_is_unbiased():
    """Over binomial hits its expectation is the chance that one of k is right, 1 − (1 − p)^k."""
    n, p, k = 8, 0.3, 3
    chances = torch.distributions.Binomial(n, torch.tensor(p)).log_prob(torch.arange(n + 1.0)).exp()
    assert_close((chances * pass_at(k, torch.arange(n + 1), n)).sum(), torch.tensor(1 - (1 - p) ** k), **ROUNDED)


# ---- rows


def test_a_policy_that_sorts_is_always_right():
    row = evaluate(sorter([60.0] * 3), 0, **ASKED)
    assert {name: numbers.tolist() for name, numbers in row.items() if name != "eval/length"} == {
        "eval/greedy_accuracy": [1.0] * 3,
        "eval/sampled_accuracy": [1.0] * 3,
        "eval/reward": [1.75] * 3,
        **{f"eval/pass@{k}": [1.0] * 3 for k in ASKED["ks"]},
    }


def test_a_policy_that_does_not_sort_is_never_right():
    row = evaluate(sorter([-60.0] * 3), 0, **ASKED)
    assert not any(row[f"eval/{name}"].any() for name in ("greedy_accuracy", "sampled_accuracy", "pass@5"))


def test_rows_equal_plain_loops():
    """Each run wants to sort with a strength of its own; its samples are judged one by one."""
    state = sorter([2.0, 3.0, 5.0])
    row = evaluate(state, 4, **ASKED)
    (questions, _) = state.policy.asked
    numbers = uniforms(SEEDS, Purpose.EVALUATION_SAMPLING, 4, (30, 5, TASK.cap))
    rollout = sample(state.policy, TASK, questions, numbers, state.temperature)
    for r in range(3):
        hits, rewards = [], []
        for prompt, group in zip(questions[r].tolist(), rollout.completions[r].tolist(), strict=True):
            scores = [reference_tasks.sort(TASK, prompt, completion) for completion in group]
            hits.append([score["correct"] for score in scores])
            rewards += [sum(weight * score[key] for key, weight in TASK.weights.items()) for score in scores]
        expected = {"eval/greedy_accuracy": 1.0, "eval/sampled_accuracy": sum(map(sum, hits)) / 150}
        expected |= {"eval/reward": sum(rewards) / 150, "eval/length": rollout.mask[r].sum().item() / 150}
        for k in ASKED["ks"]:
            passed = [any(subset) for group in hits for subset in itertools.combinations(group, k)]
            expected[f"eval/pass@{k}"] = sum(passed) / len(passed)
        assert {name: values[r].item() for name, values in row.items()} == pytest.approx(expected, rel=1e-5)
        assert 0 < expected["eval/sampled_accuracy"] < 1


def test_pass_at_1_is_the_sampled_accuracy():
    row = evaluate(sorter([1.0, 2.5, 4.0]), 0, **ASKED)
    assert_close(row["eval/pass@1"], row["eval/sampled_accuracy"], **ROUNDED)
    assert (row["eval/pass@1"] < row["eval/pass@2"]).all() and (row["eval/pass@2"] < row["eval/pass@5"]).all()


# ---- prompts and noise


def test_prompts_are_held_out_and_stay_the_same():
    state = sorter([3.0] * 3)
    for step in (0, 7):
        evaluate(state, step, **ASKED)
    first, *others = state.policy.asked
    assert len(others) == 3 and all(torch.equal(first, other) for other in others)
    items = first[..., :-1]
    assert (items.where(items != TASK.pad, 0).sum(-1) % TASK.alphabet == 0).all()
    assert not torch.equal(first[0], first[1])


def test_samples_are_new_at_every_evaluation():
    state = sorter([3.0] * 3)
    rows = [evaluate(state, step, **ASKED) for step in (0, 7, 7)]
    assert not torch.equal(rows[0]["eval/reward"], rows[1]["eval/reward"])
    assert torch.equal(rows[1]["eval/reward"], rows[2]["eval/reward"])


@pytest.mark.bits
def test_a_run_is_evaluated_alone_as_with_neighbours():
    together = evaluate(state_of(policy_of("transformer", SEEDS, TASK)), 2, **ASKED)
    for r, seed in enumerate(SEEDS):
        alone = evaluate(state_of(policy_of("transformer", [seed], TASK), [seed]), 2, **ASKED)
        assert all(torch.equal(alone[name][0], numbers[r]) for name, numbers in together.items())


def test_evaluating_leaves_the_weights_alone():
    policy = policy_of("gru", SEEDS, TASK)
    before = [parameter.clone() for parameter in policy.parameters()]
    evaluate(state_of(policy), 0, **ASKED)
    assert all(map(torch.equal, policy.parameters(), before))
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_the_loss_of_the_corpus_is_the_cross_entropy_of_its_answers():
    """Token by token from the logits, at temperature 1 whatever that of the run."""
    task = addition()
    policy = policy_of("transformer", SEEDS, task)
    state = replace(state_of(policy), task=task, temperature=torch.full((len(SEEDS),), 0.5))
    row = evaluate(state, 0, prompts=20, samples=1, ks=[1])
    prompts = task.prompts(uniforms(SEEDS, Purpose.EVALUATION_PROMPTS, 0, (20, task.draws)), held_out=True)
    answers, mask = task.corpus(prompts, uniforms(SEEDS, Purpose.EVALUATION_CORPUS, 0, (20,)))
    with torch.no_grad():
        logits = policy(prompts, answers.unsqueeze(2)).squeeze(2)
    for replica, loss in enumerate(row["eval/corpus_loss"].tolist()):
        kept = mask[replica]
        expected = cross_entropy(logits[replica][kept], answers[replica][kept])
        assert loss == pytest.approx(expected.item(), rel=1e-5)
