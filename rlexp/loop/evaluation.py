"""Held-out evaluation: greedy accuracy, sampled accuracy, pass@k; ``[R]`` each."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import torch
from torch import Tensor

from rlexp.core.streams import Purpose
from rlexp.core.types import Prompts
from rlexp.loop.judged.metrics import agreement, of_judged, win_rate
from rlexp.loop.metrics import Row
from rlexp.loop.rewards import Rewards, score, score_with
from rlexp.loop.rollout import most_likely, sample
from rlexp.loop.state import TrainState


def evaluate(state: TrainState, step: int, prompts: int, samples: int, ks: Sequence[int]) -> dict[str, Tensor]:
    """Judge the policy on ``prompts`` held-out prompts, which stay the same through a run.

    ``eval/greedy_accuracy`` takes the most likely token at every step; the others use ``samples`` completions a prompt
    at the sampling temperature. ``eval/reward`` is the weighted sum of the task's components before any shaping,
    whoever judges in training; what that judge says of the same completions is logged beside it.
    """
    task = state.task
    uniforms = state.uniforms(Purpose.EVALUATION_PROMPTS, 0, prompts, task.draws)
    questions = task.prompts(uniforms, held_out=True)
    noise = state.uniforms(Purpose.EVALUATION_SAMPLING, step, prompts, samples, task.cap)
    greedy = sample(state.policy, task, questions, noise[:, :, :1], state.temperature, most_likely)
    sampled = sample(state.policy, task, questions, noise, state.temperature)
    rewards = score(state, sampled, step, occasion=Purpose.EVALUATION_VOTES)
    hits = rewards.correct.sum(-1)
    row = {
        "eval/greedy_accuracy": score_with(task, greedy).correct.squeeze(-1).float().mean(-1),
        "eval/sampled_accuracy": hits.float().mean(-1) / samples,
        "eval/reward": rewards.gold.nanmean(-1).nanmean(-1),
        "eval/length": sampled.mask.float().sum(-1).mean(-1).mean(-1),
    }
    row |= {f"eval/pass@{k}": pass_at(k, hits, samples).mean(-1) for k in ks}
    return row | judged_evaluation(state, questions, rewards)


def judged_evaluation(state: TrainState, questions: Prompts, rewards: Rewards) -> Row:
    """What the judge of training says of the samples, and how it orders them; nothing if the task judges all runs."""
    if not state.judged.any():
        return {}
    proxy, right = rewards.total.nanmean(-1).nanmean(-1), agreement(rewards.total, rewards.gold)
    wins = win_rate(state, questions, rewards.gold)
    return of_judged(state, {"eval/proxy": proxy, "eval/agreement": right, "eval/win_rate": wins})


def pass_at(k: int, hits: Tensor, samples: int) -> Tensor:
    """Probability that one of k completions drawn from ``samples`` is right: 1 − C(n − c, k) / C(n, k).

    Source: unbiased estimator of Chen et al. (arXiv 2107.03374, eq. 1).
    """
    table = torch.tensor([1 - comb(samples - c, k) / comb(samples, k) for c in range(samples + 1)], device=hits.device)
    return table[hits]
