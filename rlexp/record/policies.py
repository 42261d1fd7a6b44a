"""The policy that a run has trained, out of its folder: to sample from, or to take apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ValidationError, create_model
from torch import Tensor

from rlexp.core.errors import ConfigError, problem_lines
from rlexp.core.exits import RunFailed
from rlexp.core.registry import bind_choice, schema
from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rewards import score_with
from rlexp.loop.rollout import Rollout, inverse_cdf, most_likely, sample
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.models.policy import Policy
from rlexp.record import checkpoint
from rlexp.record.disk.identity import foreign
from rlexp.record.files import saved_config
from rlexp.runfolder.files import CONFIG_FILE
from rlexp.tasks import TASKS, Task


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
        numbers = uniforms([self._seed(seed)], Purpose.EVALUATION_PROMPTS, 0, (number, self.task.draws))
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
        noise = uniforms([self._seed(seed)], Purpose.EVALUATION_SAMPLING, self.step, shape)
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

    def _seed(self, seed: int | None) -> int:
        return self.seed if seed is None else seed


def load_policy(folder: str | Path) -> TrainedPolicy:
    """Load the last policy of the run in a folder; ConfigError, one line, if it holds none."""
    folder = Path(folder)
    values = saved_config(folder / CONFIG_FILE)
    settings = checked(values, folder)
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


def checked(values: Mapping[str, Any], folder: Path) -> BaseModel:
    """Return what a policy depends on, of a run's whole config; ConfigError if it is one of another version."""
    kinds = {"task": schema(TASKS), "model": schema(MODELS), "seed": int, "temperature": float}
    settings = create_model("PolicySettings", **{key: (kind, ...) for key, kind in kinds.items()})
    try:
        return settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError([f"{folder / CONFIG_FILE}: {line}" for line in problem_lines(error, values)]) from None
