"""A policy as a teacher: ``teacher(advantages, ...) -> advantages`` of every token, ``[*R P G T]``.

The teacher is the last policy of a run, or the policy itself, or its reference; it may see a hint that the student does
not see: a right answer, or a completion of the group that was right. With a loss of its own see ``distillation``.

In ``added``, ``alone`` and ``importance_weighted`` each token is rewarded by log π_teacher − log π_old, which needs no
verifier. Its expectation over tokens of π_old is −KL(π_old‖π_teacher) at that state, and its policy gradient is that of
−KL(π‖π_teacher): reverse KL, on the student's own completions. It is added to what ``norm`` has made of the rewards and
is not normalised itself; only the token that earns it gets it (discount 0). The teacher's log-probabilities are at the
student's temperature; where there was no hint to show they are those of the policy that sampled: nothing is added.

Source: MiniLLM (arXiv 2306.08543, eq. 2, its single-step part), on-policy distillation (GKD, arXiv 2306.13649, with
reverse KL and λ = 1); TRL's former ``MiniLLMTrainer``, slime ``use_opd``, ROLL ``is_pure_opd``, NeMo-RL
``OPDAdvantageEstimator``.
"""

from __future__ import annotations

from rlexp.axes.offered import ADVANTAGES, SAMPLED, SHAPED
from rlexp.core.facts import Facts
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import Decay, FiniteNonNegative, PerToken, Positive, Probability, TokenMask


@Facts(is_noop=True)
def none(advantages: PerToken) -> PerToken:
    """No teacher."""
    return advantages


def added(advantages: PerToken, old_log_probs: PerToken, teacher_log_probs: PerToken, *, coef: Positive) -> PerToken:
    """A + coef · (log π_teacher − log π_old): the task's rewards and the teacher.

    Source: slime ``use_opd``, ROLL ``use_opd``.
    """
    return advantages + coef * (teacher_log_probs - old_log_probs)


def alone(old_log_probs: PerToken, teacher_log_probs: PerToken, *, coef: Positive) -> PerToken:
    """coef · (log π_teacher − log π_old): the teacher in place of the task's rewards.

    Source: MiniLLM (arXiv 2306.08543), on-policy distillation; ROLL ``is_pure_opd``, NeMo-RL ``OPDAdvantageEstimator``.
    """
    return coef * (teacher_log_probs - old_log_probs)


def importance_weighted(
    old_log_probs: PerToken,
    teacher_log_probs: PerToken,
    mask: TokenMask,
    *,
    coef: Positive,
    gamma: FiniteNonNegative,
    eps: Positive,
) -> PerToken:
    """coef · w_t a_t, a = log π_teacher − log π_old, w_t = 1 + γ (1 − Σ_{s<t} |a_s| / Σ_s |a_s|): early tokens more.

    Source: importance-weighted on-policy distillation (arXiv 2606.22600, not read); TRL
    ``IWOPDTrainer._compute_iw_opd_loss``, ``iw_opd_gamma`` 0.5, ``iw_opd_epsilon`` 1e-8.
    """
    signal = (teacher_log_probs - old_log_probs).where(mask, 0.0)
    sizes = signal.abs()
    before = sizes.cumsum(-1) - sizes
    return coef * signal * (1 + gamma * (1 - before / sizes.sum(-1, keepdim=True).clamp(min=eps)))


def rlsd(
    advantages: PerToken, old_log_probs: PerToken, teacher_log_probs: PerToken, *, share: Probability, eps: Decay
) -> PerToken:
    """A ((1 − share) + share · clip(w, 1 ± eps)), w = (π_teacher / π_old)^sign(A): the teacher weighs, rewards decide.

    Source: RLSD (arXiv 2604.03128, not read); ms-swift ``swift/rl_core/advantage.py``, share (λ) 0.5, eps 0.2.
    """
    weights = (advantages.sign() * (teacher_log_probs - old_log_probs)).exp().clamp(1 - eps, 1 + eps)
    return advantages * (1 - share + share * weights)


FUNCTIONS = by_name(none, added, alone, importance_weighted, rlsd)
INPUTS = SAMPLED | SHAPED | ADVANTAGES
INPUTS |= {"teacher_log_probs": Offer(PerToken, "log π_teacher of the tokens, at the student's temperature")}
