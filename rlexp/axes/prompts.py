"""Which prompts come: ``prompts(…) -> weights``, ``[*R N]``: how often each prompt of a set comes, next to others.

The set are the N = ``task.prompt_set`` prompts that a run is trained on again and again. A step draws P of them,
independently of each other, each with its weight over the sum of all; where all weights are 0 all are drawn alike.
Evaluation has prompts of its own, whatever trains.

The pass rate of a prompt in a step is the mean of the rewards of all its completions, after ``shaping``: the share of
right ones where rewards are 0 and 1. Completions count whether or not ``filter`` leaves them out of the loss or of the
statistics; those of groups that ``filter.refill`` drops do not.
"""

from __future__ import annotations

from torch import Tensor, exp, isnan, ones_like, stack, zeros_like

from rlexp.core.facts import Facts
from rlexp.core.masked import sums_by_prompt
from rlexp.core.memory import Memory
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import (
    FiniteNonNegative,
    PerCompletion,
    PerKnownPrompt,
    PerPromptOfSet,
    PerReplica,
    Positive,
    Probability,
    PromptNumbers,
    Share,
    Size,
)


@Facts(is_noop=True)
def uniform(candidates: PerPromptOfSet) -> PerPromptOfSet:
    """1 for each: all prompts come alike; without a ``task.prompt_set`` every step has new ones."""
    return candidates


def no_positive_resampling(solved: PerKnownPrompt, *, size: Size | None, threshold: Share) -> PerPromptOfSet:
    """0 for a prompt once its pass rate in a step was at least ``threshold``, for good, else 1.

    Source: ScaleRL (arXiv 2510.13786, §3.2, No-Positive-Resampling) with 0.9; open-instruct
    ``no_resampling_pass_rate`` (``open_instruct/data_loader.py``, commit e6c3044), where the set comes in
    epochs.
    """
    return 1 - solved[..., 0]


def difficulty_pools(
    latest: PerKnownPrompt,
    *,
    size: Size | None,
    hard: Probability,
    easy: Probability,
    hard_weight: FiniteNonNegative,
    easy_weight: FiniteNonNegative,
) -> PerPromptOfSet:
    """The weight of the pool of a prompt's newest pass rate p: hard if p ≤ ``hard``, easy if p > ``easy``, else 1.

    A prompt that has not come yet weighs 1. Source: prime-rl ``DifficultyPoolSampler``
    (``orchestrator/curriculum/samplers/pool.py``, commit 559b447) with its three default pools.
    """
    rate, seen = latest.unbind(-1)
    weights = ones_like(rate).masked_fill(rate <= hard, hard_weight).masked_fill(rate > easy, easy_weight)
    return weights.where(seen > 0, 1.0)


def pass_rate_target(
    successes: PerKnownPrompt, *, size: Size | None, target: Probability, temperature: Positive, decay: Probability
) -> PerPromptOfSet:
    """exp(−|target − α / (α + β)| / temperature), with the posterior Beta(α, β) of a prompt's pass rate.

    Source: Trinity-RFT ``DifficultyBasedSelector`` with ``do_sample=False`` and ``rho=0``, that is without features of
    the prompts; there a batch is drawn without replacement. MoPPS (arXiv 2507.04632) takes the prompts whose draws from
    the posterior are nearest to 0.5.
    """
    alpha, beta = successes.unbind(-1)
    return exp(-(target - alpha / (alpha + beta)).abs() / temperature)


