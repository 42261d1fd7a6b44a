"""The config keys beside the groups, each with its type and what it means; light, as the help prints them.

Their values are those of ``conf/config.yaml``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le
from pydantic import Field, FiniteFloat

from rlexp.core.numbers import FiniteNonNegative, Level, NonNegativeInt, Positive, PositiveInt, Seed, Size
from rlexp.core.registry import StrictModel


def key(kind: object, text: str) -> object:
    """Return the type of a key together with its line of help."""
    return Annotated[kind, Field(description=text)]


class Evaluation(StrictModel):
    """Held-out evaluation: how often, on how many prompts, with how many samples a prompt, and which pass@k."""

    every: PositiveInt
    prompts: Size
    samples: Size
    ks: key(list[PositiveInt], "pass@k, from those samples")


class Score(StrictModel):
    """The one number of a run: mean of ``metric`` over the last ``share`` of its evaluations."""

    metric: str
    floor: key(FiniteFloat, "below it the run has collapsed")
    share: key(Level, "mean over this last share of the evaluations")


class Settings(StrictModel):
    """The keys of a config beside its groups."""

    seed: key(
        Seed, "runs that share a seed share weights, prompts and sampling noise: their difference is a paired one"
    )
    steps: key(PositiveInt, "rollouts")
    inner_steps: key(PositiveInt, "passes over each rollout")
    minibatches: key(
        PositiveInt,
        "optimizer updates in a pass; groups are never split. "
        "With 1 (and inner_steps 1) every ratio is 1: clip is idle",
    )
    lr: key(Positive, "learning rate, chosen for optimizer=adam; sgd and momentum want another")
    lr_final: key(
        Annotated[float, Ge(0), Le(1)],
        "the learning rate falls linearly towards this share of lr; 1 keeps it constant",
    )
    warmup_steps: key(NonNegativeInt, "updates until the learning rate is reached")
    grad_clip: key(Positive | None, "largest norm of a run's gradient; null for none")
    entropy_coef: key(FiniteNonNegative, "bonus, in the aggregation of the loss")
    advantage_clip: key(Positive | None, "largest size of an advantage, after norm; null for none")
    log_ratio_bound: key(
        Positive | None,
        "largest size of a log-ratio before it is exponentiated, in nats, as in verl; null for none",
    )
    kl_stop: key(
        Positive | None,
        "distance from the policy that sampled, in nats a token, beyond which a rollout is left; null for none",
    )
    temperature: key(Positive, "of sampling and of every log-probability")
    log_every: key(PositiveInt, "steps between lines of metrics.jsonl")
    checkpoint_every: key(PositiveInt, "steps between checkpoints; Ctrl-C writes one too")
    resume: key(
        Literal["auto", "failed", "never"],
        "in a folder that holds runs of this config: skip what is done, go on with what was interrupted; "
        "failed trains failed runs again, never refuses such a folder",
    )
    threads: key(
        PositiveInt | None,
        "of the processor; null keeps trying out which number is fastest. They change no result",
    )
    device: key(Literal["cpu", "cuda"], "or cuda, the first that CUDA_VISIBLE_DEVICES names")
    matmul_precision: key(
        Literal["highest", "high", "medium"],
        "of float32 products, as torch.set_float32_matmul_precision: high allows TF32, medium bfloat16, "
        "where the processor has them; only with highest is a run the same bits alone and in a batch",
    )
    compile: key(
        bool, "true compiles sampling and the training pass: minutes at the start, faster steps; bits as said above"
    )
    eval: key(Evaluation, "on held-out prompts")
    score: key(Score, "the one number of a run, fixed before it starts")
    baseline: key(str | None, "the variant that the others are compared with, as `norm=local`; null for the first")
    until_decided: key(
        Positive | None,
        "with -m: seeds are added until each difference to the baseline is shown, or shown to be below this "
        "margin; the seeds of the sweep are the most",
    )
