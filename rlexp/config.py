"""The schema of a run's config, built from the signatures of the axis functions, and the checks between its keys."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from annotated_types import Ge, Gt, Le
from pydantic import FiniteFloat, ValidationError

from rlexp import agg, clip, filter, kl, kl_control, mismatch, norm, reference, sampler, shaping, teacher, teachers
from rlexp.choose import Closed, choose, schema
from rlexp.errors import ConfigError, lines, shown
from rlexp.loggers import LOGGERS
from rlexp.models import MODELS
from rlexp.start import STARTS
from rlexp.tasks import TASKS
from rlexp.types import FiniteNonNegative, NonNegativeInt, PositiveInt

Share = Annotated[float, Gt(0), Le(1)]
FinitePositive = Annotated[FiniteFloat, Gt(0)]


EVALUATED = ("eval/greedy_accuracy", "eval/sampled_accuracy", "eval/reward", "eval/length")


class GroupSize(Closed):
    """Completions a prompt, and prompts a step."""

    completions: PositiveInt
    prompts: PositiveInt


class Filter(Closed):
    """Which groups are replaced by others in up to so many rounds, what enters the loss, and what the statistics."""

    refill: schema(filter.GROUPS, rounds=PositiveInt)
    loss: schema(filter.FUNCTIONS)
    statistics: schema(filter.COMPLETIONS)


class Evaluation(Closed):
    """Held-out evaluation: how often, on how many prompts, with how many samples a prompt, and which pass@k."""

    every: PositiveInt
    prompts: PositiveInt
    samples: PositiveInt
    ks: list[PositiveInt]


class Score(Closed):
    """The one number of a run: mean of ``metric`` over the last ``share`` of its evaluations."""

    metric: str
    floor: FiniteFloat
    share: Share


class Config(Closed):
    """Everything that a run's results depend on."""

    task: schema(TASKS)
    model: schema(MODELS)
    group_size: GroupSize
    start: schema(STARTS)
    shaping: schema(shaping.FUNCTIONS)
    filter: Filter
    norm: schema(norm.FUNCTIONS)
    teacher: schema(teacher.FUNCTIONS, run=str | None)
    clip: schema(clip.FUNCTIONS)
    agg: schema(agg.FUNCTIONS)
    kl: schema(kl.FUNCTIONS, coef=FiniteNonNegative, place=Literal["loss", "reward"])
    kl_control: schema(kl_control.FUNCTIONS)
    reference: schema(reference.FUNCTIONS)
    sampler: schema(sampler.FUNCTIONS)
    mismatch: schema(mismatch.FUNCTIONS)
    logger: schema(LOGGERS)
    seed: NonNegativeInt
    steps: PositiveInt
    inner_steps: PositiveInt
    minibatches: PositiveInt
    lr: FinitePositive
    lr_final: Annotated[float, Ge(0), Le(1)]
    warmup_steps: NonNegativeInt
    grad_clip: FinitePositive | None
    entropy_coef: FiniteNonNegative
    temperature: FinitePositive
    log_every: PositiveInt
    checkpoint_every: PositiveInt
    resume: Literal["auto", "failed", "never"]
    threads: PositiveInt | None
    device: Literal["cpu", "cuda"]
    matmul_precision: Literal["highest", "high", "medium"]
    compile: bool
    eval: Evaluation
    score: Score
    baseline: str | None
    study: dict[str, Any] | None


def read(values: Mapping[str, Any]) -> Config:
    """Check plain values and return them as a Config; ConfigError with a line for each problem."""
    try:
        config = Config.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(lines(error, values)) from None
    if problems := list(contradictions(config)):
        raise ConfigError(problems)
    return config


def load(path: str | Path) -> Config:
    """Read the config.yaml that a run left behind."""
    return read(yaml.safe_load(Path(path).read_text(encoding="utf-8")))


def to_yaml(config: Config) -> str:
    """Return the complete config as YAML that ``load`` reads back."""
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)


def contradictions(config: Config) -> Iterator[str]:
    """Say what is wrong between keys that are each right by themselves."""
    yield from task_problems(config)
    yield from group_problems(config)
    yield from evaluation_problems(config)
    yield from axis_problems(config)
    yield from bound_problems(config)
    yield from start_problems(config)
    yield from teachers.problems(config)


def task_problems(config: Config) -> Iterator[str]:
    """Let the task itself say whether its knobs fit together."""
    try:
        choose(TASKS, config.task)()
    except ValueError as error:
        first_word = re.match(r"\w*", str(error))[0]
        yield f"task.{error}" if first_word in type(config.task).model_fields else f"task={config.task.name}: {error}"