def easy_to_hard(
    answer_lengths: PerPromptOfSet, progress: PerReplica, *, initial: Share, until: Share
) -> PerPromptOfSet:
    """1 for the easiest prompts, of which there are more and more, else 0; of two the easier has the shorter answer.

    A prompt comes once the share of easier ones is below the competence √(t (1 − c²) + c²), c = ``initial``, at the
    share t of the first ``until`` of the run. Source: competence-based curriculum (Platanios et al., arXiv 1903.09848,
    eq. 7, ``c_sqrt``); Trinity-RFT ``offline_easy2hard`` goes through the sorted set once instead.
    """
    easier = answer_lengths.unsqueeze(-2) < answer_lengths.unsqueeze(-1)
    share = easier.to(answer_lengths.dtype).mean(-1)
    done = (progress / until).clamp(max=1)
    competence = (done * (1 - initial**2) + initial**2).sqrt()
    return (share < competence.unsqueeze(-1)).to(answer_lengths.dtype)


# ---- what is remembered of each prompt


def none_solved(*, size: Size | None) -> list[list[float]]:
    """Return 0 for each prompt: none is solved."""
    return [[0.0]] * size


def add_solved(
    solved: PerKnownPrompt, all_rewards: PerCompletion, prompt_numbers: PromptNumbers, *, threshold: Share
) -> PerKnownPrompt:
    """Return 1 for prompts that were solved before or are in this step, else 0."""
    number, total = seen_in_step(all_rewards, prompt_numbers, solved)
    now = (number > 0) & (total >= threshold * number)
    return solved.masked_fill(now.unsqueeze(-1), 1.0)


def none_seen(*, size: Size | None) -> list[list[float]]:
    """Return a pass rate of 0 that is not known, 0, for each prompt."""
    return [[0.0, 0.0]] * size


def keep_latest(latest: PerKnownPrompt, all_rewards: PerCompletion, prompt_numbers: PromptNumbers) -> PerKnownPrompt:
    """Return the newest pass rate of each prompt, and 1 where there is one."""
    number, total = seen_in_step(all_rewards, prompt_numbers, latest)
    now = stack([total / number.clamp(min=1), number.clamp(max=1)], -1)
    return now.where(number.unsqueeze(-1) > 0, latest)


def flat_prior(*, size: Size | None) -> list[list[float]]:
    """Return α = β = 1 for each prompt: every pass rate is as likely."""
    return [[1.0, 1.0]] * size


def add_successes(
    successes: PerKnownPrompt, all_rewards: PerCompletion, prompt_numbers: PromptNumbers, *, decay: Probability
) -> PerKnownPrompt:
    """α ← (1 − decay) α + decay + Σ r, β ← (1 − decay) β + decay + Σ (1 − r): older ones fade to the flat prior.

    Source: Trinity-RFT ``BaseBetaPREstimator``, where ``lamb`` is the decay; at every step, of every prompt.
    """
    number, total = seen_in_step(all_rewards, prompt_numbers, successes)
    return (1 - decay) * successes + decay + stack([total, number - total], -1)


def seen_in_step(rewards: PerCompletion, numbers: PromptNumbers, remembered: PerKnownPrompt) -> tuple[Tensor, Tensor]:
    """Return how many completions with a reward a step has of each prompt of the set, and their sum, ``[*R N]``."""
    scored = ~isnan(rewards)
    return sums_by_prompt(rewards.where(scored, zeros_like(rewards)), scored, numbers, remembered.shape[-2])


FUNCTIONS = by_name(uniform, no_positive_resampling, difficulty_pools, pass_rate_target, easy_to_hard)
MEMORIES = {
    "no_positive_resampling": Memory("solved", none_solved, add_solved, "1 for each prompt that was solved, else 0"),
    "difficulty_pools": Memory(
        "latest", none_seen, keep_latest, "newest pass rate of each prompt, 1 where there is one"
    ),
    "pass_rate_target": Memory("successes", flat_prior, add_successes, "α and β of the pass rate of each prompt"),
}
INPUTS = {
    "candidates": Offer(PerPromptOfSet, "1 for each prompt of the set"),
    "answer_lengths": Offer(PerPromptOfSet, "tokens of the task's right answer to each prompt of the set"),
    "progress": Offer(PerReplica, "share of the run's updates that are done"),
}
