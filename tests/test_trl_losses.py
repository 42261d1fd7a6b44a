"""TRL's own loss, computed by its trainer on a tiny model, against the loss of a training step on the same tensors.

Values and the gradients of all weights agree to 1e-5 relative, for every policy loss, aggregation and correction that
TRL offers; where the two differ on purpose the difference is asserted. Needs `pip install '.[trl]'`.
"""

from __future__ import annotations

import importlib.util
import inspect
from dataclasses import dataclass, field, replace

import pytest
import torch
import torch.nn.functional as F
from axis_choices import bind
from plain_step import Recipe
from torch import Tensor
from toy_fleet import variant

from benchmarks.trl import parts, reward
from rlexp.fleet import Experience
from rlexp.learn import objective

if not importlib.util.find_spec("trl"):
    pytest.skip("TRL is not installed: pip install '.[trl]'", allow_module_level=True)

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


def ppo(agg, arguments=None, **knobs):
    return Case(arguments or {}, bind("clip", "ppo", **(PPO | knobs)), agg)


def clipped(name, agg, arguments, **knobs):
    return Case(arguments, bind("clip", name, **knobs), bind("agg", agg))


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
    )
    recipe = Recipe(kl_in_loss=case.kl, entropy_bonus=entropy_bonus)
    chosen = replace(variant(recipe), clip=case.clip, agg=case.agg, mismatch=case.mismatch, kl=bind("kl", case.penalty))
    entropies = stacked(-(logits.exp() * logits).sum(-1))
    known = {"mean_tokens": torch.tensor([tokens], dtype=torch.float64), "kl_factor": torch.ones(1).double()}
    return sum(objective(chosen, stacked(log_probs), entropies, part, known).values()).sum()


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


@pytest.mark.parametrize("name", CASES)
def test_the_loss_is_that_of_trl(trained, tensors, name):
    case = CASES[name]
    trainer = trained(**case.arguments)
    trainer.beta = case.kl  # as an argument it would load a reference model
    other = theirs(trainer, tensors, case.correction, **case.mismatch.knobs)
    assert max(compared(ours(case, trainer.model, tensors), other, trainer.model)) < RELATIVE


def test_gmpo_is_that_of_trl(trained, tensors):
    """A completion without a token that counts adds −A to TRL's value, and nothing to its gradient."""
    from trl.experimental.gmpo import GMPOConfig, GMPOTrainer

    bounds = dict(low=0.2, high=0.3)
    case = Case({}, bind("clip", "gmpo", **bounds), bind("agg", "sequence"))
    trainer = trained(GMPOTrainer, GMPOConfig, epsilon=0.2, epsilon_high=0.3)
    (row,) = torch.nonzero(tensors["completion_mask"].sum(-1) == 0).flatten().tolist()
    constant = -tensors["advantages"][row] / (PROMPTS * GROUP)
    assert (
        max(compared(ours(case, trainer.model, tensors) + constant, theirs(trainer, tensors), trainer.model)) < RELATIVE
    )


def test_every_loss_of_trl_is_compared():
    """A loss_type that a later TRL adds is found here."""
    from trl import GRPOTrainer

    source = inspect.getsource(GRPOTrainer._compute_loss)
    known = {case.arguments["loss_type"] for case in CASES.values()}
    assert known == {"grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"}
    assert all(f'"{name}"' in source for name in known)
    named = [line for line in source.splitlines() if "self.loss_type in [" in line or "self.loss_type == " in line]
    assert {word for line in named for word in line.split('"')[1::2]} == known


def test_the_overlong_punishment_is_that_of_trl():
    from trl.rewards import get_soft_overlong_punishment

    theirs = get_soft_overlong_punishment(max_completion_len=10, soft_punish_cache=4)
    lengths = torch.arange(1, 13, dtype=torch.float64).view(1, -1)
    punished = bind("shaping", "overlong", cap=10, cache=4, factor=1.0)(torch.zeros_like(lengths), lengths)
    assert punished[0].tolist() == theirs(completion_ids=[[0] * n for n in range(1, 13)])


# ---- where TRL and a training step here differ


@pytest.mark.parametrize("name", ["grpo", "dapo", "bnpo", "dr_grpo", "luspo", "sapo", "cispo"])
def test_accumulating_two_halves_of_a_minibatch_is_the_minibatch_in_all_but_bnpo(trained, tensors, name):
    """TRL's bnpo averages the means of what a device holds at a time; here a minibatch is that of an optimizer step."""
    case = CASES[name]
    trainer = trained(**case.arguments)
    trainer.current_gradient_accumulation_steps = trainer.args.steps_per_generation = 2

    def rows(first, last):
        return {key: each[first:last] if each.dim() else each for key, each in tensors.items()}

    accumulated = theirs(trainer, rows(0, GROUP)) + theirs(trainer, rows(GROUP, 2 * GROUP))
    both = compared(ours(case, trainer.model, rows(0, 2 * GROUP), tokens=TOKENS), accumulated, trainer.model)
    assert (max(both) < RELATIVE) == (name != "bnpo")


def test_an_entropy_bonus_of_trl_is_always_a_mean_over_the_tokens_at_hand(trained, tensors):
    """Here it has the aggregation of the loss: with bnpo they agree, with the mean over completions they do not."""
    for name in ("bnpo", "grpo"):
        case = CASES[name]
        trainer = trained(**case.arguments, entropy_coef=0.5)
        both = compared(ours(case, trainer.model, tensors, 0.5), theirs(trainer, tensors), trainer.model)
        assert (max(both) < RELATIVE) == (name == "bnpo")


def test_vespo_of_trl_has_the_correction_inside_its_weight(trained, tensors):
    """Here it multiplies the loss, as for every other; without a disagreement they agree (above)."""
    case = CASES["vespo"]
    trainer = trained(**case.arguments)
    correction = bind("mismatch", "token_truncate", low=0.0, high=2.0)
    multiplied = Case(case.arguments, case.clip, case.agg, correction)
    for other in (ours(multiplied, trainer.model, tensors), theirs(trained(**case.arguments), tensors)):
        corrected = theirs(trainer, tensors, "token_truncate", 0.0, 2.0)
        assert compared(other, corrected, trainer.model)[1] > 0.01


def test_opsm_of_trl_is_against_the_sampler_where_its_log_probs_are_known(trained, tensors):
    """Here it is against the old policy."""
    case = CASES["opsm"]
    trainer = trained(**case.arguments)
    sampled = trainer._compute_loss(trainer.model, tensors)
    assert compared(ours(case, trainer.model, tensors), sampled, trainer.model)[1] > 0.01
