"""A policy loss that remembers something, added in a copy of the project as docs/architecture.md says."""

from __future__ import annotations

import json

import pytest
from project_copy import Copy
from small_runs import SHORT, SMALL

pytestmark = pytest.mark.slow
FUNCTION = '''
from torch import minimum

from rlexp.core.masked import masked_mean
from rlexp.core.memory import Memory
from rlexp.core.types import Discount, PerReplica, Positive, TokenMask


def first_size() -> float:
    """Return what the size of advantages is before the first step."""
    return 1.0


def follow_size(advantage_size: PerReplica, advantages: PerToken, mask: TokenMask, *, decay: Discount) -> PerReplica:
    """Return decay · size + (1 − decay) · mean |A| of the step."""
    mean = masked_mean(advantages.abs(), mask, (-1, -2, -3)).squeeze((-1, -2, -3))
    return decay * advantage_size + (1 - decay) * mean


def sized(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    advantage_size: PerReplica,
    *,
    bound: Positive,
    decay: Discount,
) -> PerToken:
    """``ppo`` whose bounds are proportional to the size of the advantages so far. Source: a test."""
    ratio, room = (log_probs - old_log_probs).exp(), (bound * advantage_size)[..., None, None, None]
    return -minimum(ratio * advantages, ratio.clamp(1 - room, 1 + room) * advantages)


FUNCTIONS["sized"] = sized
MEMORIES = {"sized": Memory("advantage_size", first_size, follow_size, "moving average of |A|")}
'''
REFERENCE = """
def clip_sized(log_probs, old_log_probs, advantages, mask, advantage_size, *, bound, decay):
    size = bound * advantage_size
    return clip_ppo(log_probs, old_log_probs, advantages, mask, math.inf, low=size, high=size)


CLIP["sized"] = clip_sized
"""
YAML = "# bounds that follow the size of advantages\nname: sized\nbound: 0.001\ndecay: 0.5\n"


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("project"))
    copy.append("rlexp/axes/clip/__init__.py", FUNCTION)
    copy.append("conf/clip/sized.yaml", YAML)
    copy.append("tests/references/reference_clip.py", REFERENCE)
    return copy


def rows(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if not key.startswith("time/")} for line in lines]


@pytest.mark.rare  # runs in processes of their own
@pytest.mark.bits
def test_it_trains_alone_as_it_does_beside_others_and_remembers(copy):
    options = [*SHORT, *SMALL, "inner_steps=2"]
    sweep = copy.run("rlexp.train", "-m", "clip=symmetric,sized", "seed=0,1", *options, "hydra.sweep.dir=sweep")
    assert sweep.returncode == 0, sweep.stderr
    for name, more in {"alone": [], "still": ["clip.decay=1.0"]}.items():
        one = copy.run("rlexp.train", "clip=sized", "seed=1", *options, *more, f"hydra.run.dir={name}")
        assert one.returncode == 0, one.stderr
    (together,) = copy.folder.glob("sweep/clip=sized,*seed=1")
    alone, still = rows(copy.folder / "alone"), rows(copy.folder / "still")
    assert rows(together) == alone
    assert [a == b for a, b in zip(alone, still, strict=True)] == [True, True, False], (
        "bounds move after the first step"
    )
    summary = json.loads((copy.folder / "alone/summary.json").read_text())
    assert summary["gradient"] is None, "it depends on more than a token"


@pytest.mark.rare  # runs pytest in a copy
def test_the_tests_of_policy_losses_know_what_it_takes(copy):
    tests = [
        "tests/axes/test_contract.py",
        "tests/axes/test_objective.py",
        "tests/record/test_gradient.py",
        "-k",
        "sized",
    ]
    found = copy.run("pytest", "-q", "-n0", "-p", "no:cacheprovider", *tests).stdout
    assert " passed" in found and "failed" not in found and "error" not in found, found


def test_two_choices_cannot_remember_different_things_under_one_name(copy):
    pairs = [('Memory("advantage_size"', 'Memory("reward_average"')]
    pairs += [("advantage_size: PerReplica", "reward_average: PerReplica"), ("* advantage_size", "* reward_average")]
    with copy.replaced("rlexp/axes/clip/__init__.py", *pairs):
        refused = copy.run("rlexp.train", "clip=sized", "norm=ema")
    assert refused.returncode == 2
    assert "clip=sized: remembers `reward_average`, which norm=ema remembers otherwise" in refused.stderr
