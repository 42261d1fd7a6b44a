"""The example learns, its loss is that of a training step, and the blocks of docs/own_trainer.md run."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from axis_choices import choices, numbers
from objectives import objective

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/own_trainer.md").read_text(encoding="utf-8"), re.DOTALL)
# Rounding of the means of a few hundred float32 numbers of order one, which are summed in another order.
FLOAT32 = dict(rtol=1e-5, atol=1e-7)


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("own_trainer", ROOT / "examples/own_trainer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_learns_and_is_short(example):
    means = example.train(steps=25)
    assert means[0] < 0.5 < 0.8 < sum(means[-5:]) / 5, means
    assert len((ROOT / "examples/own_trainer.py").read_text(encoding="utf-8").splitlines()) < 100


def chosen(axis, label):
    return next(choice for choice in choices(axis) if choice.label == label)


def test_its_loss_is_that_of_a_training_step(example):
    """On completions that its own policy samples, of several lengths, once the policy has moved away."""
    torch.manual_seed(3)
    prompts = torch.stack([torch.arange(6), torch.tensor([1, 2, 3, 4, 1, 2])], -1)
    tokens, mask = example.sample(example.Policy(), prompts)
    assert 1 < len(mask.sum(-1).unique()), "completions are of several lengths"
    old, ref = (example.Policy().log_probs(prompts, tokens).detach() for _ in range(2))
    rewards = example.reward(prompts, tokens)
    found, expected = ((old + 0.3 * torch.randn(old.shape)).requires_grad_() for _ in range(2))
    expected.data.copy_(found.data)
    loss = example.grpo_loss(found, old, ref, example.F.norm.local(rewards), mask)
    batch = {
        "log_probs": expected,
        "old_log_probs": old,
        "sampler_log_probs": old,
        "ref_log_probs": ref,
        "rewards": rewards,
        "mask": mask,
        "keep": torch.ones_like(rewards, dtype=torch.bool),
        "mean_tokens": mask.sum().float(),
        "log_ratio_bound": torch.tensor(20.0),
    }
    others = numbers(1, *mask.shape, dtype=torch.float32)  # which nobody asks for
    batch = others | {name: value.unsqueeze(0) for name, value in batch.items()}
    axes = {"norm": "local", "clip": "higher", "agg": "token", "kl": "k3"}
    theirs = objective({axis: chosen(axis, label) for axis, label in axes.items()}, example.KL_COEF, batch)
    torch.testing.assert_close(loss, theirs.squeeze(0), **FLOAT32)
    gradients = torch.autograd.grad(loss, found)[0], torch.autograd.grad(theirs.sum(), expected)[0]
    assert gradients[0].abs().max() > 0
    torch.testing.assert_close(*gradients, **FLOAT32)


def test_the_block_of_plain_torch():
    names: dict = {}
    exec(BLOCKS[0], names)
    assert names["advantages"].shape == (5,) and names["log_probs"].grad[names["mask"]].abs().min() > 0


def test_the_block_of_verl(monkeypatch):
    """What of it is ours, with stand-ins for what it imports from verl."""
    verl = SimpleNamespace(
        register_adv_est=lambda name: lambda function: function,
        register_policy_loss=lambda name: lambda function: function,
        agg_loss=lambda losses, mask, mode, **batch: (losses * mask).sum() / mask.sum(),
    )
    monkeypatch.setitem(sys.modules, "verl.trainer.ppo.core_algos", verl)
    names: dict = {}
    exec(BLOCKS[2], names)
    rewards, mask = (
        torch.tensor([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]),
        torch.tensor([[1, 1]] * 2 + [[1, 0]] * 2),
    )
    advantages, _ = names["quantile"](rewards, mask, np.array(["b", "a", "b", "a"], dtype=object))
    assert advantages[1:3].eq(0).all() and advantages[3, 0] > 0 == advantages[3, 1], (
        "the quantile of two is the smaller"
    )
    log_probs = torch.full((4, 2), -1.0, requires_grad=True)
    config = SimpleNamespace(global_batch_info={})
    loss, metrics = names["m2po"](log_probs.detach(), log_probs, advantages, mask, config=config)
    assert metrics == {} and torch.autograd.grad(loss, log_probs)[0][3].tolist() == [-advantages[3, 0].item() / 6, 0]


def test_the_block_of_trl(tmp_path):
    """A tiny Llama is trained by it for two steps of two updates."""
    pytest.importorskip("trl")
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig
    from trl_pairs import model_folder, reward_of, weights

    names: dict = {}
    exec(BLOCKS[1], names)
    arguments = GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=4, gradient_accumulation_steps=2, num_generations=4,
        max_completion_length=6, num_iterations=2, max_steps=4, beta=0.1, learning_rate=1e-2, report_to=[],
        use_cpu=True, bf16=False, save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = names["OwnTrainer"](
        model=AutoModelForCausalLM.from_pretrained(model_folder(), dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(model_folder(), padding_side="left"),
        reward_funcs=[lambda completions, **columns: [*map(reward_of, completions)]],
        train_dataset=Dataset.from_list([{"prompt": f"{i}+{i}="} for i in range(10)]),
        args=arguments,
    )
    before = weights(trainer)
    trainer.train()
    assert not torch.equal(weights(trainer), before) and weights(trainer).isfinite().all()
