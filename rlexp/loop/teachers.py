"""Teachers: what those that see a hint are shown, what they say of a rollout, and how well they answer themselves."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rlexp.core.blocks import Masked
from rlexp.core.masked import per_token
from rlexp.core.types import CompletionMask, Prompts
from rlexp.loop.networks import distributions_of, log_probs_of, of_replicas
from rlexp.loop.rewards import score_with
from rlexp.loop.rollout import Rollout, most_likely, sample
from rlexp.loop.state import TrainState
from rlexp.loop.variant import Variant
from rlexp.models.policy import Policy
from rlexp.tasks import Task

ASKED = {"teacher_log_probs", "teacher_distributions"}


def teaching(state: TrainState, rollout: Rollout, correct: CompletionMask) -> dict[str, Callable[[], Tensor]]:
    """Return how what teachers say is made, by name; nothing where no run has one.

    ``taught`` are the completions that have a teacher: where none has a hint to show, its ``teacher_log_probs`` are
    those of the policy that sampled.
    """
    asked = ASKED & state.requested
    if not asked:
        return {}
    ways = {variant.taught_by: None for variant, _ in state.blocks if asked & variant.requested}
    shown = {hint: shown_prompts(state.task, rollout, correct, hint) for _, hint in ways}

    def read(name: str, function: Callable[[Policy, Rollout, Tensor], Tensor]) -> Tensor | None:
        result = None
        for network, hint in ways:
            runs = state.per_run(lambda v, way=(network, hint): name in v.requested and v.taught_by == way)
            prompts, _ = shown[hint]
            result = of_replicas(
                state, runs.nonzero().squeeze(-1), network, rollout._replace(prompts=prompts), function, result
            )
        return result

    def taught() -> Tensor:
        there = torch.zeros_like(correct)
        for way in ways:
            runs = state.per_run(lambda v, way=way: bool(asked & v.requested) and v.taught_by == way)
            there |= runs[:, None, None] & shown[way[1]][1]
        return there

    return {
        "taught": taught,
        "teacher_log_probs": lambda: read("teacher_log_probs", log_probs_of).where(
            per_token(taught(), rollout.mask), rollout.old_log_probs
        ),
        "teacher_distributions": lambda: read("teacher_distributions", distributions_of),
    }


def shown_prompts(
    task: Task, rollout: Rollout, correct: CompletionMask, hint: str | None
) -> tuple[Tensor, CompletionMask]:
    """Return the prompts as a teacher sees them, and for which completions there is something to show.

    Prompts are ``[R P L]``, or ``[R P G L]`` where each completion has its own. Source of ``success``: SDPO (arXiv
    2601.20802), TRL ``SDPOConfig.dont_reprompt_on_self_success``: never the completion itself.
    """
    prompts, completions, mask = rollout.prompts, rollout.completions, rollout.mask
    if hint is None:
        return prompts, torch.ones_like(correct)
    if hint == "answer":
        answers, there = task.oracle(prompts)
        return task.hinted(prompts, answers, there), there.any(-1, keepdim=True).expand(correct.shape)
    alone = torch.eye(correct.shape[-1], dtype=torch.bool, device=correct.device)
    others = correct.unsqueeze(-2) & ~alone
    first = others.to(torch.int8).argmax(-1, keepdim=True).expand(completions.shape)
    there, shown = others.any(-1), mask.gather(2, first)
    prompts = prompts.unsqueeze(2).expand(*correct.shape, -1)
    hinted = task.hinted(prompts, completions.gather(2, first), shown & there.unsqueeze(-1))
    return hinted, there


@torch.no_grad()
def hinted_accuracy(state: TrainState, questions: Prompts) -> dict[str, Masked]:
    """Return how often the most likely completions of teachers are right that see the task's answer in the prompt.

    Of runs whose teacher has a hint, whichever it is in training; nothing where none has.
    """
    if not any(is_hinted(variant) for variant, _ in state.blocks):
        return {}
    nothing = torch.zeros(*questions.shape[:2], 1, state.task.cap, device=questions.device)
    asked = Rollout(questions, nothing.long(), nothing, nothing > 0, nothing[..., 0] > 0, nothing)

    def right(policy: Policy, part: Rollout, temperature: Tensor) -> Tensor:
        shown = state.task.hinted(part.prompts, *state.task.oracle(part.prompts))
        answered = sample(policy, state.task, shown, part.old_log_probs, temperature, most_likely)
        return score_with(state.task, answered._replace(prompts=part.prompts)).correct.squeeze(-1).to(temperature.dtype)

    found = None
    for network in {variant.taught_by[0]: None for variant, _ in state.blocks if is_hinted(variant)}:
        runs = state.per_run(lambda v, name=network: is_hinted(v) and v.taught_by[0] == name)
        found = of_replicas(state, runs.nonzero().squeeze(-1), network, asked, right, found)
    return {"eval/hinted_accuracy": Masked(found.mean(-1), state.per_run(is_hinted))}


def is_hinted(variant: Variant) -> bool:
    """Whether a variant asks a teacher that sees a hint."""
    return variant.taught_by[1] is not None and bool(ASKED & variant.requested)
