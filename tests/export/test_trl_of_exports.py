"""TRL's own loss and schedule, made from the arguments that are exported, against ours for the same configuration."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from axis_choices import choice_of
from exports import exported
from small_runs import compose
from trl_losses import (  # noqa: F401 (made, trained and tensors are fixtures)
    CAP,
    RELATIVE,
    Case,
    compared,
    made,
    ours,
    tensors,
    theirs,
    trained,
)

from rlexp.loop.optimizer import Schedule

if not find_spec("trl"):
    pytest.skip("TRL is not installed: pip install '.[trl]'", allow_module_level=True)

pytestmark = pytest.mark.slow

# Of the batch, which the tensors here fix, and the penalty, whose model would be loaded.
BATCH = {"num_generations", "per_device_train_batch_size", "steps_per_generation", "max_completion_length", "beta"}
BARE, SEQUENCE = ["entropy_coef=0", f"task.cap={CAP}"], ["agg=sequence"]
LOSSES = [
    ["clip=unclipped"],
    ["clip=symmetric", *SEQUENCE],
    ["clip=higher"],
    ["clip=dual", "clip.c=1.3"],
    ["clip=two_sided", "clip.delta=1.3", *SEQUENCE],
    ["clip=cispo"],
    ["clip=sapo", *SEQUENCE],
    ["clip=gspo", "clip.low=0.02", "clip.high=0.03", *SEQUENCE],
    ["clip=gspo_token", "clip.low=0.02", "clip.high=0.03", *SEQUENCE],
    ["clip=luspo", "agg=luspo"],
    ["clip=vespo"],
    ["agg=bnpo", "entropy_coef=0.5"],
    ["agg=dr_grpo"],
    ["agg=sequence_sum"],
    ["kl=k3", "kl.coef=0.3"],
    ["kl=k3_corrected", "kl.coef=0.3"],
    ["mismatch=token_truncate", "mismatch.high=1.2"],
    ["mismatch=token_mask", "mismatch.low=0.8", "mismatch.high=1.2"],
    ["mismatch=sequence_truncate", "mismatch.high=1.2"],
    ["mismatch=sequence_mask", "mismatch.high=1.5", *SEQUENCE],
]


def distances(overrides, trained, tensors):  # noqa: F811
    """Relative distances of TRL's loss from ours, in value and gradient."""
    overrides = [*BARE, *overrides]
    config, settings = compose(*overrides), exported("trl", *overrides).settings
    axes = {axis: getattr(config, axis).model_dump() for axis in ("clip", "agg", "mismatch")}
    chosen = {axis: choice_of(axis, node["name"], node) for axis, node in axes.items()}
    mode = settings.get("vllm_importance_sampling_mode")
    bounds = [settings.get(f"vllm_importance_sampling_clip_{end}", 0.0) for end in ("min", "max")]
    case = Case({}, **chosen, kl=settings["beta"], penalty=config.kl.name, correction=mode)
    trainer = trained(**{name: value for name, value in settings.items() if name not in BATCH})
    trainer.beta = settings["beta"]
    loss = ours(case, trainer.model, tensors, config.entropy_coef)
    return compared(loss, theirs(trainer, tensors, mode, *bounds), trainer.model)


@pytest.mark.parametrize("overrides", LOSSES, ids=" ".join)
def test_the_loss_of_the_exported_arguments_is_ours(trained, tensors, overrides):  # noqa: F811
    assert max(distances(overrides, trained, tensors)) < RELATIVE


def test_a_correction_by_token_is_another_gradient_beside_gspo_token(trained, tensors):  # noqa: F811
    """TRL's is that of ``gspo``, as the export says."""
    wide = ["clip.low=0.9", "clip.high=9", *SEQUENCE, "mismatch=token_mask"]
    assert distances(["clip=gspo_token", *wide], trained, tensors)[1] > 0.01
    assert max(distances(["clip=gspo", *wide], trained, tensors)) < RELATIVE


def rates(*overrides):
    """Learning rates of every update: Hugging Face's scheduler with the exported arguments, and ours."""
    from transformers import get_scheduler

    config, settings = compose("steps=10", *overrides), exported("trl", "steps=10", *overrides).settings
    updates = settings["max_steps"]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=settings["learning_rate"])
    name, hyperparameters = settings["lr_scheduler_type"], settings["lr_scheduler_kwargs"]
    scheduler = get_scheduler(
        name, optimizer, settings["warmup_steps"], updates, scheduler_specific_kwargs=hyperparameters
    )
    found = []
    for _ in range(updates):
        found.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    numbers = (torch.tensor([float(each)]) for each in (config.lr, config.warmup_steps, config.lr_final))
    schedule = Schedule(*numbers, updates)
    return torch.tensor(found), torch.cat([schedule.rates(update) for update in range(updates)])


@pytest.mark.parametrize("final", [0.0, 0.25, 1.0])
def test_without_a_warm_up_the_learning_rates_are_ours(final):
    torch.testing.assert_close(*rates(f"lr_final={final}"))


def test_with_a_warm_up_they_begin_at_0_and_come_one_update_later():
    theirs_, ours_ = rates("lr_final=1.0", "warmup_steps=4")
    assert theirs_[0] == 0
    torch.testing.assert_close(theirs_[1:], ours_[:-1])
