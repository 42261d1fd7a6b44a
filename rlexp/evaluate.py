"""Held-out evaluation: greedy accuracy, sampled accuracy, pass@k; ``[R]`` each."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import torch
from torch import Tensor

from rlexp import rollout
from rlexp.fleet import Fleet
from rlexp.streams import Purpose
from rlexp.tasks import combine


def evaluate(fleet: Fleet, step: int, prompts: int, samples: int, ks: Sequence[int]) -> dict[str, Tensor]:
    """Judge the policy on ``prompts`` held-out prompts, which stay the same through a run.

    ``eval/greedy_accuracy`` takes the most likely token at every step; the others use ``samples`` completions a prompt
    at the sampling temperature. ``eval/reward`` is the weighted sum of the task's components before any shaping.
    """
    task = fleet.task
    questions = task.prompts(fleet.uniforms(Purpose.EVALUATION_PROMPTS, 0, prompts, task.draws), held_out=True)
    noise = fleet.uniforms(Purpose.EVALUATION_SAMPLING, step, prompts, samples, task.cap)
    greedy = rollout.sample(fleet.policy, task, questions, noise[:, :, :1], fleet.temperature, rollout.best)
    sampled = rollout.sample(fleet.policy, task, questions, noise, fleet.temperature)
    right = task.score(questions, greedy.completions, greedy.mask, greedy.finished).correct
    scores = task.score(questions, sampled.completions, sampled.mask, sampled.finished)
    hits = scores.correct.sum(-1)
    row = {
        "eval/greedy_accuracy": right.squeeze(-1).float().mean(-1),
        "eval/sampled_accuracy": hits.float().mean(-1) / samples,
        "eval/reward": combine(scores.components, task.weights).nanmean(-1).nanmean(-1),
        "eval/length": sampled.mask.float().sum(-1).mean(-1).mean(-1),
    }
    return row | {f"eval/pass@{k}": pass_at(k, hits, samples).mean(-1) for k in ks}


def pass_at(k: int, hits: Tensor, samples: int) -> Tensor:
    """Probability that one of k completions drawn from ``samples`` is right: 1 − C(n − c, k) / C(n, k).

    Source: unbiased estimator of Chen et al. (arXiv 2107.03374, eq. 1).
    """
    table = torch.tensor([1 - comb(samples - c, k) / comb(samples, k) for c in range(samples + 1)], device=hits.device)
    return table[hits]
