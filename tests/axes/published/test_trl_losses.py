"""TRL's own loss, computed by its trainer on a tiny model, against the loss of a training step on the same tensors.

Values and the gradients of all weights agree to 1e-5 relative, for every policy loss, aggregation and correction that
TRL offers; where the two differ on purpose the difference is asserted. Needs `pip install '.[trl]'`.
"""

from __future__ import annotations

import importlib.util
import inspect

import pytest
import torch
from axis_choices import bind
from trl_losses import (  # noqa: F401 (made, trained and tensors are fixtures)
    CASES,
    GROUP,
    PROMPTS,
    RELATIVE,
    TOKENS,
    Case,
    compared,
    made,
    ours,
    tensors,
    theirs,
    trained,
)

if not importlib.util.find_spec("trl"):
    pytest.skip("TRL is not installed: pip install '.[trl]'", allow_module_level=True)

pytestmark = pytest.mark.slow


@pytest.mark.holds("S3.5")
@pytest.mark.parametrize("name", CASES)
def test_the_loss_is_that_of_trl(trained, tensors, name):
    case = CASES[name]
    trainer = trained(**case.arguments)
    trainer.beta = case.kl  # as an argument it would load a reference model
    other = theirs(trainer, tensors, case.correction, **case.mismatch.hyperparameters)
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


@pytest.mark.holds("S3.6")
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
