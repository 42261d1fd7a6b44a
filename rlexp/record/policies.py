"""The policy that a run has trained, out of its folder: to sample from, or as a teacher or reference of other runs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError, create_model
from torch import Tensor, nn

from rlexp.axes import distillation, teacher
from rlexp.core.errors import ConfigError, format_value, problem_lines
from rlexp.core.exits import RunFailed
from rlexp.core.registry import bind_choice, required_inputs, schema
from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rewards import score_with
from rlexp.loop.rollout import Rollout, inverse_cdf, most_likely, sample
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.models.policy import Policy
from rlexp.record import checkpoint
from rlexp.record.disk import read_state, saved_config
from rlexp.record.provenance import foreign
from rlexp.runfolder.files import CONFIG_FILE, read_yaml
from rlexp.tasks import TASKS, Task

REWARDED = {"weights", "metric", "floor", "seed"}  # what task and model of a teacher can have had otherwise


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy after ``step`` steps; ``network`` is a stack of one (its parameters are ``[1, ...]``)."""

    network: Policy
    task: Task
    step: int
    seed: int
    temperature: float

    def held_out_prompts(self, number: int = 4, seed: int | None = None) -> Tensor:
        """Return token ids ``[P, L]``: the first prompts of the run's own evaluations, or of another seed's."""
        seed = self.seed if seed is None else seed
        numbers = uniforms([seed], Purpose.EVALUATION_PROMPTS, 0, (number, self.task.draws))
        return self.task.prompts(numbers, held_out=True)[0]

    def rollout(
        self,
        prompts: int | Tensor = 4,
        completions: int = 4,
        *,
        greedy: bool = False,
        temperature: float | None = None,
        seed: int | None = None,
    ) -> Rollout:
        """Complete held-out prompts (so many) or these (token ids ``[P, L]``); the same seed gives the same again."""
        prompts = self.held_out_prompts(prompts, seed) if isinstance(prompts, int) else prompts
        shape = (len(prompts), completions, self.task.cap)
        noise = uniforms([self.seed if seed is None else seed], Purpose.EVALUATION_SAMPLING, self.step, shape)
        scale = torch.tensor([self.temperature if temperature is None else temperature])
        pick = most_likely if greedy else inverse_cdf
        return sample(self.network, self.task, prompts.unsqueeze(0), noise, scale, pick)

    def sample(self, prompts: int | Tensor = 4, completions: int = 4, **options: Any) -> list[dict[str, Any]]:
        """Return one row a completion: both texts, whether it is correct, its reward, its log-probability.

        The options are those of ``rollout``.
        """
        rollout = self.rollout(prompts, completions, **options)
        rewards, render = score_with(self.task, rollout), self.task.render
        return [
            {
                "prompt": render(rollout.prompts[0, p].tolist()),
                "completion": render(rollout.completions[0, p, g][rollout.mask[0, p, g]].tolist()),
                "correct": bool(rewards.correct[0, p, g]),
                "reward": rewards.total[0, p, g].item(),
                "log_prob": rollout.old_log_probs[0, p, g].sum().item(),
            }
            for p in range(rollout.mask.shape[1])
            for g in range(rollout.mask.shape[2])
        ]


def load_policy(folder: str | Path) -> TrainedPolicy:
    """Load the last policy of the run in a folder; ConfigError, one line, if it holds none."""
    folder = Path(folder)
    values = saved_config(folder / CONFIG_FILE)
    kinds = {"task": schema(TASKS), "model": schema(MODELS), "seed": int, "temperature": float}
    kind = create_model("PolicySettings", **{key: (kind, ...) for key, kind in kinds.items()})
    try:
        settings = kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError([f"{folder / CONFIG_FILE}: {line}" for line in problem_lines(error, values)]) from None
    try:
        saved = checkpoint.load(folder)
    except RunFailed as error:
        raise ConfigError([str(error)]) from None
    if saved is None:
        raise ConfigError([f"{folder}: has no {checkpoint.LATEST} that can be read"])
    if other := foreign(saved.get("identity"), values):
        raise ConfigError([f"{folder}: {checkpoint.LATEST} {other}"])
    task = bind_choice(TASKS, settings.task)()
    network = bind_choice(MODELS, settings.model)(Init([settings.seed]), task).requires_grad_(False)
    checkpoint.load_parameters(network, 0, saved["networks"]["policy"]["parameters"], str(folder))
    return TrainedPolicy(network, task, saved["step"], settings.seed, settings.temperature)


