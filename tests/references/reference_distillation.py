"""Teachers and losses against them, one token at a time: numbers of one replica, distributions ``[P G T V]``."""

from __future__ import annotations

import math

import numpy as np
from reference_clip import ratio_of


def added(advantages, old_log_probs, teacher_log_probs, *, coef):
    """slime ``use_opd``: advantages − coef · (log π − log π_teacher)."""
    return advantages - coef * (old_log_probs - teacher_log_probs)


def alone(old_log_probs, teacher_log_probs, *, coef):
    return -coef * (old_log_probs - teacher_log_probs)


def importance_weighted(old_log_probs, teacher_log_probs, mask, *, coef, gamma, eps):
    """TRL ``IWOPDTrainer._compute_iw_opd_loss``: ``weights * a_opd``, the prefix without the token itself."""
    found = np.zeros(old_log_probs.shape)
    for completion in np.ndindex(*old_log_probs.shape[:-1]):
        places = [t for t in range(old_log_probs.shape[-1]) if mask[completion][t]]
        signal = {t: teacher_log_probs[completion][t] - old_log_probs[completion][t] for t in places}
        total, before = max(sum(abs(each) for each in signal.values()), eps), 0.0
        for t in places:
            found[completion][t] = coef * (1 + gamma * (1 - before / total)) * signal[t]
            before += abs(signal[t])
    return found


def rlsd(advantages, old_log_probs, teacher_log_probs, *, share, eps):
    """The teacher's probability over the student's where A > 0, the other way round where A < 0, clipped."""
    found = np.zeros(advantages.shape)
    for at in np.ndindex(*advantages.shape):
        ratio = math.exp(teacher_log_probs[at]) / math.exp(old_log_probs[at])
        weight = {1.0: ratio, -1.0: 1 / ratio, 0.0: 1.0}[float(np.sign(advantages[at]))]
        found[at] = (1 - share) * advantages[at] + share * min(max(weight, 1 - eps), 1 + eps) * advantages[at]
    return found


TEACHER = {
    "none": lambda advantages: advantages,
    "added": added,
    "alone": alone,
    "importance_weighted": importance_weighted,
    "rlsd": rlsd,
}


def weight_of(p, q, bound, is_clip):
    return 1.0 if is_clip is None else min(ratio_of(p - q, bound), is_clip)


def divergence(p, q):
    """Σ p log(p / q) of lists of probabilities."""
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def cut(student, teacher, top_k, support, tail):
    """Return the probabilities of the k likeliest tokens of ``support``, and the rest if it is asked for."""
    by = student if support == "student" else teacher
    chosen = sorted(range(len(by)), key=lambda v: -by[v])[:top_k]
    cuts = []
    for each in (student, teacher):
        kept = [each[v] for v in chosen]
        cuts.append([*kept, 1 - sum(kept)] if tail else [a / sum(kept) for a in kept])
    return cuts


def divergence_of(student, teacher, alpha, top_k, support, tail):
    student, teacher = [math.exp(s) for s in student], [math.exp(t) for t in teacher]
    if top_k is not None and top_k < len(student):
        student, teacher = cut(student, teacher, top_k, support, tail)
    if alpha in (0, 1):
        return divergence(teacher, student) if alpha == 0 else divergence(student, teacher)
    mixture = [(1 - alpha) * s + alpha * t for s, t in zip(student, teacher, strict=True)]
    return (1 - alpha) * divergence(student, mixture) + alpha * divergence(teacher, mixture)


def jsd(p, q, student, teacher, bound, *, alpha, top_k, support, tail, is_clip):
    """TRL ``compute_topk_self_distillation_loss`` and ``apply_importance_sampling_clipping``."""
    found = np.zeros(p.shape)
    for at in np.ndindex(*p.shape):
        value = divergence_of(student[at], teacher[at], alpha, top_k, support, tail)
        found[at] = weight_of(p[at], q[at], bound, is_clip) * value
    return found


def jsd_clipped(student, teacher, *, alpha, largest):
    """OPSD ``generalized_jsd_loss`` with ``token_clip``: ``jsd.clamp(max=token_clip)`` before the sum."""
    found = np.zeros(student.shape[:-1])
    for at in np.ndindex(*found.shape):
        found[at] = clipped_of(student[at], teacher[at], alpha, largest)
    return found


def clipped_of(student, teacher, alpha, largest):
    total = 0.0
    for s, t in zip(student, teacher, strict=True):
        s, t = math.exp(s), math.exp(t)
        m = (1 - alpha) * s + alpha * t  # is the other one where alpha is 0 or 1
        parts = {0: t * math.log(t / m), 1: s * math.log(s / m)}
        total += min(parts.get(alpha, (1 - alpha) * s * math.log(s / m) + alpha * t * math.log(t / m)), largest)
    return total


def sampled_gated(p, taught, *, beta):
    """SDAR ``compute_sdar_loss``."""
    return (taught - p) / (1 + np.exp(-beta * (taught - p)))


def sampled(p, q, taught, bound, *, is_clip):
    """TRL ``compute_sampled_token_self_distillation_loss``."""
    weights = np.vectorize(lambda a, b: weight_of(a, b, bound, is_clip))(p, q)
    return weights * (p - taught) * p


def sampled_masked(p, q, taught, bound, *, low, kl_coef):
    """prime-rl ``ref_kl_loss_fn``: ``-keep_mask * ref_kl * importance_ratio + 1e-3 * log_importance_ratio**2``."""
    found = np.zeros(p.shape)
    for at in np.ndindex(*p.shape):
        kept = math.exp(p[at]) - math.exp(q[at]) >= -low
        found[at] = -kept * (taught[at] - p[at]) * ratio_of(p[at] - q[at], bound) + kl_coef * (p[at] - q[at]) ** 2
    return found


DISTILLATION = {
    "none": lambda log_probs: np.zeros(log_probs.shape),
    "jsd": jsd,
    "jsd_clipped": jsd_clipped,
    "sampled_gated": sampled_gated,
    "sampled": sampled,
    "sampled_masked": sampled_masked,
}
