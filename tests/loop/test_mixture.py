"""The start on right and wrong answers: where it stops, what the wrong answers are, replicas on their own."""

from __future__ import annotations

import pytest
import torch
from policies import sort_task

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.start import answers, mixture, right_and_formed
from rlexp.models import Transformer
from rlexp.models.layers import Init

SEEDS = [0, 1]
KNOBS = dict(accuracy=0.5, tolerance=0.03, formed=0.6, lr=5e-3, prompts=64, every=20, checked=1024, updates=400)


def task_of(**changes):
    """Return a task that is learnt in a second."""
    return sort_task(**(dict(alphabet=8, shortest=2, longest=2, cap=3, filler=0) | changes))


def policy_for(seeds):
    return Transformer(Init(seeds), task_of(), width=32, layers=1, heads=2, feedforward=64)


def started(seeds=SEEDS, **hyperparameters):
    """Return the policy of a start and what went wrong."""
    policy = policy_for(seeds)
    return policy, mixture(policy, task_of(), seeds, **(KNOBS | hyperparameters))


@pytest.mark.parametrize(
    "changes", [{}, dict(alphabet=2, shortest=1, longest=4, cap=5), dict(shortest=3, longest=3, cap=3)]
)
def test_wrong_answers_have_the_form_of_right_ones_and_are_never_right(changes):
    task = task_of(**changes)
    prompts = task.prompts(uniforms(SEEDS, Purpose.PROMPTS, 0, (500, task.draws)), held_out=False)
    (right, mask), (wrong, same) = task.oracle(prompts), task.wrong_answers(prompts)
    assert mask.equal(same) and (wrong != right)[mask].any() and (wrong == right)[..., 1:][mask[..., 1:]].all()
    finished = torch.ones_like(mask[..., :1])
    scores = task.score(prompts, wrong.unsqueeze(2), mask.unsqueeze(2), finished)
    assert not scores.correct.any() and scores.components["format"].all()


@pytest.mark.slow
@pytest.mark.parametrize(("accuracy", "seeds"), [(0.0, [0]), (0.2, SEEDS), (0.5, SEEDS), (0.75, SEEDS)], ids=str)
def test_a_start_arrives_at_the_accuracy_and_answers(accuracy, seeds):
    """On other samples than those of the check that stopped it: four errors of both shares beside the tolerance."""
    policy, problems = started(seeds, accuracy=accuracy)
    assert not any(problems)
    right, formed = right_and_formed(policy, task_of(), seeds, 4096, at=10**6)
    assert ((right - accuracy).abs() < KNOBS["tolerance"] + 4 * (0.5 / 64 + 0.5 / 32)).all()
    assert (formed > KNOBS["formed"] - 4 * 0.5 / 32).all() and formed.max() <= 1


@pytest.mark.slow
def test_a_neighbour_changes_no_bit():
    (alone, _), (both, _) = started([1]), started([0, 1])
    for one, other in zip(alone.parameters(), both.parameters(), strict=True):
        assert one[0].equal(other[1])


def test_what_is_not_reached_is_said():
    _, problems = started(accuracy=0.5, tolerance=1e-6, updates=10)
    assert all(
        line.startswith("start: sampled accuracy 0.") and "after 10 updates, wanted 0.5 ± " in line for line in problems
    )


def test_formed_counts_right_and_wrong_answers():
    task, policy = task_of(), started(updates=20)[0]
    rollout = answers(policy, task, SEEDS, 512, 3)
    right, formed = right_and_formed(policy, task, SEEDS, 512, 3)
    for r in range(len(SEEDS)):
        found = [0, 0]
        for p in range(512):
            items = [token for token in rollout.prompts[r, p].tolist()[:-1] if token != task.pad]
            answer = sorted(items)
            wrong = [(answer[0] + 1) % task.alphabet, *answer[1:]]
            given = rollout.completions[r, p, 0][rollout.mask[r, p, 0]].tolist()
            found[0] += given == [*answer, task.end]
            found[1] += given in ([*answer, task.end], [*wrong, task.end])
        assert [right[r].item(), formed[r].item()] == pytest.approx([each / 512 for each in found])
        assert found[1] > found[0] > 0
