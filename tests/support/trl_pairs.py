"""A tiny Llama trained twice from the same weights, prompts and noise: by TRL's own trainer, and by ours."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from small_runs import compose
from torch.optim.lr_scheduler import LambdaLR
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.trainer_callback import PrinterCallback
from trl import GRPOTrainer
from trl.trainer import grpo_trainer

from rlexp.backends.trl import trainer as settings
from rlexp.backends.trl.objective import Objective
from rlexp.backends.trl.trainer import AxesTrainer
from rlexp.core.streams import Purpose
from rlexp.language.generation import stream_seed
from rlexp.language.models import Llama
from rlexp.language.text_task import Example, Score
from rlexp.sweep.build import variant

SHUFFLE = grpo_trainer.shuffle_sequence_dict  # before it is replaced
COMMON = ["backend=trl", "model=llama", "group_size.completions=4", "group_size.prompts=4", "steps=10"]
COMMON += ["backend.max_completion_length=8", "entropy_coef=0.0", "minibatches=1"]
EXAMPLES = [Example(f"{i % 10}{(3 * i) % 7}{'+' * (i % 3)}=", None) for i in range(400)]


def reward_of(text: str) -> float:
    """A reward that few completions share: odd digits and signs."""
    return sum(character in "13579" for character in text) / max(len(text), 1) + 0.1 * text.count("+")


class Odd:
    """A task of text whose only component is ``reward_of``."""

    weights, reward_range, metric, floor, characters = {"odd": 1.0}, (0.0, 2.0), "eval/reward", 0.0, "0123456789+="

    def examples(self, seed, purpose, step, count, held_out):
        return EXAMPLES[step * count : (step + 1) * count]

    def solution(self, example):
        return "1+"

    def wrong_solution(self, example):
        return "0"

    def score(self, examples, texts, finished):
        return [Score({"odd": reward_of(text)}, reward_of(text) > 0.5) for text in texts]


class Own(GRPOTrainer):
    """TRL's trainer as it is, but for its noise and schedule, which are ours, and its order: groups stay together."""

    def _generate_and_score_completions(self, inputs):
        step = self.state.global_step // self.updates + 1
        torch.manual_seed(stream_seed(self.run_seed, Purpose.SAMPLING, step, self.accelerator.process_index))
        return super()._generate_and_score_completions(inputs)

    def create_scheduler(self, num_training_steps, optimizer=None):
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, self.schedule)
        return self.lr_scheduler


@functools.cache
def model_folder() -> str:
    """The folder of the tiny Llama."""
    folder = os.environ.get("TRL_PAIRS_MODEL") or tempfile.mkdtemp(prefix="tiny-llama-")
    if not Path(folder, "config.json").exists():
        model, tokenizer = Llama(layers=2, width=32, heads=2, seed=0).build(Odd.characters, 0)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def trainer(
    overrides: list[str], own: dict | None = None, on_step=lambda *step: None, dtype=torch.float32, shuffled=False
):
    """TRL's trainer with arguments of its own, or ours without any; TRL's completions ``shuffled`` if asked for."""
    config = compose(*COMMON, *overrides)
    processes = settings.world_size()
    parts = settings.micro_batches(config, processes)[1] * processes
    group = config.group_size.completions
    objective = Objective(variant(config), Odd.weights, config.seed, group, config.minibatches, parts)
    out = Path(tempfile.mkdtemp())
    arguments = settings.grpo_config(config, out, processes, [1.0], objective.requires("ref_log_probs"))
    tokenizer = AutoTokenizer.from_pretrained(model_folder(), padding_side="left")
    shared = {
        "model": AutoModelForCausalLM.from_pretrained(model_folder(), dtype=dtype),
        "processing_class": tokenizer,
        "train_dataset": Dataset.from_list([{"prompt": e.prompt, "number": i} for i, e in enumerate(EXAMPLES)]),
        "args": arguments,
    }
    schedule, optimizer = settings.schedule(config), settings.optimizer(config)
    if own is None:
        made = AxesTrainer(
            objective=objective, task=Odd(), examples=EXAMPLES, schedule=schedule, measures=lambda step: True,
            on_step=on_step, optimizer=optimizer, **shared,
        )  # fmt: skip
    else:
        for name, value in own.items():
            setattr(arguments, name, value)
        grpo_trainer.shuffle_sequence_dict = SHUFFLE if shuffled else lambda batch: batch
        made = Own(reward_funcs=[lambda completions, **columns: [*map(reward_of, completions)]], **shared)
        made.optimizer_cls_and_kwargs, made.schedule = optimizer, schedule
        made.updates, made.run_seed = config.inner_steps * config.minibatches, config.seed
    made.remove_callback(PrinterCallback)
    return made


def weights(made) -> torch.Tensor:
    """All weights side by side."""
    model = made.accelerator.unwrap_model(made.model)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def trained(overrides: list[str], own: dict | None = None, **how) -> torch.Tensor:
    """The weights after ten steps."""
    made = trainer(overrides, own, **how)
    made.train()
    return weights(made)
