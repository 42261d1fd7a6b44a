"""A trained policy as a teacher: ``teacher(advantages, ...) -> advantages`` of every token, ``[*R P G T]``.

Each token is rewarded by log π_teacher − log π_old, which asks for no verifier. Its expectation over tokens of π_old is
−KL(π_old‖π_teacher) at that state, and its policy gradient is that of −KL(π‖π_teacher): reverse KL, on the student's
own completions. It is added to what ``norm`` has made of the rewards and is not normalised itself; only the token that
earns it gets it (discount 0). The teacher's log-probabilities are at the student's temperature.

Source: MiniLLM (arXiv 2306.08543, eq. 2, its single-step part), on-policy distillation (GKD, arXiv 2306.13649, with
reverse KL and λ = 1); TRL's former ``MiniLLMTrainer``, slime ``use_opd``, ROLL ``is_pure_opd``, prime-rl ``opd``.
"""

from __future__ import annotations

from rlexp.axes.offered import ADVANTAGES, SAMPLED, SHAPED
from rlexp.core.facts import Facts
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import PerToken, Positive


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

    Source: MiniLLM (arXiv 2306.08543), on-policy distillation; ROLL ``is_pure_opd``, prime-rl ``opd``.
    """
    return coef * (teacher_log_probs - old_log_probs)


FUNCTIONS = by_name(none, added, alone)
INPUTS = SAMPLED | SHAPED | ADVANTAGES
INPUTS |= {"teacher_log_probs": Offer(PerToken, "log π_teacher of the tokens, at the student's temperature")}
