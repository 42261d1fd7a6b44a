"""Which prompts come, prompt by prompt and completion by completion, from the sources that the choices name."""

from __future__ import annotations

import math


def of_each_prompt(rewards, numbers, size):
    """The rewards of a step by the prompt that they are of; NaN is none."""
    found = [[] for _ in range(size)]
    for number, group in zip(numbers, rewards, strict=True):
        found[number] += [reward for reward in group if not math.isnan(reward)]
    return found


def no_positive_resampling(steps, size, threshold):
    """ScaleRL §3.2; open-instruct: ``percent_solved >= no_resampling_pass_rate`` excludes an index."""
    excluded = set()
    for rewards, numbers in steps:
        for prompt, seen in enumerate(of_each_prompt(rewards, numbers, size)):
            if seen and sum(seen) / len(seen) >= threshold:
                excluded.add(prompt)
    return [0.0 if prompt in excluded else 1.0 for prompt in range(size)]


def difficulty_pools(steps, size, hard, easy, hard_weight, easy_weight):
    """prime-rl ``task_pool`` with the pools hard, normal and easy: the first whose threshold is not below the score."""
    scores = {}
    for rewards, numbers in steps:
        for prompt, seen in enumerate(of_each_prompt(rewards, numbers, size)):
            if seen:
                scores[prompt] = sum(seen) / len(seen)
    pools = [(hard, hard_weight), (easy, 1.0), (math.inf, easy_weight)]
    return [
        1.0 if prompt not in scores else next(weight for limit, weight in pools if scores[prompt] <= limit)
        for prompt in range(size)
    ]


def pass_rate_target(steps, size, target, temperature, decay):
    """Trinity-RFT ``_update`` with ρ = 0, then softmax(score / τ) of score = −|target − mean| without its sum."""
    alphas, betas = [1.0] * size, [1.0] * size
    for rewards, numbers in steps:
        for prompt, seen in enumerate(of_each_prompt(rewards, numbers, size)):
            alphas[prompt] = (1 - decay) * alphas[prompt] + decay + sum(seen)
            betas[prompt] = (1 - decay) * betas[prompt] + decay + sum(1 - reward for reward in seen)
    return [math.exp(-abs(target - a / (a + b)) / temperature) for a, b in zip(alphas, betas, strict=True)]


def easy_to_hard(lengths, progress, initial, until):
    """Platanios et al., eq. 7: examples whose place in the order of difficulty is below the competence."""
    t = min(1.0, progress / until)
    competence = min(1.0, math.sqrt(t * (1 - initial**2) + initial**2))
    return [1.0 if sum(other < mine for other in lengths) / len(lengths) < competence else 0.0 for mine in lengths]
