"""Per-token penalty for leaving the reference: ``kl(log_probs, ref_log_probs) -> penalties``, ``[*R P G T]``.

d = log π − log π_ref at the sampled token. The expectation of each estimator over tokens sampled from π, and
the policy whose KL its *gradient* follows when it is used as a loss, are two different things and are both stated
(arXiv 2510.01555). Used in the reward, any estimator is only a number and the policy gradient does the rest.
"""

from __future__ import annotations

from torch import zeros_like

from rlexp.types import PerToken


def none(log_probs: PerToken, ref_log_probs: PerToken) -> PerToken:
    """No penalty: zero everywhere."""
    return zeros_like(log_probs)


def k1(log_probs: PerToken, ref_log_probs: PerToken) -> PerToken:
    """k1 = d. Value: KL(π‖π_ref), unbiased. Gradient as a loss, on-policy: exactly zero in expectation.

    Source: Schulman, "Approximating KL divergence" (2020). OpenRLHF and slime default; TRL ``RLOOTrainer`` puts it
    in the reward, where its policy gradient is that of KL(π‖π_ref).
    """
    return log_probs - ref_log_probs


def k2(log_probs: PerToken, ref_log_probs: PerToken) -> PerToken:
    """k2 = d² / 2. Value: biased. Gradient as a loss, on-policy: that of KL(π‖π_ref), exactly.

    Source: Schulman (2020). verl ``mse``/``k2``, OpenRLHF ``k2``; REINFORCE++ (arXiv 2501.03262) uses it in the loss.
    """
    return (log_probs - ref_log_probs).square() / 2


def k3(log_probs: PerToken, ref_log_probs: PerToken) -> PerToken:
    """k3 = exp(−d) − 1 + d ≥ 0. Value: KL(π‖π_ref), unbiased. Gradient as a loss, on-policy: that of KL(π_ref‖π).

    Source: Schulman (2020); GRPO (arXiv 2402.03300, eq. 4). TRL GRPO, verl ``low_var_kl`` (which clamps it to ±10),
    open-instruct's default.
    """
    difference = log_probs - ref_log_probs
    return (-difference).exp() - 1 + difference


FUNCTIONS = {"none": none, "k1": k1, "k2": k2, "k3": k3}
