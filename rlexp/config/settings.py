"""The config keys beside the groups, each with its type and what it means; and a study, which a config may name.

The values of the keys are those of ``conf/config.yaml``. Light, as the help prints them. A study is the question of a
sweep and what is expected of it, written down before it runs: ``analysis`` judges the expectations once the sweep is
over. Here they are read strictly, so that one that cannot be judged is refused before anything is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from pydantic import Field, FiniteFloat, model_serializer, model_validator
from pydantic_core import PydanticCustomError

from rlexp.core.numbers import FiniteNonNegative, NonNegativeInt, Positive, PositiveInt, Seed, Size
from rlexp.core.registry import StrictModel

Share = Annotated[float, Ge(0), Le(1)]


def key(kind: object, text: str) -> object:
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
    share: key(Annotated[float, Gt(0), Le(1)], "mean over this last share of the evaluations")


class Settings(StrictModel):
    """The keys of a config beside its groups."""

    # fmt: off
    seed: key(Seed, "runs that share a seed share weights, prompts and sampling noise: their difference is a paired "
              "one")
    steps: key(PositiveInt, "rollouts")
    inner_steps: key(PositiveInt, "passes over each rollout")
    minibatches: key(PositiveInt, "optimizer updates in a pass; groups are never split. "
                     "With 1 (and inner_steps 1) every ratio is 1: clip is idle")
    lr: key(Positive, "learning rate, chosen for optimizer=adam; sgd and momentum want another")
    lr_final: key(Share, "the learning rate falls linearly towards this share of lr; 1 keeps it constant")
    warmup_steps: key(NonNegativeInt, "updates until the learning rate is reached")
    grad_clip: key(Positive | None, "largest norm of a run's gradient; null for none")
    entropy_coef: key(FiniteNonNegative, "bonus, in the aggregation of the loss")
    positive_nll_coef: key(FiniteNonNegative, "of −log π of correct completions, in the aggregation of the loss")
    whiten_advantages: key(bool, "true: mean 0 and deviation 1 over the tokens of a step, after norm")
    advantage_entropy_weight: key(FiniteNonNegative, "b of weights 1 + b (H / mean H - 1) of advantages by entropy, "
                                  "after norm")
    advantage_clip: key(Positive | None, "largest size of an advantage, after norm; null for none")
    log_ratio_bound: key(Positive | None, "largest size of a log-ratio before it is exponentiated, in nats, as in "
                         "verl; null for none")
    kl_stop: key(Positive | None, "distance from the policy that sampled, in nats a token, beyond which a rollout is "
                 "left; null for none")
    temperature: key(Positive, "of sampling and of every log-probability")
    temperature_final: key(Positive | None, "that of training moves linearly towards this one; null keeps it")
    log_every: key(PositiveInt, "steps between lines of metrics.jsonl")
    checkpoint_every: key(PositiveInt, "steps between checkpoints; Ctrl-C writes one too")
    resume: key(Literal["auto", "failed", "never"], "in a folder that holds runs of this config: skip what is done, go "
                "on with what was interrupted; failed trains failed runs again, never refuses such a folder")
    threads: key(PositiveInt | None, "of the processor; null keeps trying out which number is fastest. They change no "
                 "result")
    device: key(Literal["cpu", "cuda"], "or cuda, the first that CUDA_VISIBLE_DEVICES names")
    matmul_precision: key(Literal["highest", "high", "medium"], "of float32 products, as "
                          "torch.set_float32_matmul_precision: high allows TF32, medium bfloat16, where the processor "
                          "has them; only with highest is a run the same bits alone and in a batch")
    compile: key(bool, "true compiles sampling and the training pass: minutes at the start, faster steps; bits as said "
                 "above")
    eval: key(Evaluation, "on held-out prompts")
    score: key(Score, "the one number of a run, fixed before it starts")
    baseline: key(str | None, "the variant that the others are compared with, as `norm=local`; null for the first")
    until_decided: key(Positive | None, "with -m: seeds are added until each difference to the baseline is shown, or "
                       "shown to be below this margin; the seeds of the sweep are the most")
    until_width: key(Positive | None, "the same until the 95 % interval of each difference reaches no further than "
                     "this to either side")
    until_best: key(Positive | None, "a race: seeds are added, and variants that are shown to be worse than another "
                    "stop, until one is shown to be the best but for this margin")
    # fmt: on


class WrittenModel(StrictModel):
    """A node that is saved as it was written: keys that were left out stay out."""

    @model_validator(mode="before")
    @classmethod
    def known_keys(cls, values: Any) -> Any:
        """Refuse a key that does not exist, with those that do: the node itself has only some of them."""
        unknown = [key for key in values if key not in cls.model_fields] if isinstance(values, Mapping) else []
        if unknown:
            facts = {"key": unknown[0], "value": values[unknown[0]], "valid": list(cls.model_fields)}
            raise PydanticCustomError("no_such_key", "no such key", facts)
        return values

    @model_serializer(mode="wrap")
    def written_keys(self, serialize: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {key: value for key, value in serialize(self).items() if key in self.model_fields_set}


class Expectation(WrittenModel):
    """The variant that an expectation is about, and the part that it has in the study."""

    control: bool | None = None  # whether it claims nothing, and must hold for the claims to be judged
    variant: str


class Pair(WrittenModel):
    """Two variants whose difference is taken from another one."""

    variant: str
    versus: str


class Difference(Expectation):
    """Over the shared seeds, ``variant`` scores higher or lower than ``versus``, or equal to it."""

    versus: str | None = None  # None for the study's baseline
    direction: Literal["higher", "lower", "equal"]
    minimum_effect: FiniteNonNegative | None = None  # None for the study's
    less: Pair | None = None  # an interaction: by how much more variant and versus differ than these two do
    metric: str | None = None  # None for the study's
    at: str | None = None  # None for the study's
    matched: str | None = None  # None for the study's


class Level(Expectation):
    """Every seed of ``variant`` scores above or below ``value``."""

    direction: Literal["above", "below"]
    value: FiniteFloat
    metric: str | None = None  # None for the study's


class Flips(Expectation):
    """With so few of the seeds the two would be in the other order than with all, in at least so many of the cases."""

    versus: str | None = None  # None for the study's baseline
    direction: Literal["flips"]
    seeds: PositiveInt
    value: Share
    metric: str | None = None  # None for the study's


class Identity(Expectation):
    """Every seed of ``variant`` leaves the rows that it leaves with ``versus``, bit by bit but for the clock."""

    versus: str | None = None  # None for the study's baseline
    direction: Literal["identical"]


class Study(WrittenModel):
    """What is asked of a sweep; ``analysis`` has the rules by which each expectation is judged."""

    name: str
    question: str | None = None
    source: str | None = None
    metric: str | None = None  # None for the runs' score
    at: str | None = None  # an equal budget, as rollouts or tokens=5000; None for equal steps
    matched: str | None = None  # where a metric is first so high, as accuracy=0.5; None for the end
    baseline: str | None = None
    minimum_effect: FiniteNonNegative | None = None  # None for 0
    best_of: list[str] | None = None  # axes such as lr, of which each arm gets its best point
    worked: str | None = None  # a document of docs/tour, whose numbers `rlexp worked` prints
    choose_seeds: list[Seed] | None = None  # on which that point is chosen; None for the lower half
    choose_first: bool | None = None  # whether the other seeds train at the chosen points alone
    within: list[str] | None = None  # axes whose values are compared apart; None for the task
    expect: list[Annotated[Difference | Level | Flips | Identity, Field(discriminator="direction")]]

    @model_validator(mode="after")
    def something_to_choose(self) -> Study:
        """Refuse to choose first where nothing is chosen."""
        if self.choose_first and not self.best_of:
            raise PydanticCustomError("nothing_to_choose", "choose_first needs best_of, as best_of: [lr]")
        return self

    @property
    def hash(self) -> str:
        """A name for what was written down: 16 hexadecimal digits that are others if any word of it is another."""
        return sha256(self.model_dump_json().encode()).hexdigest()[:16]

    def choosing(self, seeds: Collection[int]) -> set[int]:
        """Return the seeds of a sweep on which points are chosen; none if there is no grid."""
        if not self.best_of:
            return set()
        named = self.choose_seeds
        return {*sorted(seeds)[: len(seeds) // 2]} if named is None else {*seeds} & {*named}

    def variant_names(self) -> Iterator[tuple[str, str | None]]:
        """Yield every key of a claim that names a variant, and the name; None for a comparison with no variant."""
        for place, expectation in enumerate(self.expect):
            yield f"study.expect[{place}].variant", expectation.variant
            if not isinstance(expectation, Level):
                yield f"study.expect[{place}].versus", expectation.versus or self.baseline
            if isinstance(expectation, Difference) and expectation.less:
                yield f"study.expect[{place}].less.variant", expectation.less.variant
                yield f"study.expect[{place}].less.versus", expectation.less.versus
