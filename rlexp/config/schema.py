"""The schema of a run's config, built from the signatures of the axis functions, and the checks between its keys."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import yaml
from annotated_types import Ge, Gt, Le
from pydantic import FiniteFloat, ValidationError

from rlexp.axes import (
    agg,
    clip,
    entropy_control,
    filter,
    kl,
    kl_control,
    mismatch,
    norm,
    optimizer,
    reference,
    reward,
    sampler,
    shaping,
    teacher,
)
from rlexp.axes.offered import REMEMBERED
from rlexp.config.checks import contradictions
from rlexp.config.nodes import chosen_facts
from rlexp.config.study import Study
from rlexp.config.trust import check_config
from rlexp.core import memory
from rlexp.core.errors import ConfigError, problem_lines
from rlexp.core.registry import StrictModel, bind_choice, schema
from rlexp.core.types import FiniteNonNegative, NonNegativeInt, PositiveInt, Seed, Size
from rlexp.language import BACKENDS, LANGUAGE_MODELS, TEXT_TASKS
from rlexp.loop.critic import CRITICS
from rlexp.loop.data import DATA
from rlexp.loop.judged.bradley_terry import TRAININGS
from rlexp.loop.start import STARTS
from rlexp.models import MODELS
from rlexp.record.files import saved_config
from rlexp.record.loggers import LOGGERS
from rlexp.tasks import TASKS

Share = Annotated[float, Gt(0), Le(1)]
FinitePositive = Annotated[FiniteFloat, Gt(0)]


class GroupSize(StrictModel):
    """Completions a prompt, and prompts a step."""

    completions: Size
    prompts: Size


def axis_schema(axis: ModuleType, **extra: object) -> object:
    """Return the type of an axis; TypeError if one of its functions asks for what it is not offered."""
    name = axis.__name__.rpartition(".")[2]
    memories = memory.offers(name, getattr(axis, "MEMORIES", {}), REMEMBERED)
    return schema(axis.FUNCTIONS, axis.OFFERED, name, memories, **extra)


class Filter(StrictModel):
    """Which groups are replaced by others in up to so many rounds, what enters the loss, and what the statistics."""

    refill: schema(filter.GROUPS, filter.OFFERED_TO_REFILL, "filter.refill", rounds=PositiveInt)
    loss: axis_schema(filter)
    statistics: schema(filter.COMPLETIONS, filter.OFFERED, "filter.statistics")


class Evaluation(StrictModel):
    """Held-out evaluation: how often, on how many prompts, with how many samples a prompt, and which pass@k."""

    every: PositiveInt
    prompts: Size
    samples: Size
    ks: list[PositiveInt]


class Score(StrictModel):
    """The one number of a run: mean of ``metric`` over the last ``share`` of its evaluations."""

    metric: str
    floor: FiniteFloat
    share: Share


class Config(StrictModel):
    """Everything that a run's results depend on."""

    task: schema(TASKS | TEXT_TASKS)
    model: schema(MODELS | LANGUAGE_MODELS)
    backend: schema(BACKENDS)
    group_size: GroupSize
    start: schema(STARTS)
    data: schema(DATA)
    reward: axis_schema(reward, model=schema(TRAININGS) | None)
    shaping: axis_schema(shaping)
    filter: Filter
    norm: axis_schema(norm)
    teacher: axis_schema(teacher, run=str | None)
    critic: schema(CRITICS)
    clip: axis_schema(clip)
    agg: axis_schema(agg)
    kl: axis_schema(kl, coef=FiniteNonNegative, place=Literal["loss", "reward"])
    kl_control: axis_schema(kl_control)
    reference: axis_schema(reference, begin=Literal["start", "random", "halfway", "run"], run=str | None)
    entropy_control: axis_schema(entropy_control)
    sampler: axis_schema(sampler)
    mismatch: axis_schema(mismatch)
    optimizer: axis_schema(optimizer)
    logger: schema(LOGGERS)
    seed: Seed
    steps: PositiveInt
    inner_steps: PositiveInt
    minibatches: PositiveInt
    lr: FinitePositive
    lr_final: Annotated[float, Ge(0), Le(1)]
    warmup_steps: NonNegativeInt
    grad_clip: FinitePositive | None
    entropy_coef: FiniteNonNegative
    advantage_clip: FinitePositive | None
    log_ratio_bound: FinitePositive | None
    kl_stop: FinitePositive | None
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
    until_decided: FinitePositive | None
    study: Study | None

    @property
    def reward_range(self) -> tuple[float, float]:
        """The smallest and the largest reward of the task, or of who judges in its place."""
        return chosen_facts(self, "reward").bounds or bind_choice(TASKS | TEXT_TASKS, self.task)().reward_range


def read(values: Mapping[str, Any]) -> Config:
    """Check plain values and return them as a Config; ConfigError with a line for each problem."""
    try:
        config = Config.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(problem_lines(error, values)) from None
    if problems := list(contradictions(config)):
        raise ConfigError(problems)
    return config


def load(path: str | Path, trust: bool = False) -> Config:
    """Read the config.yaml that a run left behind; code that it names only with ``trust``, else ConfigError."""
    values = saved_config(Path(path))
    if not trust:
        check_config(values, Path(path))
    return read(values)


def to_yaml(config: Config) -> str:
    """Return the complete config as YAML that ``load`` reads back."""
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)
