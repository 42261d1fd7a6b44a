"""Held-out evaluation of a language model: the sampled metrics of ``loop.evaluation``, with the same names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

import torch

from rlexp.config.schema import Config
from rlexp.core.pass_at_k import pass_at_k
from rlexp.core.streams import Purpose
from rlexp.language.generation import sample, stream_seed
from rlexp.language.text_task import TextTask
from rlexp.tasks import total_reward


class Evaluated(NamedTuple):
    """What is known of one prompt: was the greedy completion right, how many samples were, their rewards, lengths."""

    greedy: bool
    hits: int
    rewards: list[float]
    lengths: list[int]


def evaluate(
    model: Any,
    tokenizer: Any,
    task: TextTask,
    config: Config,
    step: int,
    prompt_of: Callable[[str], Any],
    share: slice = slice(None),
    gather: Callable[[list[Evaluated]], list[Evaluated]] = list,
) -> dict[str, float]:
    """Judge the model on held-out prompts, which stay the same through a run.

    A process judges its ``share`` of the prompts; ``gather`` joins those of all. Greedy: the most likely token at
    every place; the others are of ``eval.samples`` completions a prompt at the sampling temperature.
    """
    asked = config.eval
    questions = task.examples(config.seed, Purpose.EVALUATION_PROMPTS, 0, asked.prompts, held_out=True)[share]
    prompts = [prompt_of(question.prompt) for question in questions]
    length = config.backend.max_completion_length
    noise = stream_seed(config.seed, Purpose.EVALUATION_SAMPLING, step, share.start or 0)
    complete = partial(sample, model, tokenizer, prompts, max_completion_length=length, seed=noise)
    best, drawn = complete(1, temperature=None), complete(asked.samples, temperature=config.temperature)
    evaluated = []
    for question, greedy, sampled in zip(questions, best, drawn, strict=True):
        rows = [*greedy, *sampled]
        first, *scores = task.score([question] * len(rows), [row.text for row in rows], [row.finished for row in rows])
        components = {name: torch.tensor([[[score.components[name] for score in scores]]]) for name in task.weights}
        rewards = total_reward(components, task.weights).flatten().tolist()
        hits = sum(score.correct for score in scores)
        evaluated.append(Evaluated(first.correct, hits, rewards, [len(row.tokens) for row in sampled]))
    return averages(gather(evaluated), asked.samples, asked.ks)


def averages(evaluated: Sequence[Evaluated], samples: int, ks: Sequence[int]) -> dict[str, float]:
    """Average over prompts; pass@k as ``loop.evaluation.pass_at_k`` has it."""
    rewards = torch.tensor([each.rewards for each in evaluated])
    row = {
        "eval/greedy_accuracy": fmean(each.greedy for each in evaluated),
        "eval/sampled_accuracy": fmean(each.hits / samples for each in evaluated),
        "eval/reward": rewards.nanmean(-1).nanmean().item(),
        "eval/length": fmean(fmean(each.lengths) for each in evaluated),
    }
    return row | {f"eval/pass@{k}": fmean(pass_at_k(k, each.hits, samples) for each in evaluated) for k in ks}
