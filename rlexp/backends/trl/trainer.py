"""D"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import split_tensor_dict

from rlexp.backends.trl.objective import ON_ROWS, Objective, Scored, grouped
from rlexp.config.schema import Config
from rlexp.core.exits import RunFailed
from rlexp.core.registry import call_with, required_inputs
from rlexp.core.streams import Purpose
from rlexp.language.backend import OPTIMIZERS
from rlexp.language.generation import stream_seed
from rlexp.language.text_task import Example, TextTask
from rlexp.loop.metrics import Row
from rlexp.loop.rewards import Rewards
from rlexp.loop.rollout import Rollout
from rlexp.tasks import total_reward

PER_TOKEN = ("completion_ids", "completion_mask", "old_per_token_logps", "sampling_per_token_logps")
PER_TOKEN += ("ref_per_token_logps", "entropies")
PRECISIONS = {"float32": {"bf16": False}, "bf16": {"bf16": True}, "fp16": {"fp16": True}}


def world_size() -> int:
    """Return how many processes train this run together, as ``accelerate launch`` says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def micro_batches(config: Config, processes: int) -> tuple[int, int]:
    """Return the groups in a micro-batch and how many of these make an update, on each of so many processes.

    RunFailed where whole groups do not fit.
    """
    prompts, minibatches = config.group_size.prompts, config.minibatches
    each, rest = divmod(prompts, minibatches * processes)
    asked = f"group_size.prompts={prompts} minibatches={minibatches}"
    if rest or not each:
        raise RunFailed(f"{asked}: cannot be shared by {processes} processes, groups are never split")
    groups = config.backend.micro_batch or each
    if each % groups:
        raise RunFailed(f"backend.micro_batch={groups}: must divide the {each} groups of a minibatch on a process")
    return groups, each // groups


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
            top_p=config.sampler.top_p or 1.0,
            top_k=config.sampler.top_k or 0,
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
    hyperparameters = {"lr": config.lr}
    hyperparameters |= config.optimizer.model_dump(exclude={"name", "beta1", "beta2", "weight_decay"})
    made = getattr(torch.optim, OPTIMIZERS[config.optimizer.name])
    if made is torch.optim.AdamW:
        hyperparameters["betas"] = config.optimizer.beta1, config.optimizer.beta2
    return made, hyperparameters


