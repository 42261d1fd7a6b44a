"""pass@k of a policy from n samples."""

from __future__ import annotations

from math import comb


def pass_at_k(k: int, hits: int, samples: int) -> float:
    """Probability that one of k completions drawn from n ``samples``, c of them right, is: 1 − C(n − c, k) / C(n, k).

    Source: unbiased estimator of Chen et al. (arXiv 2107.03374, eq. 1).

    Args:
        k: how many are drawn without replacement, from 1 to ``samples``.
        hits: how many of the samples are right.
        samples: how many completions of a prompt there are.

    Returns:
        A number from 0 to 1.

    Raises:
        ValueError: for more draws or hits than samples.
    """
    if not (1 <= k <= samples and 0 <= hits <= samples):
        raise ValueError(f"pass_at_k: k={k} and hits={hits} must be at most samples={samples}, and k at least 1")
    return 1 - comb(samples - hits, k) / comb(samples, k)