def is_taught(config: Any) -> bool:
    """Whether anything of a run asks a teacher."""
    chosen = teacher.FUNCTIONS[config.teacher.name], distillation.FUNCTIONS[config.distillation.name]
    return any({"teacher_log_probs", "teacher_distributions"} & {*required_inputs(each)} for each in chosen)


def has_teacher(config: Any) -> bool:
    """Whether the last policy of another run teaches."""
    return is_taught(config) and config.teacher.network is None


def problems(config: Any) -> Iterator[str]:
    """Say what is wrong with the runs whose last policies a config wants as its teacher and as its reference."""
    wanted = {"teacher.run": config.teacher.run} if has_teacher(config) else {}
    wanted |= {"reference.run": config.reference.run} if config.reference.begin == "run" else {}
    for key, run in wanted.items():
        folder = Path(run or "")
        if not run or not (folder / CONFIG_FILE).is_file() or not (folder / checkpoint.LATEST).is_file():
            there = f"{CONFIG_FILE} and {checkpoint.LATEST}"
            yield f"{key}={format_value(run)}: must be the folder of a run, with its {there}"
            continue
        try:
            theirs = read_yaml(folder / CONFIG_FILE) or {}
            wrong = difference(config, theirs)
            if not wrong and (other := foreign((read_state(folder / checkpoint.LATEST) or {}).get("identity"), theirs)):
                wrong = f"{checkpoint.LATEST} {other}"
        except RunFailed as error:
            wrong = str(error)
        if wrong:
            yield f"{key}={run}: {wrong}"


def difference(config: Any, theirs: Mapping[str, Any]) -> str | None:
    """Name the first hyperparameter of task and model in which a run differs from one that takes its policy."""
    for part in ("task", "model"):
        ours = config.model_dump(mode="json", include={part})[part]
        there_of = theirs.get(part) if isinstance(theirs.get(part), Mapping) else {}
        for key in sorted(ours.keys() - REWARDED, key=lambda key: (key != "name", key)):
            there, here = format_value(there_of.get(key)), format_value(ours[key])
            if there != here:
                return f"{part}.{key} is {there} there and {here} here; must be the same"
    return None


@torch.no_grad()
def load_teachers(policy: nn.Module, configs: Sequence[Any]) -> nn.Module:
    """Return a stack of the runs' teachers; the rows of runs without one hold anything."""
    stack = copy.deepcopy(policy).requires_grad_(False)
    for replica, config in enumerate(configs):
        if has_teacher(config):
            copy_policy(stack, replica, "teacher.run", config.teacher.run)
    return stack


def copy_policy(stack: nn.Module, replica: int, key: str, run: str) -> None:
    """Copy the last policy of the run in a folder, which a key of the config names, into a row of the stack."""
    folder = Path(run)
    saved, theirs = read_state(folder / checkpoint.LATEST), read_yaml(folder / CONFIG_FILE)  # no earlier policy instead
    if saved is None:
        raise RunFailed(f"{key}={run}: has no {checkpoint.LATEST}")
    if other := foreign(saved.get("identity"), theirs or {}):
        raise RunFailed(f"{key}={run}: {checkpoint.LATEST} {other}")
    checkpoint.load_parameters(stack, replica, saved["networks"]["policy"]["parameters"], f"{key}={run}")
