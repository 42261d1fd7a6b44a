"""Every task in the training loop: a run has the same bits alone and in a batch, evaluation included."""

from __future__ import annotations

import pytest
import reference_tasks
import torch
from policies import threads  # noqa: F401
from small_runs import SHORT, SMALL, compose

from rlexp.loop.evaluation import evaluate
from rlexp.loop.step import train_step
from rlexp.sweep.build import build
from rlexp.tasks import TASKS

SEEDS = (3, 1, 4)
TINY = ["model.width=8", "model.heads=2", "model.feedforward=8"]


def trained(config, seeds) -> dict[str, torch.Tensor]:
    """Metrics of two steps and an evaluation, and the weights after them, ``[R, ...]`` each."""
    state = build([config.model_copy(update={"seed": seed}) for seed in seeds])
    found = {}
    for step in (1, 2):
        found |= {f"{step}/{name}": values for name, values in train_step(state, step, True).items()}
    found |= evaluate(state, 2, prompts=6, samples=2, ks=[1, 2])
    return found | dict(state.policy.named_parameters())


@pytest.mark.bits
@pytest.mark.slow  # a run of each task
@pytest.mark.parametrize("name", TASKS)
def test_a_run_of_a_task_has_the_same_bits_alone_and_together(name, threads):  # noqa: F811
    model = ["model=tabular"] if name in reference_tasks.WORLDS else TINY
    config = compose(f"task={name}", *model, *SHORT, *SMALL, "norm=global", "agg=dr_grpo", "kl=k3", "kl.coef=0.1")
    threads(1)
    together = trained(config, SEEDS)
    for replica, seed in enumerate(SEEDS):
        alone = trained(config, [seed])
        assert alone.keys() == together.keys()
        for key, values in alone.items():
            pair = values[0], together[key][replica]
            assert all(each.isnan().all() for each in pair) or torch.equal(*pair), key
