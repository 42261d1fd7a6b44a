"""The norms once more, from the papers and frameworks: plain loops over one replica in float64.

Rewards, keep, lengths are ``[P G]``, log-probs, mask and penalties ``[P G T]``. Nothing here imports torch or rlexp.
"""

from __future__ import annotations

import math

import numpy as np
from reference_loops import per_completion


def kept_of_group(rewards, keep, prompt) -> list[float]:
    return [float(r) for r, k in zip(rewards[prompt], keep[prompt], strict=True) if k]


def kept_of_batch(rewards, keep) -> list[float]:
    return [r for prompt in range(len(rewards)) for r in kept_of_group(rewards, keep, prompt)]


def mean(numbers: list[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def deviation(numbers: list[float], ddof: int) -> float:
    centre = mean(numbers)
    return math.sqrt(math.fsum((x - centre) ** 2 for x in numbers) / (len(numbers) - ddof))


def varies(numbers: list[float]) -> bool:
    return len(numbers) > 0 and max(numbers) > min(numbers)


def norm_none(rewards, keep):
    """REINFORCE without baseline, Williams (1992): the return itself."""
    return per_completion(rewards.shape, lambda p, g: rewards[p][g])


def norm_center(rewards, keep):
    """Dr. GRPO, arXiv 2503.20783: r minus the group mean; TRL ``scale_rewards="none"``."""

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        return rewards[p][g] - mean(group) if varies(group) else 0.0

    return per_completion(rewards.shape, one)


def norm_local(rewards, keep, *, eps, ddof):
    """GRPO, arXiv 2402.03300 §4.1.2: z-score in the group; TRL ``scale_rewards="group"``."""

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        return (rewards[p][g] - mean(group)) / (deviation(group, ddof) + eps) if varies(group) else 0.0

    return per_completion(rewards.shape, one)


def norm_global(rewards, keep, *, eps, ddof):
    """Z-score over the batch; ROLL ``norm_mean_type=batch, norm_std_type=batch``."""
    batch = kept_of_batch(rewards, keep)

    def one(p, g):
        return (rewards[p][g] - mean(batch)) / (deviation(batch, ddof) + eps) if varies(batch) else 0.0

    return per_completion(rewards.shape, one)


def norm_hybrid(rewards, keep, *, eps, ddof):
    """Lite PPO, arXiv 2508.08221: group mean, deviation of the batch's raw rewards; TRL ``scale_rewards="batch"``."""
    batch = kept_of_batch(rewards, keep)

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        return (rewards[p][g] - mean(group)) / (deviation(batch, ddof) + eps) if varies(group) else 0.0

    return per_completion(rewards.shape, one)


def norm_rloo(rewards, keep):
    """RLOO, arXiv 2402.14740: r minus the mean of the others."""

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        if not keep[p][g] or not varies(group):
            return 0.0
        others = [rewards[p][i] for i in range(len(rewards[p])) if keep[p][i] and i != g]
        return rewards[p][g] - mean(others)

    return per_completion(rewards.shape, one)


def norm_rloo_zscore(rewards, keep, *, eps):
    """NeMo-RL's GRPO: mean and deviation of the others; only differences where the others do not differ."""

    def one(p, g):
        others = [rewards[p][i] for i in range(len(rewards[p])) if keep[p][i] and i != g]
        if not keep[p][g] or not others:
            return 0.0
        spread = deviation(others, 1) if len(others) > 1 and varies(others) else 0.0
        return (rewards[p][g] - mean(others)) / (spread + eps if spread else 1.0)

    return per_completion(rewards.shape, one)


def norm_max(rewards, keep):
    """CS336 lecture 17, ``compute_deltas(mode="max_rewards")``: r where r is the prompt's maximum, else 0."""

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        return rewards[p][g] if group and rewards[p][g] == max(group) else 0.0

    return per_completion(rewards.shape, one)


def norm_running(rewards, keep, reward_moments, *, eps, ddof):
    """ROLL ``RunningMoments``: z-score over all rewards so far, from their number, sum and sum of squares."""
    number, centre, squares, smallest, largest = (float(x) for x in reward_moments)
    batch = kept_of_batch(rewards, keep)
    total = number + len(batch)
    centre_now = (number * centre + math.fsum(batch)) / total
    sum_of_squares = squares + number * centre**2 + math.fsum(r**2 for r in batch)
    spread = math.sqrt((sum_of_squares - total * centre_now**2) / (total - ddof))
    constant = max([largest, *batch]) <= min([smallest, *batch])
    return per_completion(
        rewards.shape, lambda p, g: 0.0 if constant else (rewards[p][g] - centre_now) / (spread + eps)
    )


def norm_center_batch(rewards, keep):
    """ROLL ``norm_mean_type=batch, norm_std_type=None``."""
    batch = kept_of_batch(rewards, keep)
    return per_completion(rewards.shape, lambda p, g: rewards[p][g] - mean(batch) if varies(batch) else 0.0)


def norm_hybrid_centered(rewards, keep, *, eps, ddof):
    """ROLL ``group_reward_norm(div_std_global=True)``: the deviation of what is left after centring."""
    prompts, group = rewards.shape
    centered = norm_center(rewards, keep)
    left = [float(centered[p][g]) for p in range(prompts) for g in range(group) if keep[p][g]]
    return centered / (deviation(left, ddof) + eps)


def norm_batch_mean_group_std(rewards, keep, *, eps, ddof):
    """ROLL ``norm_mean_type=batch, norm_std_type=group``, as it is meant."""
    batch = kept_of_batch(rewards, keep)

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        return (rewards[p][g] - mean(batch)) / (deviation(group, ddof) + eps) if varies(group) else 0.0

    return per_completion(rewards.shape, one)


def norm_gdpo(components, weights, adjustments, keep, *, eps, ddof):
    """GDPO, arXiv 2601.05242; TRL ``normalize_then_sum``: each component's z-score in its group, then one over all."""
    columns = [(1.0, adjustments)] + [(weights[k], components[..., k]) for k in range(len(weights))]
    total = np.zeros(adjustments.shape)
    for weight, values in columns:
        known = keep & ~np.isnan(values)
        scores = norm_local(np.where(np.isnan(values), 0.0, values), known, eps=eps, ddof=ddof)
        total += weight * np.where(known, scores, 0.0)
    return norm_global(total, keep, eps=eps, ddof=ddof)


def weighted_baseline(rewards, keep, weights):
    def one(p, g):
        members = [i for i in range(rewards.shape[1]) if keep[p][i]]
        if not varies(kept_of_group(rewards, keep, p)):
            return 0.0
        return rewards[p][g] - sum(weights[p][i] * rewards[p][i] for i in members) / sum(weights[p][i] for i in members)

    return per_completion(rewards.shape, one)


def norm_opo(rewards, keep, lengths):
    """OPO, arXiv 2505.23585: the baseline weighs rewards by length."""
    return weighted_baseline(rewards, keep, lengths)


def energy(mask, old_log_probs, sum_pi_squared):
    """‖onehot − π‖² of each token: (1 − π)² for the token taken, and π(v)² for the others."""

    def one(p, g, t):
        taken = math.exp(old_log_probs[p][g][t])
        return (1 - taken) ** 2 + (sum_pi_squared[p][g][t] - taken**2) if mask[p][g][t] else 0.0

    return per_completion(mask.shape, one)


def norm_optimal(rewards, keep, mask, old_log_probs, sum_pi_squared):
    """Weaver and Tao (2001): E[‖∇ log π‖² r] / E[‖∇ log π‖²], gradients in the logits."""
    weights = [[math.fsum(row) for row in rows] for rows in energy(mask, old_log_probs, sum_pi_squared)]
    return weighted_baseline(rewards, keep, weights)


def norm_remax(rewards, greedy_rewards):
    """ReMax, arXiv 2310.10505: r minus that of the greedy completion."""
    return per_completion(rewards.shape, lambda p, g: rewards[p][g] - greedy_rewards[p][0])


def norm_a2po(rewards, reference_rewards, *, beta):
    """A*-PO, arXiv 2505.20686: r less beta · log of the mean of exp(r / beta) over completions by the reference."""

    def one(p, g):
        powers = [math.exp(r / beta) for r in reference_rewards[p]]
        return rewards[p][g] - beta * math.log(sum(powers) / len(powers))

    return per_completion(rewards.shape, one)


def norm_quantile(rewards, keep, *, level, eps, ddof):
    """Quantile advantage estimation, arXiv 2509.22611: the smallest reward whose empirical share reaches the level."""

    def one(p, g):
        group = sorted(kept_of_group(rewards, keep, p))
        if not varies(group):
            return 0.0
        threshold = group[math.ceil(level * len(group)) - 1]
        return (rewards[p][g] - threshold) / (deviation(group, ddof) + eps)

    return per_completion(rewards.shape, one)


def norm_gpg(rewards, keep):
    """GPG, arXiv 2504.02546: centered, times all completions over those of groups with a gradient."""
    groups = [kept_of_group(rewards, keep, p) for p in range(len(rewards))]
    useful = sum(len(group) for group in groups if varies(group))
    factor = sum(map(len, groups)) / useful if useful else 0.0
    return factor * norm_center(rewards, keep)


def norm_maxrl(rewards, keep):
    """MaxRL, arXiv 2602.02710; prime-rl ``max_rl``: relative to the mean, nothing where it is not positive."""

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        return rewards[p][g] / mean(group) - 1 if varies(group) and mean(group) > 0 else 0.0

    return per_completion(rewards.shape, one)


def norm_asymre(rewards, keep, *, shift):
    """AsymRE, arXiv 2506.20520: r − V with V = mean + shift."""
    return norm_center(rewards, keep) - shift


def norm_ema(rewards, reward_average, *, decay):
    """prime-rl ``rae``: r minus the average before the step; the decay is only seen afterwards."""
    return per_completion(rewards.shape, lambda p, g: rewards[p][g] - float(reward_average))


def norm_spo(rewards, keep, prompt_values, prompt_numbers, *, prompts, decay, prior, weight, eps, ddof):
    """SPO, arXiv 2509.13232; verl-recipe ``spo``: r − v of the prompt, then whitened over the batch."""
    errors = per_completion(rewards.shape, lambda p, g: rewards[p][g] - prompt_values[prompt_numbers[p]][0])
    counted = [errors[p][g] for p, g in np.ndindex(*rewards.shape) if keep[p][g]]
    if not varies(counted):
        return np.zeros(rewards.shape)
    return (errors - mean(counted)) / (deviation(counted, ddof) + eps)


def norm_dbb(rewards, keep, prompt_values, prompt_numbers, *, prompts, decay, prior, weight, eps):
    """GRPO-DBB, arXiv 2603.18444, eq. 11 to 13: α and β of each prompt with this step, and what follows from them."""

    def counts(number):
        value, known = (float(each) for each in prompt_values[number])
        alpha, beta = decay * known * value, decay * known * (1 - value)
        of_prompt = [p for p in range(len(rewards)) if prompt_numbers[p] == number]
        seen = [r for p in of_prompt for r in kept_of_group(rewards, keep, p)]
        if not seen:
            return known * value, known * (1 - value)
        return alpha + sum(seen), beta + len(seen) - sum(seen)

    def one(p, g):
        alpha, beta = counts(prompt_numbers[p])
        spread = math.sqrt(max(0.0, alpha * beta / (alpha + beta) ** 2))
        return (rewards[p][g] - alpha / (alpha + beta)) / (spread + eps)

    return per_completion(rewards.shape, one)


FUNCTIONS = {
    name.removeprefix("norm_"): function for name, function in list(globals().items()) if name.startswith("norm_")
}
