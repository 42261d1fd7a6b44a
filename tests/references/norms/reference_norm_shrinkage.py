"""The shrinkage baseline once more, group by group (see ``reference_norm``)."""

from __future__ import annotations

from reference_loops import per_completion
from reference_norm import deviation, kept_of_group, mean


def norm_shrinkage(rewards, keep, *, eps):
    """JSPO-Official ``jspo``: λ from the other groups alone, then between leave-one-out and the other groups."""

    def one(p, g):
        groups = [kept_of_group(rewards, keep, i) for i in range(len(rewards)) if i != p]
        means = [mean(group) for group in groups if group]
        own = [float(rewards[p][i]) for i in range(rewards.shape[1]) if keep[p][i] and i != g]
        r = float(rewards[p][g])
        if not means:
            return r - mean(own) if own else 0.0
        if not own:
            return r - mean(means)
        errors = [deviation(group, 1) ** 2 / len(group) for group in groups if len(group) > 1]
        v, s = mean(errors) if errors else 0.0, deviation(means, 0) ** 2
        share = v / (v + s + eps)
        return r - (1 - share) * mean(own) - share * mean(means)

    return per_completion(rewards.shape, one)


FUNCTIONS = {"shrinkage": norm_shrinkage}
