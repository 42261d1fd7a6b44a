"""Where TRL has the same setting, its own trainer and ours are the same: advantages, losses, gradients, weights.

Most pairs are equal to the bit. Where TRL sums in another order (means of completions) weights differ by rounding,
which Adam divides by gradients that are as small: ``ROUNDED`` is a share of how far training has moved them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl")

import torch  # noqa: E402
import trl_pairs  # noqa: E402

ROOT = Path(__file__).parents[2]
ROUNDED = 1e-4
LOSS_AND_GRADIENT = 1e-6  # relative, of float32 sums of a few hundred terms
GROUP, LOCAL = {"scale_rewards": "group"}, ["norm=local", "norm.eps=1e-4"]
# Our overrides, and TRL's own arguments for the same.
PAIRS = {
    "dapo": ([*LOCAL, "agg=token"], {"loss_type": "dapo", **GROUP}),
    "grpo": ([*LOCAL, "agg=sequence", "inner_steps=2"], {"loss_type": "grpo", **GROUP}),
    "bnpo": (
        ["norm=hybrid", "norm.eps=1e-4", "agg=bnpo", "minibatches=2"],
        {"loss_type": "bnpo", "scale_rewards": "batch"},
    ),
    "dr_grpo": (
        ["norm=center", "agg=dr_grpo", "agg.length=8", "inner_steps=2", "lr=1e-2"],
        {"loss_type": "dr_grpo", "scale_rewards": "none"},
    ),
    "epsilons": (
        [*LOCAL, "agg=token", "clip.low=0.1", "clip.high=0.28", "inner_steps=3", "lr=1e-2"],
        {"loss_type": "dapo", "epsilon": 0.1, "epsilon_high": 0.28, **GROUP},
    ),
    "delta": (
        [*LOCAL, "agg=token", "clip=two_sided", "clip.delta=1.5", "inner_steps=3", "lr=1e-2"],
        {"loss_type": "dapo", "delta": 1.5, **GROUP},
    ),
    "sequence level": (
        [*LOCAL, "agg=sequence", "clip=gspo", "clip.low=0.2", "clip.high=0.2", "inner_steps=2", "lr=1e-2"],
        {"loss_type": "grpo", "importance_sampling_level": "sequence", **GROUP},
    ),
    "beta": (
        [*LOCAL, "agg=token", "kl=k3_corrected", "kl.coef=0.1", "minibatches=2", "lr=1e-2"],
        {"loss_type": "dapo", "beta": 0.1, **GROUP},
    ),
    "truncated": (
        [*LOCAL, "agg=sequence", "filter=overlong"],
        {"loss_type": "grpo", "mask_truncated_completions": True, **GROUP},
    ),
    "entropy": ([*LOCAL, "agg=bnpo", "entropy_coef=0.02"], {"loss_type": "bnpo", "entropy_coef": 0.02, **GROUP}),
}
CUT = ["backend.micro_batch=1"]


@pytest.fixture(scope="module")
def start():
    return trl_pairs.weights(trl_pairs.trainer([]))


WHOLE = [(name, []) for name in PAIRS]
ACCUMULATED = [(name, CUT) for name in ("dapo", "grpo", "beta", "truncated")]


@pytest.mark.slow  # two trainers each
@pytest.mark.parametrize(("name", "cut"), WHOLE + ACCUMULATED)
def test_ten_steps_end_at_the_same_weights(name, cut, start):
    ours, theirs = PAIRS[name]
    expected = trl_pairs.trained([*course_of(name), *cut], theirs)
    found = trl_pairs.trained([*ours, *cut])
    moved = (expected - start).abs().max()
    assert moved > 1e-3
    assert (found - expected).abs().max() <= ROUNDED * moved


def course_of(name):
    """Of our overrides those that are not about the objective: TRL's own trainer takes the rest as arguments."""
    return [each for each in PAIRS[name][0] if each.partition("=")[0] in ("minibatches", "inner_steps", "lr")]


ALIKE = [*LOCAL, "agg=sequence", "lr=1e-2"]
SINGLE, DOUBLE = torch.float32, torch.float64


def apart(start, *overrides, dtype):
    """How far TRL's weights after five steps, its completions in an order of their own, are from ours; of the way."""
    how = {"dtype": dtype, "shuffled": True}
    own = {"loss_type": "grpo", **GROUP}
    expected = trl_pairs.trained(["lr=1e-2", "steps=5", *overrides], own, **how)
    found = trl_pairs.trained([*ALIKE, "steps=5", *overrides], dtype=dtype)
    return ((found - expected).norm() / (expected - start).norm()).item()


