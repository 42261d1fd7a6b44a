"""What is written down of a step: the metrics of docs/metrics.md, held-out evaluation, a few completions as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

import torch

from rlexp.backends.trl.objective import Objective, Scored
from rlexp.config.schema import Config
from rlexp.core.masked import masked_mean
from rlexp.core.pass_at_k import pass_at_k
from rlexp.core.streams import Purpose
from rlexp.language.generation import sample, stream_seed
from rlexp.language.text_task import TextTask
from rlexp.loop import metrics
from rlexp.loop.metrics import Row
from rlexp.loop.sampling import Groups
from rlexp.loop.state import Experience
from rlexp.record.samples import COMPLETIONS, DIGITS, PROMPTS
from rlexp.tasks import total_reward

# Sums over the tokens of a micro-batch (``AxesTrainer._compute_loss``), by the metric that is their mean.
SUMS = {"entropy": "policy/entropy", "k1": "kl/ref_k1", "k3": "kl/ref_k3"}


def step_row(
    objective: Objective, scored: Scored, experience: Experience, rows: Sequence[Row], bounds: tuple[float, float]
) -> dict[str, float]:
    """Return the metrics of a step of which ``rows`` are those of its micro-batches.

    Of what TRL computes anyway: the KL to the reference where its log-probabilities are needed, and never the
    exact one, which needs whole distributions; entropy and KL are those of the policy in each update, which in the
    first one is the policy that sampled.
    """
    rollout, rewards = scored.rollout, scored.rewards
    made = torch.full((1,), rollout.mask.shape[1])
    groups = Groups(rollout, made * 0 + 1, rollout.mask.sum((-1, -2, -3)), made, made, None, rewards, made, made)
    limits = rewards.total.new_tensor(bounds).unsqueeze(-1)
    row = (
        metrics.reward_metrics(rewards, experience.rewards)
        | metrics.group_metrics(rewards.total, limits)
        | metrics.filter_metrics(groups, experience.mask)
        | metrics.advantage_metrics(experience.advantages, rollout.mask)
        | metrics.length_metrics(rollout.mask, rollout.finished, rewards.correct)
        | metrics.penalty_metrics(objective.variant, objective.memory)
    )
    updates = [{name: values for name, values in each.items() if not name.startswith("sum/")} for each in rows]
    row |= metrics.over_updates(updates)
    sums = {name: sum(each[name] for each in rows) for name in rows[0] if name.startswith("sum/")}
    for short, name in SUMS.items():
        if f"sum/{short}" in sums:
            row[name] = sums[f"sum/{short}"] / sums["sum/tokens"]
    return metrics.written({name: values.item() for name, values in row.items()})


def text_samples(
    scored: Scored, experience: Experience, step: int, prompts: Sequence[str], tokenizer: Any
) -> Iterator[dict[str, Any]]:
    """Yield the first completions of a step as text: as ``record.samples``, of the rollout that the step trained on."""
    rollout = scored.rollout
    advantages = masked_mean(experience.advantages, rollout.mask, (-1,)).squeeze(-1)
    for p in range(min(PROMPTS, rollout.mask.shape[1])):
        for g in range(min(COMPLETIONS, rollout.mask.shape[2])):
            tokens = rollout.completions[0, p, g][rollout.mask[0, p, g]].tolist()
            yield {
                "step": step,
                "prompt": prompts[p],
                "completion": tokenizer.decode(tokens, skip_special_tokens=True),
                "correct": bool(scored.rewards.correct[0, p, g]),
                "reward": round(scored.rewards.total[0, p, g].item(), DIGITS),
                "advantage": round(advantages[0, p, g].item(), DIGITS),
            }


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