class AxesTrainer(GRPOTrainer):
    """A GRPOTrainer whose objective is a variant's.

    ``examples`` are the prompts of all steps, which the column ``number`` of the data set counts; ``schedule`` says
    for a number of updates which share of the learning rate the next one has; ``measures`` says for a step whether its
    metrics are wanted. After the last update of a step ``on_step(step, scored, experience, rows)`` is called, in every
    process alike.
    """

    def __init__(
        self,
        *,
        objective: Objective,
        task: TextTask,
        examples: Sequence[Example],
        schedule: Callable[[int], float],
        measures: Callable[[int], bool],
        on_step: Callable[..., None],
        optimizer: tuple[type, dict[str, Any]],
        **settings: Any,
    ):
        self.objective, self.task, self.examples = objective, task, examples
        self.schedule, self.measures, self.on_step = schedule, measures, on_step
        super().__init__(reward_funcs=[reward_component(name) for name in task.weights], **settings)
        self.optimizer_cls_and_kwargs = optimizer
        self.updates = self.num_iterations * self.objective.minibatches
        self.rows: list[Row] = []
        self.logged: list[dict[str, float]] = []

    @property
    def rollout_step(self) -> int:
        """Number of the step, from 1, whose updates are being made."""
        return self.state.global_step // self.updates + 1

    @property
    def ends(self) -> list[int]:
        """Tokens of which a completion that was not cut off has one at its end, as TRL sees it."""
        return [*self.eos_token_ids, self._tokenizer.pad_token_id]

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LambdaLR:
        if self.lr_scheduler is None:
            self.lr_scheduler = LambdaLR(optimizer or self.optimizer, self.schedule)
        return self.lr_scheduler

    def _prepare_inputs(self, generation_batch: Any) -> Mapping[str, Any]:
        """Sample when the updates of a step are done, then hand out its micro-batches in turn, groups kept whole."""
        pieces = self.args.steps_per_generation
        if self._step % (pieces * self.num_iterations) == 0 or self._buffered_inputs is None:
            self._buffered_inputs = split_tensor_dict(self._generate_and_score_completions(generation_batch), pieces)
        return self._buffered_inputs[self._step % pieces]

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Sample from the stream of the run's seed and the step; give the completions the advantages of the axes."""
        step, rank = self.rollout_step, self.accelerator.process_index
        torch.manual_seed(stream_seed(self.objective.seed, Purpose.SAMPLING, step, rank))
        batch = super()._generate_and_score_completions(inputs)
        entropies = self.objective.requires("entropies")
        if entropies or ("old_per_token_logps" not in batch and self.objective.requires_old_log_probs):
            with torch.no_grad():  # of the policy that sampled
                size = self.args.per_device_train_batch_size
                log_probs, found = self.log_probs_of(self.model, batch, entropies, batch_size=size)
            batch |= {"old_per_token_logps": log_probs} | ({"entropies": found} if entropies else {})
        self.scored = self.gather_completions(batch)
        self.experience = self.objective.compute_advantages(self.scored, step)
        self.mean_tokens = self.objective.mean_tokens(self.experience)
        self.rows = []
        mine = slice(rank * len(inputs), (rank + 1) * len(inputs))
        rows = {name: getattr(self.experience, name).squeeze(0).flatten(0, 1) for name in ON_ROWS}
        return batch | {f"axes/{name}": values[mine] for name, values in rows.items()}

    def log_probs_of(self, model: Any, batch: Mapping[str, Any], entropies: bool, **options: Any) -> tuple[Tensor, Any]:
        """Return the log-probabilities of the completions' tokens, and their entropies if asked for, ``[B, T]``."""
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        present = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
        width = batch["completion_ids"].shape[1]
        options |= {"compute_entropy": entropies}
        return self._get_per_token_logps_and_entropies(model, ids, present, width, **options)[:2]

    def gather_completions(self, batch: Mapping[str, Any]) -> Scored:
        """Return the completions of all processes, ``[1 P G ...]``."""
        tokens = {name: self.gather_rows(batch[name]) for name in PER_TOKEN if name in batch}
        shaped = {name: grouped(rows, self.num_generations) for name, rows in tokens.items()}
        mask, completions = shaped["completion_mask"].bool(), shaped["completion_ids"]
        nothing = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
        read = {name: shaped[name].where(mask, 0.0) for name in PER_TOKEN[2:] if name in shaped}
        old = read.get("old_per_token_logps", nothing)
        last = (mask.sum(-1, keepdim=True) - 1).clamp(min=0)
        ends = torch.isin(completions.gather(-1, last), torch.tensor(self.ends, device=mask.device))
        rollout = Rollout(
            prompts=grouped(self.gather_rows(batch["prompt_ids"], left=True), self.num_generations)[:, :, 0],
            completions=completions,
            old_log_probs=old,
            mask=mask,
            finished=ends.squeeze(-1),
            sampler_log_probs=read.get("sampling_per_token_logps", old),
        )
        earned = grouped(self.earned, self.num_generations)
        components = {name: earned[..., place] for place, name in enumerate(self.task.weights)}
        total = total_reward(components, self.task.weights)  # NaN where no component applies
        rewards = Rewards(total, components, earned[..., -1] > 0, None, total)
        return Scored(rollout, rewards, read.get("ref_per_token_logps", nothing), read.get("entropies", nothing))

    def gather_rows(self, rows: Tensor, left: bool = False) -> Tensor:
        """Return the rows ``[B, T]`` of all processes, padded to the longest."""
        padded = self.accelerator.pad_across_processes(rows, dim=1, pad_first=left)
        return self.accelerator.gather(padded)

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: list, completions: list, completion_ids_list: list[list[int]]
    ) -> Tensor:
        """Judge the completions of this process by the task; return the components of all processes, ``[B, K]``."""
        examples = [self.examples[row["number"]] for row in inputs]
        texts = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
        finished = [ids[-1] in self.ends for ids in completion_ids_list]
        scores = self.task.score(examples, texts, finished)
        rows = [[*(score.components[name] for name in self.task.weights), score.correct] for score in scores]
        earned = torch.tensor(rows, dtype=torch.float32, device=self.accelerator.device)
        self.earned = self.accelerator.gather(earned)
        return self.earned[:, :-1]

    def _compute_loss(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        """Return the loss of a micro-batch, over the number of those that are accumulated."""
        measuring = self.measures(self.rollout_step)
        entropies = measuring or self.objective.variant.has_bonus
        log_probs, found = self.log_probs_of(model, inputs, entropies)
        part = self.objective.part(inputs, log_probs)
        progress = torch.full_like(self.mean_tokens, self.state.global_step / self.state.max_steps)
        tensors = {"mean_tokens": self.mean_tokens, "progress": progress}
        loss, row = self.objective.loss(log_probs, found, part, tensors, measuring)
        if measuring:  # sums over tokens of what metrics average: entropy, log-ratio to the reference
            mask = inputs["completion_mask"].bool()
            sums = {"entropy": found.detach(), "tokens": torch.ones_like(log_probs)}
            if "ref_per_token_logps" in inputs:
                difference = log_probs.detach() - inputs["ref_per_token_logps"]
                sums |= {"k1": difference, "k3": (-difference).exp() - 1 + difference}
            row |= {f"sum/{name}": values.where(mask, 0.0).sum().view(1) for name, values in sums.items()}
            self.rows.append(row)
        return loss / self.current_gradient_accumulation_steps

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Take what Transformers says after every update; after the last one of a step, hand on the step."""
        self._metrics["train"].clear()
        if "learning_rate" not in logs:
            return
        done, left = divmod(self.state.global_step, self.updates)
        self.logged.append(logs)
        if left == 0:
            self.objective.remember(self.experience)
            if self.reference_moves:
                self.move_reference(done)
            logged, self.logged = self.logged, []
            self.on_step(done, self.scored, self.experience, self.rows, logged)

    @property
    def reference_moves(self) -> bool:
        return self.ref_model is not None and "policy" in required_inputs(self.objective.variant.reference)

    @torch.no_grad()
    def move_reference(self, step: int) -> None:
        """Let the reference follow the policy, as ``loop.reference.update_reference`` does."""
        policy, reference = map(self.accelerator.unwrap_model, (self.model, self.ref_model))
        for theirs, ours in zip(reference.parameters(), policy.parameters(), strict=True):
            tensors = {"reference": theirs, "policy": ours.detach(), "step": step}
            theirs.copy_(call_with(self.objective.variant.reference, tensors))

    def create_model_card(self, *names: Any, **options: Any) -> None:
        """The run's folder says what the run is."""


def reward_component(name: str) -> Callable[..., list[float]]:
    """Return a function by which TRL names a component of the reward; ``_calculate_rewards`` judges all at once."""

    def component(**columns: Any) -> list[float]:
        raise RuntimeError(f"{name}: completions are judged by the task, not one component after another")

    component.__name__ = name
    return component
