"""A run's config as TRL's: ``GRPOConfig``, optimizer, and how a step is cut into micro-batches."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from trl import GRPOConfig

from rlexp.config.schema import Config
from rlexp.core.exits import RunFailed
from rlexp.language.backend import OPTIMIZERS

PRECISIONS = {"float32": {}, "bf16": {"bf16": True}, "fp16": {"fp16": True}}


class MicroBatches(NamedTuple):
    """How a step's groups are cut: ``groups`` in a micro-batch, ``accumulated`` of these in an update, on a process."""

    groups: int
    accumulated: int


def world_size() -> int:
    """Return how many processes train this run together, as ``accelerate launch`` says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def micro_batches(config: Config, processes: int) -> MicroBatches:
    """Cut a minibatch for so many processes; RunFailed where whole groups do not fit."""
    prompts, minibatches = config.group_size.prompts, config.minibatches
    each, rest = divmod(prompts, minibatches * processes)
    asked = f"group_size.prompts={prompts} minibatches={minibatches}"
    if rest or not each:
        raise RunFailed(f"{asked}: cannot be shared by {processes} processes, groups are never split")
    groups = config.backend.micro_batch or each
    if each % groups:
        raise RunFailed(f"backend.micro_batch={groups}: must divide the {each} groups of a minibatch on a process")
    return MicroBatches(groups, each // groups)


def grpo_config(config: Config, folder: Path, processes: int, weights: list[float], reference: bool) -> GRPOConfig:
    """Return TRL's settings of a run: what the axes do not say. A ``beta`` that is not 0 has it read the reference."""
    groups, accumulated = micro_batches(config, processes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Transformers has another name for checkpointing than TRL
        return GRPOConfig(
            output_dir=str(folder),
            seed=config.seed,
            max_steps=config.steps * config.inner_steps * config.minibatches,
            num_generations=config.group_size.completions,
            num_iterations=config.inner_steps,
            per_device_train_batch_size=groups * config.group_size.completions,
            gradient_accumulation_steps=accumulated,
            steps_per_generation=accumulated * config.minibatches,
            shuffle_dataset=False,
            max_completion_length=config.backend.max_completion_length,
            temperature=config.temperature,
            top_p=1.0,
            top_k=0,
            reward_weights=weights,
            beta=float(reference),
            learning_rate=config.lr,
            max_grad_norm=config.grad_clip or 0.0,
            weight_decay=getattr(config.optimizer, "weight_decay", 0.0),
            gradient_checkpointing=config.backend.gradient_checkpointing,
            use_cpu=config.device == "cpu",
            use_vllm=config.backend.vllm,
            vllm_mode="colocate",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="steps",
            logging_steps=1,
            save_strategy="no",
            **PRECISIONS[config.backend.precision],
        )


def schedule(config: Config) -> Callable[[int], float]:
    """Return the share of the learning rate that the update after so many has, as in ``loop.optimizer.Schedule``."""
    total = config.steps * config.inner_steps * config.minibatches

    def share(updates: int) -> float:
        left = 1 - (1 - config.lr_final) * (updates / total)
        return left * min((updates + 1) / max(config.warmup_steps, 1), 1.0)

    return share


def optimizer(config: Config) -> tuple[type, dict[str, Any]]:
    """Return the optimizer of ``torch.optim`` that a config names, and its settings.

    As in Transformers, biases and norms do not decay, which they do in ``optimizer=adamw`` of the other backend.
    """
    hyperparameters = config.optimizer.model_dump(exclude={"name", "beta1", "beta2", "weight_decay"}) | {
        "lr": config.lr
    }
    made = getattr(torch.optim, OPTIMIZERS[config.optimizer.name])
    if made is torch.optim.AdamW:
        hyperparameters["betas"] = config.optimizer.beta1, config.optimizer.beta2
    return made, hyperparameters
