"""Losses against a teacher: ``distillation(log_probs, …) -> losses`` of every token, ``[*R P G T]``.

The teacher is what ``teacher`` says: the last policy of a run, the policy itself or its reference, which may see a hint
in the prompt that the student does not see. It reads the student's own completions, at the student's temperature.
Losses are aggregated by ``agg`` as policy losses are, and the loss of a run is (1 − weight) · policy loss + weight ·
this. A completion without a teacher, as no hint was there to show, is masked.

Divergences are from distributions over the vocabulary, S of the student and T of the teacher, at each token: their
gradients are exact at the states that were visited, and the sampling has none. What starts with ``sampled`` looks at
the token that was sampled alone.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from annotated_types import Gt, Le
from torch import Tensor, logsumexp, zeros_like

from rlexp.axes.offered import BOUND, LOSS
from rlexp.axes.ratio import bounded_exp
from rlexp.core.exact import sigmoid
from rlexp.core.facts import Facts
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import (
    AboveOne,
    FiniteNonNegative,
    PerReplica,
    PerToken,
    PerVocabulary,
    Positive,
    Probability,
    Size,
)

LARGEST_SUM = -1e-7  # of log-probabilities that leave something for the others
"""TRL ``add_tail_bucket``."""


@Facts(is_noop=True)
def none(log_probs: PerToken) -> PerToken:
    """No loss but that of the policy."""
    return zeros_like(log_probs)


def jsd(
    log_probs: PerToken,
    old_log_probs: PerToken,
    distributions: PerVocabulary,
    teacher_distributions: PerVocabulary,
    log_ratio_bound: PerReplica,
    *,
    alpha: Probability,
    top_k: Size | None,
    support: Literal["student", "teacher"],
    tail: bool,
    is_clip: AboveOne | None,
) -> PerToken:
    """(1 − α) KL(S‖M) + α KL(T‖M), M = (1 − α) S + α T: KL(T‖S) for α = 0, KL(S‖T) for α = 1.

    With ``top_k`` both are cut to the k most likely tokens of the student or of the teacher (``support``), and either
    made to sum to 1 or, with ``tail``, given one more token that is all others. ``is_clip`` weighs each token by
    min(π / π_old, is_clip), without a gradient.

    Source: GKD (arXiv 2306.13649, eq. 1, where β is α and α = 1/2 the Jensen–Shannon divergence); SDPO (arXiv
    2601.20802); TRL ``compute_divergence``, ``compute_topk_self_distillation_loss`` (the support is the student's) and
    ``GKDTrainer.generalized_jsd_loss``. TRL's ``IWOPDTrainer`` takes the teacher's tokens for α = 0, the student's for
    α = 1, both between.
    """
    student, teacher = distributions, teacher_distributions
    if top_k is not None and top_k < student.shape[-1]:
        chosen = (student if support == "student" else teacher).detach().topk(top_k, -1).indices
        student, teacher = (restricted(each.gather(-1, chosen), tail) for each in (student, teacher))
    if alpha == 0:
        losses = divergence(teacher, student)
    elif alpha == 1:
        losses = divergence(student, teacher)
    else:
        mixture = mixed(student, teacher, alpha)
        losses = (1 - alpha) * divergence(student, mixture) + alpha * divergence(teacher, mixture)
    return corrected(losses, log_probs, old_log_probs, log_ratio_bound, is_clip)


def jsd_clipped(
    distributions: PerVocabulary, teacher_distributions: PerVocabulary, *, alpha: Probability, largest: Positive
) -> PerToken:
    """``jsd`` of the whole vocabulary, of which each entry's part is at most ``largest``, where it has no gradient.

    Parts are T log(T / S) for α = 0 and S log(S / T) for α = 1, else (1 − α) S log(S / M) + α T log(T / M). Few tokens
    of style have most of the divergence. Parts below 0 have no bound, as in the source, so this is no divergence: away
    from the teacher it can be below 0. Source: OPSD (arXiv 2601.18734 from its third version on, point-wise KL
    clipping), siyan-zhao/OPSD ``token_clip``, of which ``jsd_token_clip`` is 0.05; 590ec26 has none yet.
    """
    student, teacher = distributions, teacher_distributions
    if alpha == 0:
        parts = teacher.exp() * (teacher - student)
    elif alpha == 1:
        parts = student.exp() * (student - teacher)
    else:
        mixture = mixed(student, teacher, alpha)
        parts = (1 - alpha) * student.exp() * (student - mixture) + alpha * teacher.exp() * (teacher - mixture)
    return parts.clamp(max=largest).sum(-1)


def sampled(
    log_probs: PerToken,
    old_log_probs: PerToken,
    teacher_log_probs: PerToken,
    log_ratio_bound: PerReplica,
    *,
    is_clip: AboveOne | None,
) -> PerToken:
    """(log S − log T of the sampled token, without a gradient) · log S: its gradient is that of KL(S‖T) on average.

    So it is over tokens of S. Source: TRL ``SDPOConfig.distillation_mode="sampled_token"``, its default, ``is_clip`` 2.
    """
    losses = (log_probs - teacher_log_probs).detach() * log_probs
    return corrected(losses, log_probs, old_log_probs, log_ratio_bound, is_clip)


def sampled_masked(
    log_probs: PerToken,
    old_log_probs: PerToken,
    teacher_log_probs: PerToken,
    log_ratio_bound: PerReplica,
    *,
    low: Annotated[float, Gt(0), Le(1)],
    kl_coef: FiniteNonNegative,
) -> PerToken:
    """−ρ (log T − log S, without a gradient) unless π < π_old − ``low``, and kl_coef · (log ρ)²; ρ = π / π_old.

    Source: prime-rl ``ref_kl_loss_fn``, of its algorithms ``opd`` and ``opsd``, where π_old is what sampled.
    """
    ratio = bounded_exp(log_probs - old_log_probs, log_ratio_bound)
    kept = log_probs.detach().exp() - old_log_probs.exp() >= -low
    policy = ratio * (log_probs - teacher_log_probs).detach()
    return policy.where(kept, 0.0) + kl_coef * (log_probs - old_log_probs).square()


def sampled_gated(log_probs: PerToken, teacher_log_probs: PerToken, *, beta: FiniteNonNegative) -> PerToken:
    """g · (log T − log S) of the sampled token, g = σ(beta · (log T − log S)) without a gradient.

    It raises log S of all tokens, by g: most of those that the teacher likes better than the student does. For beta 0
    it is half an imitation of what the student writes. Source: SDAR (arXiv 2605.15155), ZJU-REAL/SDAR 8b85c23
    ``compute_sdar_loss``, with beta 5 and 0.1 of it added to the policy loss.
    """
    gap = teacher_log_probs - log_probs
    return sigmoid(beta * gap.detach()) * gap


def mixed(student: Tensor, teacher: Tensor, alpha: float) -> Tensor:
    """Log-probabilities of (1 − α) S + α T."""
    weights = student.new_tensor([1 - alpha, alpha]).log()
    return logsumexp(torch.stack([student + weights[0], teacher + weights[1]]), 0)


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p‖q) of log-probabilities, ``[... V] -> [...]``."""
    return (p.exp() * (p - q)).sum(-1)


def restricted(log_probs: Tensor, tail: bool) -> Tensor:
    """Make log-probabilities of some tokens sum to 1: by one more token that is all others, or by their sum."""
    total = logsumexp(log_probs, -1, keepdim=True)
    if tail:
        return torch.cat([log_probs, (-torch.expm1(total.clamp(max=LARGEST_SUM))).log()], -1)
    return log_probs - total


def corrected(losses: Tensor, log_probs: Tensor, old_log_probs: Tensor, bound: Tensor, is_clip: float | None) -> Tensor:
    """Weigh losses by min(π / π_old, ``is_clip``), without a gradient; null weighs them all by 1."""
    if is_clip is None:
        return losses
    return losses * bounded_exp(log_probs - old_log_probs, bound).detach().clamp(max=is_clip)


FUNCTIONS = by_name(none, jsd, jsd_clipped, sampled, sampled_masked, sampled_gated)
INPUTS = LOSS | BOUND
INPUTS |= {
    "distributions": Offer(PerVocabulary, "log π of the whole vocabulary at each token; carries the gradient"),
    "teacher_distributions": Offer(PerVocabulary, "log π_teacher of the whole vocabulary at each token"),
    "teacher_log_probs": Offer(PerToken, "log π_teacher of the tokens, at the student's temperature"),
}
