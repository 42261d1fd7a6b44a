"""Where a language model starts: the group ``start`` on tasks of text, in the words and the sense of loop/start.py.

A start is a function of a seed, the task, the model and the start's settings: temperature, learning rate and the other
choices of a run do not enter. Unlike there, what was reached is returned, and a check that clearly fails is not brought
to its end: samples of a language model cost more than the updates between two checks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlexp.core.exits import RunFailed
from rlexp.core.streams import Purpose, generator
from rlexp.language.generation import Prompt, forked, padded, sample, stream_seed, tokenize
from rlexp.language.text_task import Example, TextTask

LOG = logging.getLogger(__name__)
MAX_GRAD_NORM = 1.0
IGNORED = -100  # label of a token that is not learned
LOOKED_AT = 64  # examples from which it is told whether a task has answers at all
FIRST_LOOK = 128  # samples after which a check may be given up; then twice as many, and so on
AT_ONCE, FOR_GOOD = 0.5, 0.25  # by what part of what the accuracy is off the share of right answers is changed
SLOWER, SLOWEST = 0.7, 0.1  # parts of the learning rate that are left after a check, and after all of them
CLEAR = 2.0  # standard errors by which it must fail to be given up


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


class Reached(NamedTuple):
    """How a warm-up ended: shares of samples that are right, and that are the right or the wrong answer of the task.

    None where nothing was sampled.
    """

    accuracy: float | None
    formed: float | None
    updates: int


class Check(NamedTuple):
    """Shares of samples that are right and well-formed, and whether all that were asked for were taken."""

    right: float
    formed: float
    samples: int
    whole: bool


def random(learner: Learner) -> Reached:
    """Keep the weights as they are: random ones, or those of a pretrained model."""
    return Reached(None, None, 0)


def train(
    learner: Learner,
    *,
    accuracy: float,
    lr: float,
    prompts: int,
    every: int,
    checked: int,
    updates: int,
    tolerance: float | None = None,
    formed: float = 0.0,
) -> Reached:
    """Adam on −log π of the task's solutions, mean over tokens, until samples are right as often as ``accuracy``.

    Samples are taken at temperature 1, one for each of ``checked`` held-out prompts, every ``every`` updates.

    With a ``tolerance`` (``start=mixture``) right and wrong solutions are learned from, in a share that ends so close
    to ``accuracy``: at the first check at which so many samples are right and at least ``formed`` of them are the right
    or the wrong solution. Until they are so many, accuracy / ``formed`` of the answers are right. From then on the
    share is steered by what the accuracy is off, as the wrong solution can be harder to learn than the right one, and
    the learning rate falls from check to check: a constant one lets the accuracy wander by ten times the tolerance.

    RunFailed, in one line, where that is not reached.
    """
    mixed = tolerance is not None
    check_answers(learner, mixed)

    def off(check: Check) -> float:
        return abs(check.right - accuracy) if mixed else accuracy - check.right

    def fails(check: Check) -> bool:
        too_far = off(check) - margin(check.right, check.samples) > (tolerance or 0.0)
        return too_far or check.formed + margin(check.formed, check.samples) < formed

    model, share, middle, speed = learner.model, 1.0, 1.0, 1.0
    adam = torch.optim.Adam(model.parameters(), lr=lr)
    examples = learner.task.examples(learner.seed, Purpose.START_CHECKS, 0, checked, held_out=True)
    with forked(model.device, stream_seed(learner.seed, Purpose.START_MIXTURE)):  # of dropout, where a model has it
        for update in range(updates + 1):
            if update % every == 0:
                check = check_accuracy(learner, examples, update, fails)
                shown = check.samples, check.right, check.formed
                LOG.info("update %d: of %d samples %.3f are right, %.3f well-formed", update, *shown)
                if check.whole and off(check) <= (tolerance or 0.0) and check.formed >= formed:
                    return Reached(check.right, check.formed, update)
                if mixed and check.formed < formed:
                    share, middle, speed = min(accuracy / formed, 1.0), accuracy, 1.0
                elif mixed:
                    middle += FOR_GOOD * (accuracy - check.right)
                    share = min(max(middle + AT_ONCE * (accuracy - check.right), 0.0), 1.0)
                    speed = max(speed * SLOWER, SLOWEST)
                adam.param_groups[0]["lr"] = lr * speed
            if update < updates and (pairs := demonstrations(learner, update, prompts, share)):
                model.train()
                model(**learned_batch(learner, pairs)).loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
                adam.step()
                adam.zero_grad()
                model.eval()
    wanted = f"{accuracy:g} ± {tolerance:g}" if mixed else f"{accuracy:g}"
    raise RunFailed(
        f"start: sampled accuracy {check.right:.3f} after {updates} updates, wanted {wanted}; "
        f"take more start.updates, another start.lr or a lower start.{'formed' if mixed else 'accuracy'}"
    )


STARTS = {"random": random, "sft": train, "mixture": train}


def check_answers(learner: Learner, mixed: bool) -> None:
    """RunFailed where nothing can be learned from the answers to the task: none are known, or none is short enough."""
    task = learner.task
    examples = task.examples(learner.seed, Purpose.START_PROMPTS, 0, LOOKED_AT, held_out=False)
    kinds = [("right", task.solution, "start=random"), ("wrong", task.wrong_solution, "start=sft")]
    for kind, solve, other in kinds if mixed else kinds[:1]:
        answers = [answer for example in examples if (answer := solve(example)) is not None]
        if not answers:
            raise RunFailed(f"start: the task knows no {kind} answers to learn from; take {other}")
        shortest = min(map(len, answer_ids(learner.tokenizer, answers)))
        if shortest > learner.length:
            limit = f"backend.max_completion_length={learner.length}"
            raise RunFailed(f"{limit}: the shortest {kind} answer has {shortest} tokens")


def demonstrations(learner: Learner, update: int, prompts: int, share: float) -> list[tuple[Prompt, str]]:
    """Return prompts and their answers, a share of them right; examples whose answer is not known are left out.

    The number of right ones is the share of ``prompts``, rounded up or down by chance: with one decision for each the
    accuracy would wander by more than is asked for.
    """
    task = learner.task
    examples = task.examples(learner.seed, Purpose.START_PROMPTS, update, prompts, held_out=False)
    right = int(share * prompts + generator(learner.seed, Purpose.START_MIXTURE, update).random())
    answers = [*map(task.solution, examples[:right]), *map(task.wrong_solution, examples[right:])]
    pairs = zip(examples, answers, strict=True)
    return [(learner.ask(example.prompt), answer) for example, answer in pairs if answer is not None]


def learned_batch(learner: Learner, pairs: Sequence[tuple[Prompt, str]]) -> dict[str, Tensor]:
    """Return prompts and answers as a batch ``[P L]``, padded on the right; only answers and end tokens have labels."""
    prompts = tokenize(learner.tokenizer, [prompt for prompt, _ in pairs])
    answers = answer_ids(learner.tokenizer, [answer for _, answer in pairs])
    rows = list(zip(prompts, answers, strict=True))
    batch = {
        "input_ids": padded([[*prompt, *answer] for prompt, answer in rows], learner.tokenizer.pad_token_id, "right"),
        "attention_mask": padded([[1] * len(prompt + answer) for prompt, answer in rows], 0, "right"),
        "labels": padded([[IGNORED] * len(prompt) + answer for prompt, answer in rows], IGNORED, "right"),
    }
    return {name: values.to(learner.model.device) for name, values in batch.items()}


def answer_ids(tokenizer: Any, answers: Sequence[str]) -> list[list[int]]:
    ids = tokenizer(text=list(answers), add_special_tokens=False)["input_ids"]
    return [[*row, tokenizer.eos_token_id] for row in ids]


def check_accuracy(learner: Learner, examples: Sequence[Example], update: int, fails: Callable[[Check], bool]) -> Check:
    """Sample one completion for each example, 128 at first and then as many again, until the check clearly fails."""
    task, right, formed, done = learner.task, 0, 0, 0
    while True:
        part = examples[done : max(2 * done, FIRST_LOOK)]
        seed = stream_seed(learner.seed, Purpose.START_SAMPLING, update, done)
        wanted = dict(max_completion_length=learner.length, temperature=1.0, seed=seed)
        prompts = [learner.ask(example.prompt) for example in part]
        samples = [row for (row,) in sample(learner.model, learner.tokenizer, prompts, 1, **wanted)]
        scores = task.score(part, [row.text for row in samples], [row.finished for row in samples])
        for example, row, score in zip(part, samples, scores, strict=True):
            right += bool(score.correct)
            formed += bool(score.correct or (row.finished and row.text == task.wrong_solution(example)))
        done += len(part)
        check = Check(right / done, formed / done, done, done == len(examples))
        if check.whole or fails(check):
            return check


def margin(share: float, samples: int) -> float:
    """Return how far from a share of so many samples the true one clearly is not, with one success and failure more."""
    share = (share * samples + 1) / (samples + 2)
    return CLEAR * sqrt(share * (1 - share) / samples)
