"""What a language model learns from in its warm-up: right and wrong answers to prompts of a task, token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlexp.core.streams import Purpose, generator
from rlexp.language.generation import Prompt, tokenize
from rlexp.language.text_task import TextTask

STEEPEST = 1.0  # norm to which a gradient is clipped
IGNORED = -100  # label of a token that is not learned
LOOKED_AT = 64  # examples from which it is told whether a task has answers at all


@dataclass(frozen=True, kw_only=True)
class Learner:
    """A model, its tokenizer and what they are to learn; ``ask`` makes prompts of ``task`` those of the model.

    ``length`` are the most tokens of a completion, the end token included.
    """

    model: Any
    tokenizer: Any
    task: TextTask
    seed: int
    length: int
    ask: Callable[[str], Prompt]


def solvers(learner: Learner) -> dict[str, Callable]:
    """Return what answers an example of the task, right and wrong."""
    return {"right": learner.task.solution, "wrong": learner.task.wrong_solution}


def obstacle(learner: Learner, kinds: Sequence[str]) -> str:
    """Say why nothing can be learned from such answers to the task: none are known, or none is short enough."""
    examples = learner.task.examples(learner.seed, Purpose.START_PROMPTS, 0, LOOKED_AT, held_out=False)
    for kind in kinds:
        answers = [answer for example in examples if (answer := solvers(learner)[kind](example)) is not None]
        if not answers:
            other = "start=random" if kind == "right" else "start=sft"
            return f"start: the task knows no {kind} answers to learn from; take {other}"
        shortest = min(map(len, answer_ids(learner.tokenizer, answers)))
        if shortest > learner.length:
            return f"backend.max_completion_length={learner.length}: the shortest {kind} answer has {shortest} tokens"
    return ""


def lesson(learner: Learner, update: int, prompts: int, share: float) -> list[tuple[Prompt, str]]:
    """Return prompts and their answers, a share of them right; examples whose answer is not known are left out.

    The number of right ones is the share of ``prompts``, rounded up or down by chance: with one decision for each the
    accuracy would wander by more than is asked for.
    """
    examples = learner.task.examples(learner.seed, Purpose.START_PROMPTS, update, prompts, held_out=False)
    right = int(share * prompts + generator(learner.seed, Purpose.START_MIXTURE, update).random())
    both = solvers(learner)
    solve = [both["right"]] * right + [both["wrong"]] * (prompts - right)
    answered = [(example.prompt, answer(example)) for example, answer in zip(examples, solve, strict=True)]
    return [(learner.ask(prompt), answer) for prompt, answer in answered if answer is not None]


def imitate(learner: Learner, pairs: Sequence[tuple[Prompt, str]], adam: torch.optim.Optimizer) -> None:
    """Make one update towards answers: −log π, mean over their tokens, the end token included."""
    if not pairs:
        return
    learner.model.train()
    learner.model(**learned_batch(learner, pairs)).loss.backward()
    torch.nn.utils.clip_grad_norm_(learner.model.parameters(), STEEPEST)
    adam.step()
    adam.zero_grad()
    learner.model.eval()


def learned_batch(learner: Learner, pairs: Sequence[tuple[Prompt, str]]) -> dict[str, Tensor]:
    """Return prompts and answers as a batch ``[P L]``, padded on the right; only answers and end tokens have labels."""
    tokenizer, device = learner.tokenizer, next(learner.model.parameters()).device
    prompts = tokenize(tokenizer, [prompt for prompt, _ in pairs])
    rows = list(zip(prompts, answer_ids(tokenizer, [answer for _, answer in pairs]), strict=True))
    width = max(len(prompt) + len(answer) for prompt, answer in rows)

    def padded(row: list[int], filler: int) -> list[int]:
        return row + [filler] * (width - len(row))

    batch = {
        "input_ids": [padded(prompt + answer, tokenizer.pad_token_id) for prompt, answer in rows],
        "attention_mask": [padded([1] * len(prompt + answer), 0) for prompt, answer in rows],
        "labels": [padded([IGNORED] * len(prompt) + answer, IGNORED) for prompt, answer in rows],
    }
    return {name: torch.tensor(values, device=device) for name, values in batch.items()}


def answer_ids(tokenizer: Any, answers: Sequence[str]) -> list[list[int]]:
    """Return the tokens of answers, each with the end token."""
    return [
        [*ids, tokenizer.eos_token_id] for ids in tokenizer(text=list(answers), add_special_tokens=False)["input_ids"]
    ]
