"""A run as a teacher: whose gradient its signal has, that it is the run's last policy, which runs cannot teach."""

from __future__ import annotations

import json

import pytest
import torch
from axis_choices import bind
from interrupted import stop_at  # noqa: F401 (a fixture)
from small_runs import SHORT, SMALL, compose, rows

from rlexp.core.errors import ConfigError
from rlexp.loop import step
from rlexp.record import checkpoint
from rlexp.sweep.build import build
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

pytestmark = pytest.mark.slow  # whole runs

BY_RUNS = ["added", "alone", "importance_weighted"]
COMMON = [*SHORT, *SMALL, "task=token_preference", "task.vocabulary=9", "task.low=3", "task.cap=6", "model=gru"]
COMMON += ["model.hidden=8", "steps=4", "checkpoint_every=1"]
# Sums of a few dozen float64 numbers of order one; the second pair in float32.
CLOSE, ROUGH = dict(rtol=1e-10, atol=1e-12), dict(rtol=1e-5, atol=1e-6)


@pytest.mark.holds("S3.8")
def test_its_policy_gradient_is_that_of_the_kl_to_the_teacher():
    """Exactly, over all tokens of a state: ascent on the advantages is descent on KL(π‖π_teacher)."""
    logits, other = torch.randn(2, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    log_probs, taught = logits.requires_grad_().log_softmax(-1), other.log_softmax(-1)
    advantages = bind("teacher", "alone", coef=1.5)(*(x.detach().view(1, 1, -1) for x in (log_probs, taught))).view(-1)
    expected = (log_probs.detach().exp() * advantages * log_probs).sum()
    divergence = (log_probs.exp() * (log_probs - taught)).sum()
    actual, descent = (torch.autograd.grad(x, logits, retain_graph=True)[0] for x in (expected, -1.5 * divergence))
    torch.testing.assert_close(actual, descent, **CLOSE)


def job(folder, *overrides, seed=0):
    folder.mkdir(parents=True)
    return Job(compose(*COMMON, f"seed={seed}", *overrides), folder, folder.name, folder.name)


@pytest.fixture
def taught(tmp_path):
    """Return the folder of a run that has learnt something."""
    one = job(tmp_path / "teacher", "lr=0.02", "steps=6", seed=7)
    train_jobs([one])
    return one.folder


@pytest.mark.parametrize("name", ["added", "alone"])
def test_the_teacher_is_the_last_policy_of_its_run(taught, monkeypatch, name):
    config = compose(
        *COMMON, f"teacher={name}", f"teacher.run={taught}", "teacher.coef=2", "temperature=1.5", "norm=none"
    )
    seen, real = [], step.update
    monkeypatch.setattr(
        step, "update", lambda state, policy, part, *more: seen.append(part) or real(state, policy, part, *more)
    )
    state = build([config, compose(*COMMON, "seed=1")])
    policy = build([compose(*COMMON)]).policy
    saved = checkpoint.load(taught)["networks"]["policy"]["parameters"]
    with torch.no_grad():
        for key, parameter in policy.named_parameters():
            parameter[0] = saved[key]
    step.train_step(state, 1, False)
    part = seen[0]
    every = (policy(part.prompts[:1], part.completions[:1]) / 1.5).log_softmax(-1)
    signal = 2 * (every.gather(-1, part.completions[:1].unsqueeze(-1)).squeeze(-1) - part.old_log_probs[:1])
    rewards = part.rewards[:1].unsqueeze(-1) if name == "added" else 0.0
    there = part.mask[:1]
    torch.testing.assert_close(part.advantages[:1][there], (signal + rewards)[there], **ROUGH)
    assert part.advantages[1].std(-1).eq(0).all(), "the neighbour has no teacher"


def test_a_student_alone_with_its_teacher_comes_nearer(taught, tmp_path):
    course = ["steps=40", "lr=0.01", "log_every=1", "eval.every=40", "entropy_coef=0", "group_size.prompts=16"]
    one = job(tmp_path / "student", "teacher=alone", f"teacher.run={taught}", *course)
    train_jobs([one])
    divergence = [-row["advantage/mean"] for row in rows(one.folder) if "advantage/mean" in row]
    assert sum(divergence[-5:]) < 0.5 * sum(divergence[:5])


def students(folder, run):
    for name in ["none", *BY_RUNS]:
        for seed in (0, 1):
            run_of = [f"teacher.run={run}"] if name != "none" else []
            yield job(folder / f"{name}{seed}", f"teacher={name}", *run_of, seed=seed)


@pytest.mark.bits
def test_students_are_the_same_alone_together_and_resumed(taught, tmp_path, stop_at):  # noqa: F811
    together, alone, parts = (list(students(tmp_path / name, taught)) for name in ("together", "alone", "parts"))
    scores = train_jobs(together)
    for one, other in zip(alone, together, strict=True):
        train_jobs([one])
        assert rows(one.folder) == rows(other.folder), one.name
    stop_at(3)
    with pytest.raises(KeyboardInterrupt):
        train_jobs(parts)
    assert json.loads((parts[0].folder / "summary.json").read_text())["steps"] == 2
    assert train_jobs(parts) == scores
    assert all(rows(one.folder) == rows(other.folder) for one, other in zip(parts, together, strict=True))


def problem(*overrides):
    with pytest.raises(ConfigError) as error:
        compose(*COMMON, "teacher=alone", *overrides)
    (line,) = error.value.problems
    return line


def test_a_run_that_cannot_teach_is_refused_in_one_line(taught, tmp_path):
    needed = "must be the folder of a run, with its config.yaml and checkpoint.pt"
    assert problem() == f"teacher.run=null: {needed}"
    assert problem(f"teacher.run={tmp_path}") == f"teacher.run={tmp_path}: {needed}"
    here = f"teacher.run={taught}"
    assert problem(here, "model.hidden=6") == f"{here}: model.hidden is 8 there and 6 here; must be the same"
    assert problem(here, "task.cap=5") == f"{here}: task.cap is 6 there and 5 here; must be the same"
    plain = [choice for choice in COMMON if not choice.startswith("model")]
    with pytest.raises(ConfigError, match="model.name is gru there and transformer here; must be the same"):
        compose(*plain, "teacher=alone", here)
    compose(*COMMON, "teacher=alone", here, "task.weights.share=1", "task.floor=0", "lr=0.5", "steps=99")
