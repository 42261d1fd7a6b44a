"""A minibatch for TRL's trainer and for a training step here: cases, tensors, and the two losses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import torch
import torch.nn.functional as F
from axis_choices import bind
from plain_step import Recipe
from torch import Tensor
from toy_state import variant

from benchmarks.trl import parts, reward
from rlexp.loop.state import Experience
from rlexp.loop.step import loss_terms

PROMPTS, GROUP, LENGTH, TIME, CAP = 3, 4, 8, 6, 7
# Both sides are float64; what is asked for is far above their rounding and far below any difference of formula.
RELATIVE = 1e-5
PPO = {"low": 0.2, "high": 0.2}
MINUTE = {"low": 0.02, "high": 0.03}
TOKENS = 70  # of the whole rollout, of which the tensors here are one of two minibatches


@dataclass(frozen=True)
class Case:
    """Arguments of GRPOConfig, and the choices that do the same."""

    arguments: dict
    clip: object
    agg: object
    mismatch: object = field(default_factory=lambda: bind("mismatch", "none"))
    kl: float = 0.0
    penalty: str = "k3"
    correction: str | None = None


def ppo(agg, arguments=None, **hyperparameters):
    return Case(arguments or {}, bind("clip", "ppo", **(PPO | hyperparameters)), agg)


def clipped(name, agg, arguments, **hyperparameters):
    return Case(arguments, bind("clip", name, **hyperparameters), bind("agg", agg))


def corrected(mode, low, high):
    correction = bind("mismatch", mode, low=low, high=high)
    return Case({"loss_type": "grpo"}, bind("clip", "ppo", **PPO), bind("agg", "sequence"), correction, correction=mode)


SEQUENCE_LEVEL = {"importance_sampling_level": "sequence", "epsilon": 0.02, "epsilon_high": 0.03}
VESPO = dict(k_positive=2.0, lambda_positive=3.0, k_negative=3.0, lambda_negative=2.0)
CASES = {
    "grpo": ppo(bind("agg", "sequence"), {"loss_type": "grpo"}),
    "higher": ppo(bind("agg", "sequence"), {"loss_type": "grpo", "epsilon_high": 0.28}, high=0.28),
    "dapo": ppo(bind("agg", "token"), {"loss_type": "dapo"}),
    "bnpo": ppo(bind("agg", "bnpo"), {"loss_type": "bnpo"}),
    "dr_grpo": ppo(bind("agg", "dr_grpo", length=CAP), {"loss_type": "dr_grpo"}),
    "luspo_of_tokens": ppo(bind("agg", "sequence_sum"), {"loss_type": "luspo"}),
    "luspo": clipped("gspo", "sequence_sum", SEQUENCE_LEVEL | {"loss_type": "luspo"}, **MINUTE),
    "gspo": clipped("gspo", "sequence", SEQUENCE_LEVEL | {"loss_type": "grpo"}, **MINUTE),
    "delta": clipped("two_sided", "sequence", {"loss_type": "grpo", "delta": 1.3}, delta=1.3, **PPO),
    "dual": clipped("dual", "sequence", {"loss_type": "grpo", "delta": 1.3}, c=1.3, **PPO),
    "cispo": clipped("cispo", "token", {"loss_type": "cispo", "epsilon_high": 1.1}, lower=0.0, upper=1.1),
    "cispo_unset": clipped("cispo", "token", {"loss_type": "cispo"}, lower=0.0, upper=0.2),
    "sapo": clipped("sapo", "sequence", {"loss_type": "sapo"}, tau_positive=1.0, tau_negative=1.05),
    "vespo": clipped("vespo", "token", {"loss_type": "vespo"}, **VESPO),
    "opsm": clipped("opsm", "sequence", {"loss_type": "grpo", "off_policy_mask_threshold": 0.05}, delta=0.05, **PPO),
    "kl": replace(ppo(bind("agg", "token"), {"loss_type": "dapo", "use_bias_correction_kl": False}), kl=0.3),
    "kl_corrected": replace(ppo(bind("agg", "token"), {"loss_type": "dapo"}), kl=0.3, penalty="k3_corrected"),
    "token_truncate": corrected("token_truncate", 0.0, 1.2),
    "token_mask": corrected("token_mask", 0.8, 1.2),
    "sequence_truncate": corrected("sequence_truncate", 0.7, 1.5),
    "sequence_mask": corrected("sequence_mask", 0.7, 1.5),
}


@pytest.fixture(scope="module")
def made():
    """Return a Llama in float64, a tokenizer, prompts."""
    model, tokenizer, prompts = parts()
    return model.double(), tokenizer, prompts


@pytest.fixture
def trained(made, tmp_path):
    """Return a function that makes TRL's trainer for some arguments; nothing is trained."""
    from trl import GRPOConfig, GRPOTrainer

    def make(kind=GRPOTrainer, settings=GRPOConfig, **arguments):
        model, tokenizer, prompts = made
        config = settings(
            output_dir=str(tmp_path),
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=PROMPTS * GROUP,
            steps_per_generation=2,
            num_generations=GROUP,
            max_completion_length=CAP,
            report_to="none",
            beta=0.0,
            **arguments,
        )
        trainer = kind(model, reward, args=config, train_dataset=prompts, processing_class=tokenizer)
        trainer.current_gradient_accumulation_steps = 1
        model.train()
        return trainer

    return make


