"""Held-out evaluation: greedy accuracy, sampled accuracy, pass@k; of a world everything exactly; ``[R]`` each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlexp.core.blocks import map_tensors
from rlexp.core.masked import ALL, masked_mean
from rlexp.core.pass_at_k import pass_at_k
from rlexp.core.streams import Purpose
from rlexp.core.types import Prompts
from rlexp.loop.metrics import agreement, of_judged, win_rate
from rlexp.loop.rewards import Rewards, score, score_with
from rlexp.loop.rollout import as_rollout, most_likely, response_mask, sample
from rlexp.loop.state import TrainState
from rlexp.loop.teachers import hinted_accuracy
from rlexp.tasks import TabularTask

MANY = 128  # samples a prompt
BLOCK = 4096  # completions of a run that are sampled at once if they are many


def evaluate(state: TrainState, step: int, prompts: int, samples: int, ks: Sequence[int]) -> dict[str, Tensor]:
    """Judge the policy on ``prompts`` held-out prompts, which stay the same through a run.

    ``eval/greedy_accuracy`` takes the most likely token at every step; the others use ``samples`` completions a prompt
    at the sampling temperature. ``eval/reward`` is the weighted sum of the task's components before any shaping,
    whoever judges in training; what that judge says of the same completions, and how it orders them, is logged beside
    it. Of a task with a ``corpus`` its held-out loss is logged too, of a teacher with a hint how often it is right.
    """
    task = state.task
    uniforms = state.uniforms(Purpose.EVALUATION_PROMPTS, 0, prompts, task.draws)
    questions = task.prompts(uniforms, held_out=True)
    unused = torch.zeros(len(state.seeds), prompts, 1, task.cap, device=questions.device)
    greedy = sample(state.policy, task, questions, unused, state.temperature, most_likely)
    rewards, lengths = judge_samples(state, step, questions, samples)
    hits = rewards.correct.sum(-1)
    row = {
        "eval/greedy_accuracy": score_with(task, greedy).correct.squeeze(-1).float().mean(-1),
        "eval/sampled_accuracy": hits.float().mean(-1) / samples,
        "eval/reward": rewards.gold.nanmean(-1).nanmean(-1),
        "eval/length": lengths.float().mean(-1).mean(-1),
    }
    if hasattr(task, "corpus"):
        row["eval/corpus_loss"] = corpus_loss(state, questions)
    row |= {f"eval/pass@{k}": pass_at(k, hits, samples).mean(-1) for k in ks}
    row |= hinted_accuracy(state, questions)
    if state.judged_at_all:
        proxy, right = rewards.total.nanmean(-1).nanmean(-1), agreement(rewards.total, rewards.gold)
        wins = win_rate(state, questions, rewards.gold)
        row |= of_judged(state, {"eval/proxy": proxy, "eval/agreement": right, "eval/win_rate": wins})
    return row | exact(state, ks) if isinstance(task, TabularTask) else row


def judge_samples(state: TrainState, step: int, questions: Prompts, samples: int) -> tuple[Rewards, Tensor]:
    """Return the rewards and the lengths of ``samples`` completions of every question, ``[R, P, G]``.

    Of many completions those that begin alike are decoded once, and questions come in blocks, which takes less memory.
    """
    found, many = [], samples >= MANY
    for number, part in enumerate(questions.split(max(1, BLOCK // samples) if many else questions.shape[1], 1)):
        shape = part.shape[1], samples, state.task.cap
        noise = state.uniforms(Purpose.EVALUATION_SAMPLING, step, *shape, round=number)
        sampled = sample(state.policy, state.task, part, noise, state.temperature, shared=many)
        rewards = score(state, sampled, step, round=number, occasion=Purpose.EVALUATION_VOTES)
        found.append((rewards, sampled.mask.sum(-1)))
    rewards, lengths = zip(*found, strict=True)
    return map_tensors(lambda *parts: torch.cat(parts, 1), *rewards), torch.cat(lengths, 1)


@torch.no_grad()
def corpus_loss(state: TrainState, questions: Tensor) -> Tensor:
    """Return the mean of −log π over the tokens of the corpus' answers to held-out prompts, one each, ``[R]``.

    At temperature 1, whatever that of the run. The answers stay the same through a run; what an environment writes in
    them is no policy's.
    """
    numbers = state.uniforms(Purpose.EVALUATION_CORPUS, 0, questions.shape[1])
    answers, mask = (each.unsqueeze(2) for each in state.task.corpus(questions, numbers))
    mask = response_mask(state.task, questions, answers, mask)
    log_probs = state.policy.log_probs(questions, answers, torch.ones_like(state.temperature)).log_probs
    return -masked_mean(log_probs, mask, ALL).squeeze(ALL)


def pass_at(k: int, hits: Tensor, samples: int) -> Tensor:
    """``pass_at_k`` of each number of hits."""
    table = torch.tensor([pass_at_k(k, right, samples) for right in range(samples + 1)], device=hits.device)
    return table[hits]


@torch.no_grad()
def exact(state: TrainState, ks: Sequence[int]) -> dict[str, Tensor]:
    """Judge the policy on all questions of a world by summing over all completions: no sampling, no error of it.

    Means are over questions, of a component over those to which it applies. KL (to the reference) and entropy are in
    nats a completion, not a token. pass@k is 1 − (1 − p)^k of each question's own p.
    """
    task, device = state.task, state.temperature.device
    completions, questions = task.every_completion(device), torch.arange(task.questions, device=device)
    prompts = (task.first_question + questions).view(1, -1, 1).expand(len(state.seeds), -1, -1)
    given = prompts, completions.expand(len(state.seeds), task.questions, -1, -1), state.temperature
    rollout = as_rollout(task, *given[:2], state.policy.log_probs(*given).log_probs)
    reference = state.reference.log_probs(*given).log_probs.where(rollout.mask, 0.0).sum(-1)
    log_p, rewards, lengths = rollout.old_log_probs.sum(-1), score_with(task, rollout), rollout.mask.float().sum(-1)
    p, correct = log_p.exp(), rewards.correct.float()

    def expected(values: Tensor) -> Tensor:
        return (p * values).sum(-1)

    def length_of(which: Tensor) -> Tensor:
        return expected(which * lengths).sum(-1) / expected(which).sum(-1)

    accuracy = expected(correct)
    row = {f"eval/exact/pass@{k}": (1 - (1 - accuracy).clamp(min=0) ** k).mean(-1) for k in ks}
    row |= {f"eval/exact/{name}": expected(values).nanmean(-1) for name, values in rewards.components.items()}
    return row | {
        "eval/exact/accuracy": accuracy.mean(-1),
        "eval/exact/reward": expected(rewards.total).nanmean(-1),
        "eval/exact/kl": expected(log_p - reference).mean(-1),
        "eval/exact/entropy": -expected(log_p).mean(-1),
        "eval/exact/length": expected(lengths).mean(-1),
        "eval/exact/length_correct": length_of(correct),
        "eval/exact/length_wrong": length_of(1 - correct),
    }
