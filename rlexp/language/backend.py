"""Who trains: this project's own loop, many runs as one batch, or TRL's trainer, a language model a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlexp.core.types import PositiveInt


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """This project's loop (``loop/step.py``): all runs of a bucket as one batch of stacked small policies."""


@dataclass(frozen=True, kw_only=True)
class Trl:
    """TRL's ``GRPOTrainer``, whose rewards, advantages and losses are those of this project's axes.

    ``max_completion_length`` are tokens of the model, the end token included. A step's completions go through the model
    in parts of ``micro_batch`` groups on each process (null: all groups of a minibatch at once): their gradients are
    accumulated. ``precision`` is that of the products, as Accelerate's ``mixed_precision``. ``accelerate`` is in how
    many processes a run is trained, or the file of ``accelerate config`` that says so (and DeepSpeed, FSDP, …); null:
    in this one.
    """

    max_completion_length: PositiveInt
    micro_batch: PositiveInt | None
    precision: Literal["float32", "bf16", "fp16"]
    gradient_checkpointing: bool
    vllm: bool
    accelerate: PositiveInt | str | None


BACKENDS = {"replicas": Replicas, "trl": Trl}
# The class of ``torch.optim`` that TRL's backend gives each optimizer; another one is refused.
OPTIMIZERS = {"adam": "AdamW", "adamw": "AdamW", "sgd": "SGD", "momentum": "SGD", "rmsprop": "RMSprop"}


class NoOp:
    """What a ``Limit`` allows where a choice must return what it is given."""


@dataclass(frozen=True)
class Limit:
    """What a backend allows at one key of a config.

    Attributes:
        key: as ``task.prompt_set``, null where the config has none; of a group as ``data`` its choice is meant.
        allowed: the values, or the names of choices; or the table that has them, as ``rlexp.models:MODELS``.
        message: the line for another value. Of its fields ``here`` is the backend, ``key`` and ``value`` what was
            refused, ``names`` what is allowed, and ``choices`` the same as it is typed.
        when, unless: a key without which the limit does not hold, and one with which it does not.
    """

    key: str
    allowed: Collection[Any] | str | type[NoOp]
    message: str
    when: str = ""
    unless: str = ""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a backend can have of a config.

    Attributes:
        batched: it trains runs as one batch of small policies; otherwise one language model a run.
        package: what it needs, an extra of the same name.
        tested: the releases of that package that tests/backends compare with ours, as a prefix.
        limits: what it allows.
        not_offered: tensors that it offers to no axis, by the names of ``axes/offered.py``, and what they are.
    """

    batched: bool
    package: str = ""
    tested: str = ""
    limits: tuple[Limit, ...]
    not_offered: Mapping[str, str] = field(default_factory=dict)


OF_TRL = "{key}={value}: needs backend=trl; {here} has {names}"
OF_REPLICAS = "{here}: {key}={value} is of backend=replicas"
ONLY_NOOP = "{here}: has no {key} but the neutral one; take backend=replicas, or leave {key} as it is"
OF_ADAPTERS = "{key}={value}: with model.lora the reference is the model without its adapter"
OF_VLLM = "{key}={value}: without backend.vllm=true the policy itself samples, nothing differs"
OF_THE_LOOP = (
    "prompts",
    "allocation",
    "reward",
    "filter.refill",
    "sampler",
    "teacher",
    "distillation",
    "imitation",
    "anchor",
)  # axes
CAPABILITIES = {
    "replicas": Capabilities(
        batched=True,
        limits=(Limit("model", "rlexp.models:MODELS", OF_TRL), Limit("task", "rlexp.tasks:TASKS", OF_TRL)),
    ),
    "trl": Capabilities(
        batched=False,
        package="trl",
        tested="1.16.",
        limits=(
            Limit("model", "rlexp.language:LANGUAGE_MODELS", "{here}: trains language models; take {choices}"),
            *(Limit(axis, NoOp, ONLY_NOOP) for axis in OF_THE_LOOP),
            Limit("critic", ("none",), f"{OF_REPLICAS}; take {{choices}}"),
            Limit("data", ("fresh",), f"{OF_REPLICAS}; take {{choices}}"),
            Limit("start", ("random", "sft", "mixture"), f"{OF_REPLICAS}; take start=random, sft or mixture"),
            Limit("temperature_final", (None,), OF_REPLICAS),
            Limit("sampler.products", (None,), OF_REPLICAS),
            Limit("sampler.training", (None,), OF_REPLICAS),
            Limit("kl_stop", (None,), OF_REPLICAS),
            Limit("positive_nll_coef", (0.0,), OF_REPLICAS),
            Limit("compile", (False,), OF_REPLICAS),
            Limit("task.prompt_set", (None,), "{here}: {key} is of backend=replicas; take null"),
            Limit("optimizer", OPTIMIZERS, "{here}: has no {key}={value}; take {choices}"),
            Limit("reference.begin", ("start",), OF_REPLICAS),
            Limit("reference", ("frozen",), OF_ADAPTERS, when="model.lora"),
            Limit("mismatch", NoOp, OF_VLLM, unless="backend.vllm"),
        ),
        not_offered={
            "greedy_rewards": "a greedy completion of each prompt",
            "reference_rewards": "completions by the reference",
            "sum_pi_squared": "the whole distribution of the policy",
            "teacher_log_probs": "a teacher",
            "teacher_distributions": "a teacher",
            "distributions": "the whole distribution of the policy",
            "values": "a critic",
            "token_rewards": "rewards of single tokens",
            "proximal_log_probs": "data that are not fresh",
            "ages": "data that are not fresh",
            "prompt_numbers": "a set of prompts that a run sees again and again",
            "uniforms": "random numbers in the loss",
        },
    ),
}