def group_problems(config: Config) -> Iterator[str]:
    """Whether groups and minibatches give ``norm`` something to compare."""
    completions, prompts = config.group_size.completions, config.group_size.prompts
    if prompts % config.minibatches:
        yield (
            f"minibatches={config.minibatches}: must divide the prompts of a step (group_size.prompts={prompts}), "
            "groups are never split"
        )
    alone = dict.fromkeys(norm.WITHIN_GROUP, completions) | dict.fromkeys(norm.WITHIN_BATCH, completions * prompts)
    if alone.get(config.norm.name) == 1:
        yield (
            f"norm={config.norm.name}: compares a completion with others, but group_size.completions={completions} "
            f"group_size.prompts={prompts} leave it none, so every advantage would be 0; "
            "take more completions or norm=none"
        )


def evaluation_problems(config: Config) -> Iterator[str]:
    """Whether pass@k has enough samples, and whether what is the score is evaluated at all."""
    measured = [*EVALUATED, *(f"eval/pass@{k}" for k in config.eval.ks)]
    if config.score.metric not in measured:
        yield f"score.metric={config.score.metric}: is not evaluated; there are {', '.join(measured)}"
    largest = max(config.eval.ks, default=0)
    if largest > config.eval.samples:
        samples = config.eval.samples
        yield f"eval.ks={shown(config.eval.ks)}: pass@{largest} needs as many samples, and eval.samples={samples}"


def axis_problems(config: Config) -> Iterator[str]:
    """Knobs that contradict the choice they belong to or would do nothing."""
    if config.kl.name == "none" and config.kl.coef > 0:
        yield f"kl.coef={shown(config.kl.coef)}: kl=none has no penalty to weigh; choose kl=k1, k2, k3, ..."
    if config.kl_control.name != "fixed" and config.kl.coef == 0:
        yield f"kl_control={config.kl_control.name}: kl.coef=0 stays 0; choose a kl with a coefficient to begin with"
    yield from disordered("shaping", config.shaping, "cache", "cap")
    filters = {f"filter.{place}": getattr(config.filter, place) for place in Filter.model_fields}
    for place, node in {"shaping": config.shaping, **filters}.items():
        yield from disordered(place, node, "low", "high")
    refill = config.filter.refill
    if (refill.name == "none") != (refill.rounds == 1):
        needed = "is of 1 round" if refill.name == "none" else "needs at least 2"
        yield f"filter.refill.rounds={refill.rounds}: filter.refill.name={refill.name} {needed}"
    if config.norm.name == "pass_at_k" and config.norm.k > config.group_size.completions:
        yield f"norm.k={config.norm.k}: must be at most group_size.completions={config.group_size.completions}"
    if config.model.name == "transformer" and config.model.width % config.model.heads:
        yield f"model.heads={config.model.heads}: must divide model.width={config.model.width}"


def bound_problems(config: Config) -> Iterator[str]:
    """Pairs of bounds that leave nothing between them."""
    yield from disordered("clip", config.clip, "lower", "upper")
    yield from disordered("clip", config.clip, "lb", "ub")
    yield from disordered("mismatch", config.mismatch, "low", "high")
    if config.clip.name == "two_sided" and config.clip.delta < 1 + config.clip.high:
        yield f"clip.delta={shown(config.clip.delta)}: must be at least 1 + clip.high, which it would cut off"


def disordered(place: str, node: Closed, smaller: str, larger: str) -> Iterator[str]:
    """Whether a node has these two knobs in the wrong order."""
    first, second = (getattr(node, knob, None) for knob in (smaller, larger))
    if first is not None and second is not None and first > second:
        yield f"{place}.{smaller}={shown(first)}: must be at most {place}.{larger}={shown(second)}"


def start_problems(config: Config) -> Iterator[str]:
    """Whether the start that is wanted can exist."""
    start, task = config.start, config.task.name
    if start.name != "random" and not hasattr(TASKS[task], "oracle"):
        yield f"start={start.name}: task={task} has no right answers to learn from; take start=random"
    if start.name == "scaled" and not list(task_problems(config)):
        guess = math.log(choose(TASKS, config.task)().vocabulary)
        if start.entropy >= guess:
            yield f"start.entropy={shown(start.entropy)}: must be below that of a guess, {guess:.3f} nats a token"