@pytest.fixture(scope="module")
def tensors(made):
    """Return what a minibatch is for TRL: rows of prompts and completions, one masked throughout, off-policy."""
    model, random = made[0], torch.Generator().manual_seed(5)
    rows = PROMPTS * GROUP
    prompts = torch.randint(0, 16, (PROMPTS, LENGTH), generator=random).repeat_interleave(GROUP, 0)
    completions = torch.randint(0, 16, (rows, TIME), generator=random)
    lengths = torch.randint(1, TIME + 1, (rows, 1), generator=random)
    mask = torch.arange(TIME) < lengths
    mask[5] = False
    with torch.no_grad():
        log_probs = scored(model, prompts, completions)

    def near(spread):
        return log_probs + spread * torch.randn(log_probs.shape, generator=random, dtype=torch.float64)

    old = near(0.3)
    return {
        "prompt_ids": prompts,
        "prompt_mask": torch.ones_like(prompts),
        "completion_ids": completions,
        "completion_mask": mask.long(),
        "old_per_token_logps": old,
        "sampling_per_token_logps": old + 0.3 * torch.randn(old.shape, generator=random, dtype=torch.float64),
        "ref_per_token_logps": near(0.5),
        "advantages": torch.randn(rows, generator=random, dtype=torch.float64),
        "num_items_in_batch": torch.tensor(TOKENS),
    }


def scored(model, prompts: Tensor, completions: Tensor) -> Tensor:
    """Log-probabilities of the completions, by the model's own forward pass, ``[rows, T]``."""
    logits = model(torch.cat([prompts, completions], 1)).logits[:, LENGTH - 1 : -1]
    return F.log_softmax(logits, -1).gather(-1, completions.unsqueeze(-1)).squeeze(-1)


def stacked(rows: Tensor) -> Tensor:
    """Rows of TRL as one replica's groups: ``[P · G, ...] -> [1, P, G, ...]``."""
    return rows.view(1, -1, GROUP, *rows.shape[1:])


def ours(case: Case, model, tensors, entropy_bonus: float = 0.0, tokens: float = TOKENS / 2) -> Tensor:
    """The loss of a training step; ``tokens`` is how many a minibatch of the rollout has on average."""
    prompts, completions, mask = (tensors[name] for name in ("prompt_ids", "completion_ids", "completion_mask"))
    logits = model(torch.cat([prompts, completions], 1)).logits[:, LENGTH - 1 : -1].log_softmax(-1)
    log_probs = logits.gather(-1, completions.unsqueeze(-1)).squeeze(-1)
    part = Experience(
        prompts=stacked(prompts)[:, :, 0],
        completions=stacked(completions),
        old_log_probs=stacked(tensors["old_per_token_logps"]),
        ref_log_probs=stacked(tensors["ref_per_token_logps"]),
        mask=stacked(mask.bool()),
        keep=stacked(mask.bool().any(-1)),
        rewards=stacked(tensors["advantages"]),
        advantages=stacked(tensors["advantages"].unsqueeze(-1).expand(mask.shape)),
        sampler_log_probs=stacked(tensors["sampling_per_token_logps"]),
        prompt_numbers=stacked(prompts)[:, :, 0, 0],
        critic={},
    )
    recipe = Recipe(kl_in_loss=case.kl, entropy_bonus=entropy_bonus)
    chosen = replace(variant(recipe), clip=case.clip, agg=case.agg, mismatch=case.mismatch, kl=bind("kl", case.penalty))
    entropies = stacked(-(logits.exp() * logits).sum(-1))
    known = {"mean_tokens": torch.tensor([tokens], dtype=torch.float64), "kl_factor": torch.ones(1).double()}
    return sum(loss_terms(chosen, stacked(log_probs), entropies, part, known).values()).sum()


def theirs(trainer, tensors, mode: str | None = None, low: float = 0.0, high: float = 0.0) -> Tensor:
    """The loss of TRL's trainer; its correction is an input that only its generation with vLLM makes."""
    inputs = {name: rows for name, rows in tensors.items() if name != "sampling_per_token_logps"}
    if mode:
        trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
        inputs["importance_sampling_ratio"] = trl_weights(tensors, mode, low, high)
    return trainer._compute_loss(trainer.model, inputs)


def trl_weights(tensors, mode: str, low: float, high: float) -> Tensor:
    """What TRL's ``_generate_and_score_completions`` hands to its loss."""
    difference = tensors["old_per_token_logps"] - tensors["sampling_per_token_logps"]
    difference = difference * tensors["completion_mask"]
    if mode.startswith("sequence"):
        difference = difference.sum(-1, keepdim=True)
    ratio = difference.exp()
    return ratio.clamp(low, high) if mode.endswith("truncate") else ratio * ((ratio >= low) & (ratio <= high))


def value_and_gradient(loss: Tensor, model) -> tuple[float, Tensor]:
    gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return loss.item(), torch.cat([gradient.flatten() for gradient in gradients if gradient is not None])


def compared(left: Tensor, right: Tensor, model) -> tuple[float, float]:
    """Relative distances of two losses: of their values, and of their gradients."""
    (value, slopes), (other, others) = value_and_gradient(left, model), value_and_gradient(right, model)
    assert others.norm() > 0
    return abs(value - other) / abs(other), ((slopes - others).norm() / others.norm()).item()
