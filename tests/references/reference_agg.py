"""Aggregations once more: losses and mask ``[P G T]`` of one replica to a number, from lists."""

from __future__ import annotations


def completions(losses, mask) -> list[list[list[float]]]:
    """Each prompt's completions' kept losses; an empty list for a completion that is masked throughout."""
    prompts, group, time = losses.shape
    return [
        [[float(losses[p][g][t]) for t in range(time) if mask[p][g][t]] for g in range(group)] for p in range(prompts)
    ]


def flat(lists: list[list]) -> list:
    return [each for one in lists for each in one]


def mean_or_zero(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def agg_token(losses, mask, mean_tokens):
    """DAPO, arXiv 2503.14476 eq. 8, as TRL ``loss_type="dapo"``: the sum over the mean count of a minibatch."""
    return sum(flat(flat(completions(losses, mask)))) / mean_tokens


def agg_bnpo(losses, mask):
    """TRL ``loss_type="bnpo"``: all kept tokens at hand in one mean."""
    return mean_or_zero(flat(flat(completions(losses, mask))))


def agg_sequence(losses, mask):
    """GRPO, arXiv 2402.03300 eq. 3; verl ``seq-mean-token-mean``: a masked completion counts as one of loss 0."""
    return mean_or_zero([mean_or_zero(kept) for kept in flat(completions(losses, mask))])


def agg_sequence_sum(losses, mask):
    """TRL ``loss_type="luspo"``; verl ``seq-mean-token-sum``: a masked completion counts as one of loss 0."""
    return mean_or_zero([sum(kept) for kept in flat(completions(losses, mask))])


def agg_dr_grpo(losses, mask, *, length):
    """Dr. GRPO, arXiv 2503.20783 §3.2; TRL ``loss_type="dr_grpo"``: every completion over the same constant."""
    return mean_or_zero([sum(kept) / length for kept in flat(completions(losses, mask))])


def agg_delta_l(losses, mask, *, length, alpha):
    """ΔL Normalization, arXiv 2509.07558: Dr. GRPO with weights by the lengths whose mean is 1."""
    kept = flat(completions(losses, mask))
    weights = [len(one) ** -alpha if one else 0.0 for one in kept]
    mean = mean_or_zero([weight for weight in weights if weight])
    return mean_or_zero([weight / (mean or 1) * sum(one) / length for weight, one in zip(weights, kept, strict=True)])


def agg_prompt(losses, mask):
    """DAPO, arXiv 2503.14476 eq. 8 as printed: the fraction of each prompt's group, then the mean over prompts."""
    return mean_or_zero([mean_or_zero(flat(group)) for group in completions(losses, mask)])


AGG = {
    "token": agg_token,
    "bnpo": agg_bnpo,
    "sequence": agg_sequence,
    "sequence_sum": agg_sequence_sum,
    "dr_grpo": agg_dr_grpo,
    "delta_l": agg_delta_l,
    "prompt": agg_prompt,
}