@pytest.mark.slow
def test_another_order_of_completions_is_rounding(start):
    """With bfloat16 products it would be a thousandth. Numbers: docs/real_models.md."""
    for changes in ([], ["optimizer=sgd"]):
        assert apart(start, *changes, dtype=SINGLE) < 1e-5
    assert apart(start, dtype=DOUBLE) < 1e-6


@pytest.mark.slow
def test_another_order_of_completions_over_two_updates_is_another_training(start):
    """TRL's updates are of completions in any order, ours of whole groups: no precision makes them the same."""
    assert apart(start, "minibatches=2", dtype=DOUBLE) > 0.1


@pytest.mark.slow
def test_groups_of_equal_rewards_move_trl_and_not_us(start, monkeypatch):
    """Seven times 0.7 has a mean in float32 that is not 0.7: Adam makes a whole step of what remains."""
    monkeypatch.setattr(trl_pairs, "reward_of", lambda text: 0.7)
    size = ["group_size.completions=7", "steps=1", "lr=1e-3"]
    theirs = trl_pairs.trained(size, {"loss_type": "grpo", **GROUP})
    assert (theirs - start).abs().max() == pytest.approx(1e-3, rel=0.1)
    assert torch.equal(trl_pairs.trained([*LOCAL, "agg=sequence", *size]), start)


@pytest.mark.parametrize("name", PAIRS)
def test_a_batch_has_the_same_advantages_losses_and_gradients(name):
    ours, theirs = PAIRS[name]
    mine, own = trl_pairs.trainer(ours), trl_pairs.trainer(course_of(name), theirs)
    batches = [made_batch(each) for each in (own, mine)]
    expected, found = batches
    assert torch.equal(expected["completion_ids"], found["completion_ids"])
    advantages, in_loss = found["axes/advantages"][:, 0], found["axes/mask"][:, 0]
    assert in_loss.any() and torch.allclose(advantages[in_loss], expected["advantages"][in_loss], rtol=1e-5, atol=1e-6)
    (loss, gradient), (ours_loss, ours_gradient) = (
        loss_and_gradient(each, batch) for each, batch in zip((own, mine), batches, strict=True)
    )
    assert torch.allclose(ours_loss, loss, rtol=LOSS_AND_GRADIENT, atol=1e-7)
    assert (ours_gradient - gradient).norm() <= LOSS_AND_GRADIENT * gradient.norm()


def made_batch(made):
    """The first step's completions, read with weights that have moved since: every ratio is another than 1."""
    made.model.train()
    made.state.max_steps, made.current_gradient_accumulation_steps = 10, 1
    if not hasattr(made, "updates"):
        made.updates = 1
    prompts = [made.train_dataset[i // 4] for i in range(16)]
    batch = made._generate_and_score_completions(prompts)
    with torch.no_grad():
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
        width = batch["completion_ids"].shape[1]
        batch["old_per_token_logps"] = made._get_per_token_logps_and_entropies(made.model, ids, mask, width)[0]
        generator = torch.Generator().manual_seed(1)
        for parameter in made.model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
    return batch


def loss_and_gradient(made, batch):
    loss = made._compute_loss(made.model, batch)
    loss.backward()
    return loss.detach(), torch.cat([parameter.grad.flatten() for parameter in made.model.parameters()])


@pytest.mark.slow
def test_two_processes_end_at_the_same_weights(tmp_path):
    script = tmp_path / "two.py"
    names = ["dapo", "bnpo", "beta", "truncated"]
    script.write_text(f"import test_agreement_with_trl as test\ntest.in_two_processes({names!r})\n")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    paths = [ROOT, ROOT / "tests" / "support", Path(__file__).parent]
    environment = {"PYTHONPATH": ":".join(map(str, paths)), "TRL_PAIRS_MODEL": trl_pairs.model_folder()}
    done = subprocess.run([*command, script], env=os.environ | environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("the same") == len(names), done.stdout + done.stderr[-2000:]


def in_two_processes(names):
    """What each of the two processes does."""
    for name in names:
        ours, theirs = PAIRS[name]
        expected, found = trl_pairs.trained(course_of(name), theirs), trl_pairs.trained(ours)
        if trl_pairs.settings.world_size() == 2 and torch.distributed.get_rank() == 0:
            print("the same" if torch.allclose(found, expected, atol=1e-4) else (found - expected).abs().max())
