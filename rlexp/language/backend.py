"""Who trains: this project's own loop, many runs as one batch, or TRL's trainer, a language model a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rlexp.core.types import PositiveInt


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """This project's loop (``loop/step.py``): all runs of a bucket as one batch of stacked small policies."""

    batched: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Trl:
    """TRL's ``GRPOTrainer``, whose rewards, advantages and losses are those of this project's axes.

    ``max_completion_length`` are tokens of the model, the end token included. A step's completions go through the model
    in parts of ``micro_batch`` groups on each process (null: all groups of a minibatch at once): their gradients are
    accumulated. ``precision`` is that of the products, as Accelerate's ``mixed_precision``. ``accelerate`` is in how
    many processes a run is trained, or the file of ``accelerate config`` that says so (and DeepSpeed, FSDP, …); null:
    in this one.
    """

    batched: ClassVar[bool] = False

    max_completion_length: PositiveInt
    micro_batch: PositiveInt | None
    precision: Literal["float32", "bf16", "fp16"]
    gradient_checkpointing: bool
    vllm: bool
    accelerate: PositiveInt | str | None


TESTED_TRL = "1.16."  # the releases whose own trainer tests/backends compare with ours
# Tensors that TRL's backend offers to no axis, by the names of ``axes/offered.py``.
NOT_OFFERED = {
    "greedy_rewards": "a greedy completion of each prompt",
    "sum_pi_squared": "the whole distribution of the policy",
    "teacher_log_probs": "a teacher",
    "values": "a critic",
    "token_rewards": "rewards of single tokens",
    "prompt_numbers": "a set of prompts that a run sees again and again",
    "uniforms": "random numbers in the loss",
}
# The class of ``torch.optim`` that TRL's backend gives each optimizer; another one is refused.
OPTIMIZERS = {"adam": "AdamW", "adamw": "AdamW", "sgd": "SGD", "momentum": "SGD", "rmsprop": "RMSprop"}
BACKENDS = {"replicas": Replicas, "trl": Trl}
