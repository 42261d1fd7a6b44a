"""A step of backend=trl against a step of TRL's own GRPOTrainer: the same Llama, prompts, sizes and judge.

Sort as text, the Llama that model=llama makes, 16 prompts x 8 completions of exactly 16 tokens, two updates a step,
GRPO's settings in both. Evaluation, files and checkpoints are left out in both; ours writes no row in nine of ten
steps, as a run does by default. Needs the extra trl.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.parts.common import alternating, options, publish, ratios, shown

OVERRIDES = ["backend=trl", "model=llama", "start=random", "task=sort", "norm=local", "agg=token", "entropy_coef=0"]
OVERRIDES += ["backend.max_completion_length=16"]
LEFT_OUT = 3  # first steps, in which things are set up


def trainer(steps: int, ours: bool, overrides: Sequence[str] = OVERRIDES, full: bool = True) -> Any:
    """Return a trainer that is ready for so many steps; both judge by the same task.

    ``full`` completions have all the tokens that they may have.
    """
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from trl import GRPOTrainer

    from rlexp.backends.trl import trainer as settings
    from rlexp.backends.trl.objective import Objective
    from rlexp.backends.trl.trainer import AxesTrainer
    from rlexp.config.compose import compose
    from rlexp.core.streams import Purpose
    from rlexp.language import text_task
    from rlexp.language.made import load
    from rlexp.sweep.build import variant

    config = compose(*overrides, f"steps={steps}")
    task, weights = text_task(config.task), dict(config.task.weights)
    model, tokenizer = load(config, task, None)
    prompts = partial(task.examples, config.seed, Purpose.PROMPTS, count=config.group_size.prompts, held_out=False)
    examples = [example for step in range(1, steps + 1) for example in prompts(step=step)]

    def judged(completions: list[str], number: list[int], **columns: Any) -> list[float]:
        scores = task.score([examples[each] for each in number], completions, [True] * len(completions))
        return [sum(weights[name] * score.components[name] for name in weights) for score in scores]

    folder = Path(tempfile.mkdtemp())
    shared = {
        "model": model,
        "processing_class": tokenizer,
        "train_dataset": Dataset.from_list([{"prompt": e.prompt, "number": i} for i, e in enumerate(examples)]),
        "args": settings.grpo_config(config, folder, 1, [*weights.values()] if ours else [1.0], False),
    }
    if full:
        shared["args"].generation_kwargs = {"min_new_tokens": config.backend.max_completion_length}
    if not ours:
        shared["args"].loss_type, shared["args"].scale_rewards = "dapo", "group"
        made = GRPOTrainer(reward_funcs=[judged], **shared)
    else:
        size = config.group_size.completions
        objective = Objective(variant(config), weights, config.seed, size, config.minibatches, 1)
        made = AxesTrainer(
            objective=objective, task=task, examples=examples, schedule=settings.schedule(config),
            measures=lambda step: step % config.log_every == 0, on_step=lambda *step: None,
            optimizer=settings.optimizer(config), **shared,
        )  # fmt: skip
    made.remove_callback(PrinterCallback)
    return made


def seconds_a_step(steps: int, ours: bool, *choices: Any) -> float:
    """Train; return the median seconds of a step of two updates, without the first ones."""
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        """Notes when the last update of a step ends."""

        def __init__(self):
            self.ends: list[float] = []

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            """Called after each update."""
            if state.global_step % 2 == 0:
                self.ends.append(time.perf_counter())

    clock, made = Clock(), trainer(steps, ours, *choices)
    made.add_callback(clock)
    made.train()
    spans = [end - start for start, end in zip(clock.ends, clock.ends[1:], strict=False)]
    return median(spans[LEFT_OUT:])


def main() -> None:
    """Measure in turn, print, write."""
    import torch

    from rlexp.language.models import quiet

    chosen = options(__doc__, steps=20, repetitions=7)
    torch.set_num_threads(1)
    with quiet():
        measured = alternating(
            {"TRL": lambda: seconds_a_step(chosen.steps, False), "rlexp": lambda: seconds_a_step(chosen.steps, True)},
            chosen.repetitions,
        )
    rows = [{"a step": name, "seconds": shown(values)} for name, values in measured.items()]
    rows.append({"a step": "rlexp / TRL", "seconds": shown(ratios(measured["rlexp"], measured["TRL"]))})
    publish("backend", rows, chosen, seconds=measured)


if __name__ == "__main__":
    main()
