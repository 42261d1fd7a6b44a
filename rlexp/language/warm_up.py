"""Where a language model starts: the group ``start`` on tasks of text, in the words and the sense of loop/start.py.

A start is a function of a seed, the task, the model and the start's settings: temperature, learning rate and the other
choices of a run do not enter. Unlike there, what was reached is returned, and a check that clearly fails is not brought
to its end: samples of a language model cost more than the updates between two checks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Annotated, NamedTuple

import torch
from annotated_types import Ge, Gt, Le

from rlexp.core.streams import Purpose
from rlexp.core.types import Positive, PositiveInt, Size
from rlexp.language.generation import forked, sample, stream_seed
from rlexp.language.lessons import Learner, imitate, lesson, obstacle
from rlexp.language.text_task import Example

LOG = logging.getLogger(__name__)
Share, Part = Annotated[float, Gt(0), Le(1)], Annotated[float, Ge(0), Le(1)]
FIRST_LOOK = 128  # samples after which a check may be given up; then twice as many, and so on
AT_ONCE, FOR_GOOD = 0.5, 0.25  # by what part of what the accuracy is off the share of right answers is changed
SLOWER, SLOWEST = 0.7, 0.1  # parts of the learning rate that are left after a check, and after all of them
CLEAR = 2.0  # standard errors by which it must fail to be given up


class Reached(NamedTuple):
    """How a warm-up ended: shares of samples that are right, and that are the right or the wrong answer of the task.

    None where nothing was sampled. ``problem`` is a line about a start that was not reached, empty for one that was.
    """

    accuracy: float | None
    formed: float | None
    updates: int
    problem: str = ""


class Check(NamedTuple):
    """Shares of samples that are right and well-formed, and whether all that were asked for were taken."""

    right: float
    formed: float
    samples: int
    whole: bool

    @property
    def shown(self) -> tuple[int, float, float]:
        """What is said of it."""
        return self.samples, self.right, self.formed


class Course(NamedTuple):
    """The share of right answers until the next check, the share it is steered around, and the part of the rate."""

    share: float
    middle: float
    speed: float


class Rules(NamedTuple):
    """What a check means for the training: give it up, end here, go on in another course than the last."""

    fails: Callable[[Check], bool]
    arrives: Callable[[Check], bool]
    steer: Callable[[Check, Course], Course]


def random(learner: Learner) -> Reached:
    """Keep the weights as they are: random ones, or those of a pretrained model."""
    return Reached(None, None, 0)


def sft(
    learner: Learner,
    *,
    accuracy: Share,
    lr: Positive,
    prompts: Size,
    every: PositiveInt,
    checked: Size,
    updates: PositiveInt,
) -> Reached:
    """Adam on −log π of the task's solutions, mean over tokens, until samples are right as often as ``accuracy``.

    They are taken at temperature 1, one for each of ``checked`` held-out prompts, every ``every`` updates.
    """

    if problem := obstacle(learner, ["right"]):
        return Reached(None, None, 0, problem)

    def fails(check: Check) -> bool:
        return check.right + margin(check.right, check.samples) < accuracy

    rules = Rules(fails, lambda check: check.right >= accuracy, lambda check, before: Course(1.0, 1.0, 1.0))
    check, update, arrived = train(learner, lr, prompts, every, checked, updates, rules)
    return reached(check, update, arrived, f"wanted {accuracy:g}", "a lower start.accuracy")


def mixture(
    learner: Learner,
    *,
    accuracy: Part,
    tolerance: Positive,
    formed: Part,
    lr: Positive,
    prompts: Size,
    every: PositiveInt,
    checked: Size,
    updates: PositiveInt,
) -> Reached:
    """``sft`` on right and on wrong solutions, in a share that ends within ``tolerance`` of ``accuracy``.

    It ends at the first check at which so many samples are right and at least ``formed`` of them are the right or the
    wrong solution. Until they are so many, accuracy / ``formed`` of the answers are right. From then on the share is
    steered by what the accuracy is off, as the wrong solution can be harder to learn than the right one, and the
    learning rate falls from check to check: a constant one lets the accuracy wander by ten times the tolerance.
    """

    if problem := obstacle(learner, ["right", "wrong"]):
        return Reached(None, None, 0, problem)

    def fails(check: Check) -> bool:
        off = abs(check.right - accuracy) - margin(check.right, check.samples)
        return off > tolerance or check.formed + margin(check.formed, check.samples) < formed

    def arrives(check: Check) -> bool:
        return abs(check.right - accuracy) <= tolerance and check.formed >= formed

    def steer(check: Check, before: Course) -> Course:
        if check.formed < formed:
            return Course(min(accuracy / formed, 1.0), accuracy, 1.0)
        off = accuracy - check.right
        middle = before.middle + FOR_GOOD * off
        share = min(max(middle + AT_ONCE * off, 0.0), 1.0)
        return Course(share, middle, max(before.speed * SLOWER, SLOWEST))

    check, update, arrived = train(learner, lr, prompts, every, checked, updates, Rules(fails, arrives, steer))
    return reached(check, update, arrived, f"wanted {accuracy:g} ± {tolerance:g}", "a lower start.formed")


def train(
    learner: Learner, lr: float, prompts: int, every: int, checked: int, updates: int, rules: Rules
) -> tuple[Check, int, bool]:
    """Train until a whole check ``arrives``; return the last check, the updates, and whether it did."""
    adam = torch.optim.Adam(learner.model.parameters(), lr=lr)
    device, course = next(learner.model.parameters()).device, Course(1.0, 1.0, 1.0)
    examples = learner.task.examples(learner.seed, Purpose.START_CHECKS, 0, checked, held_out=True)
    with forked(device, stream_seed(learner.seed, Purpose.START_MIXTURE)):  # of dropout, where a model has it
        for update in range(updates + 1):
            if update % every == 0:
                check = looked_at(learner, examples, update, rules.fails)
                LOG.info("update %d: of %d samples %.3f are right, %.3f well-formed", update, *check.shown)
                if check.whole and rules.arrives(check):
                    return check, update, True
                course = rules.steer(check, course)
                adam.param_groups[0]["lr"] = lr * course.speed
            if update < updates:
                imitate(learner, lesson(learner, update, prompts, course.share), adam)
    return check, updates, False


def reached(check: Check, updates: int, arrived: bool, wanted: str, other: str) -> Reached:
    """Put the end of a warm-up into words where it is not what was wanted."""
    problem = (
        f"start: sampled accuracy {check.right:.3f} after {updates} updates, {wanted}; "
        f"take more start.updates, another start.lr or {other}"
    )
    return Reached(check.right, check.formed, updates, "" if arrived else problem)


def margin(share: float, samples: int) -> float:
    """Return how far from a share of so many samples the true one clearly is not, with one success and failure more."""
    share = (share * samples + 1) / (samples + 2)
    return CLEAR * sqrt(share * (1 - share) / samples)


def looked_at(learner: Learner, examples: Sequence[Example], at: int, fails: Callable[[Check], bool]) -> Check:
    """Sample one completion for each example, 128 at first and then as many again, until the check clearly fails."""
    right = formed = done = 0
    while True:
        part = examples[done : max(2 * done, FIRST_LOOK)]
        for correct, known in verdicts(learner, part, stream_seed(learner.seed, Purpose.START_SAMPLING, at, done)):
            right, formed = right + correct, formed + known
        done += len(part)
        check = Check(right / done, formed / done, done, done == len(examples))
        if check.whole or fails(check):
            return check


def verdicts(learner: Learner, examples: Sequence[Example], seed: int) -> list[tuple[bool, bool]]:
    """Sample one completion for each example at temperature 1; say of each if it is right, and if it is well-formed."""
    prompts, task = [learner.ask(example.prompt) for example in examples], learner.task
    wanted = dict(max_completion_length=learner.length, temperature=1.0, seed=seed)
    samples = [row for (row,) in sample(learner.model, learner.tokenizer, prompts, 1, **wanted)]
    texts, finished = [row.text for row in samples], [row.finished for row in samples]
    correct = [bool(verdict.correct) for verdict in task.judge(examples, texts, finished)]
    rows = zip(examples, texts, finished, correct, strict=True)
    return [(right, right or (done and text == task.wrong_solution(example))) for example, text, done, right in rows]


STARTS = {"random": random, "sft": sft, "mixture": mixture}
