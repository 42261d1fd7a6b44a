"""Right answers as the loss of ``imitation`` sees them: what the task shows, and what the policy says of it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from rlexp.loop.rollout import Rollout, loss_mask, right_answers
from rlexp.loop.state import Experience, TrainState


def shown(state: TrainState, rollout: Rollout) -> dict[str, Callable[[], Tensor]]:
    """Return how the answer to each prompt and the tokens of it that a loss sees are made; nothing where none looks."""
    if "answers" not in state.requested:
        return {}
    answers, mask = right_answers(state.task, rollout.prompts)
    of_loss = loss_mask(state.task, rollout.prompts, answers, mask)
    return {"answers": lambda: answers, "answer_mask": lambda: of_loss}


def read(state: TrainState, part: Experience) -> dict[str, Tensor]:
    """Return the policy's log-probabilities of the answers of a minibatch, with their gradient, and each run's μ."""
    if "answers" not in part.kept:
        return {}
    found = state.log_probs(state.policy, part.prompts, part.kept["answers"], state.temperature)
    progress = state.optimizer.progress
    mu = state.per_run(lambda variant: variant.imitation_mu(progress), state.temperature.dtype)
    return {"answer_log_probs": found.log_probs, "mu": mu}
