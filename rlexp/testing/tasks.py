"""What every task is: prompts of tokens, a verifier that judges each completion alone, an oracle that is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from rlexp.tasks import Scores, Task, total_reward

R, P, G = 2, 12, 8
BELOW_ONE = 1 - 2**-24  # the largest draw that float32 has
ROUNDING = 1e-6  # of a sum of a few float32 components

Answered = tuple[Tensor, Tensor, Tensor, Tensor]


def prompts_of(task: Task) -> Tensor:
    """Return prompts ``[R, P, L]``."""
    uniforms = torch.rand(R, P, task.draws, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return task.prompts(uniforms.float(), False)


def answered(task: Task) -> Answered:
    """Return prompts, and completions of random tokens beside the oracle's, ``[R, P, G, T]``, as a rollout has them.

    What an environment writes is among them.
    """
    prompts, generator = prompts_of(task), torch.Generator().manual_seed(2)
    completions = torch.randint(task.vocabulary, (R, P, G, task.cap), generator=generator)
    answers, _ = task.oracle(prompts)
    completions[:, :, 0] = answers.clamp(0, task.vocabulary - 1)
    for place in range(task.cap if hasattr(task, "environment") else 0):
        written = task.environment(prompts, completions[..., : place + 1])[..., -1]
        completions[..., place] = completions[..., place].where(written < 0, written)
    ends = completions == task.end
    mask = ends.cumsum(-1) - ends.long() == 0
    finished = ends.any(-1) if task.end >= 0 else torch.ones(R, P, G, dtype=torch.bool)
    return prompts, completions, mask, finished


def numbers_of(scores: Scores) -> dict[str, Tensor]:
    """Return all that a verdict says, as numbers by name."""
    return {**scores.components, "correct": scores.correct.to(torch.float32)}


def protocol(task: Task) -> Iterator[str]:
    """It has all that ``rlexp.tasks.Task`` asks for."""
    asked = (*Task.__annotations__, "prompts", "score", "oracle", "render")
    wanted = [name for name in asked if not hasattr(task, name)]
    if wanted:
        yield f"has no {', '.join(wanted)}"
    elif not any(task.weights.values()):
        yield "no component has a weight"
    elif not -1 <= task.end < task.vocabulary:
        yield f"end={task.end} is no token below vocabulary={task.vocabulary}, nor -1 for none"


def prompts(task: Task) -> Iterator[str]:
    """Prompts are tokens, also of the smallest and the largest number that a draw can be, and draws alone decide."""
    for number in (0.0, 0.5, BELOW_ONE):
        for held_out in (False, True):
            made = task.prompts(torch.full((R, P, task.draws), number), held_out)
            if made.shape != (R, P, task.prompt_length) or made.dtype != torch.long:
                yield f"prompts are {made.dtype} {list(made.shape)} instead of int64 {[R, P, task.prompt_length]}"
            elif not ((made >= 0) & (made < task.vocabulary)).all():
                yield f"of draws of {number} it makes a token outside 0 … {task.vocabulary - 1}"
    if not torch.equal(prompts_of(task), prompts_of(task)):
        yield "the same draws make other prompts the second time"


def scores(task: Task) -> Iterator[str]:
    """Every completion has a number a component and a verdict, and keeps them whoever else is judged."""
    given = answered(task)
    found = task.score(*given)
    if found.components.keys() != task.weights.keys():
        yield f"scores {', '.join(found.components)} and weighs {', '.join(task.weights)}"
    for name, values in {**found.components, "correct": found.correct}.items():
        if values.shape != (R, P, G):
            yield f"{name} is {list(values.shape)} instead of {[R, P, G]}"
            return
    if found.correct.dtype != torch.bool:
        yield f"correct is {found.correct.dtype} instead of bool"
    questions, *others = given
    alone = task.score(questions[1:, 3:5], *(each[1:, 3:5, :2] for each in others))
    for name, values in numbers_of(found).items():
        if not torch.equal(values[1:, 3:5, :2].nan_to_num(-7.0), numbers_of(alone)[name].nan_to_num(-7.0)):
            yield f"{name} of a completion depends on what else is judged with it"


def behind_the_end(task: Task) -> Iterator[str]:
    """Tokens behind the end change nothing."""
    questions, completions, mask, finished = answered(task)
    one, other = (
        numbers_of(task.score(questions, each, mask, finished))
        for each in (completions, completions.where(mask, max(task.pad, 0)))
    )
    for name, values in one.items():
        if not torch.equal(values.nan_to_num(-7.0), other[name].nan_to_num(-7.0)):
            yield f"{name} depends on tokens behind the end"


def reward_range(task: Task) -> Iterator[str]:
    """Rewards lie in ``reward_range``."""
    found = total_reward(task.score(*answered(task)).components, task.weights)
    least, most = task.reward_range
    outside = found[(found < least - ROUNDING) | (found > most + ROUNDING)]
    if len(outside):
        yield f"a reward of {outside[0].item():g} is outside reward_range={task.reward_range}"


def form_of(task: Task, answers: Tensor, mask: Tensor) -> Iterator[str]:
    """Say what is wrong with the form of answers, right or not: ``[R, P, T]`` with an end where the mask is not empty.

    Answers of another shape are not looked at further.
    """
    if not answers.shape == mask.shape == (R, P, task.cap):
        yield f"answers are {list(answers.shape)} with a mask {list(mask.shape)} instead of {[R, P, task.cap]}"
    elif not torch.equal(mask, torch.arange(task.cap) < mask.sum(-1, keepdim=True)):
        yield "the mask of an answer has gaps"
    elif task.end >= 0 and not ((answers == task.end) & mask).any(-1)[mask.any(-1)].all():
        yield f"an answer has no end token ({task.end})"


def oracle(task: Task) -> Iterator[str]:
    """Where the oracle shows an answer, the verifier calls it right, and it ends as completions do."""
    questions = prompts_of(task)
    answers, mask = task.oracle(questions)
    yield from form_of(task, answers, mask)
    if answers.shape == mask.shape == (R, P, task.cap):
        shown = mask.any(-1)
        scores = task.score(questions, answers.unsqueeze(2), mask.unsqueeze(2), shown.unsqueeze(-1))
        verdicts = scores.correct[..., 0]
        if not verdicts[shown].all():
            yield f"{int((~verdicts[shown]).sum())} of {int(shown.sum())} of its own answers are not right"


def corpus(task: Task) -> Iterator[str]:
    """Answers of a corpus, where there is one, are tokens and end, whatever the numbers that they are made of."""
    if not hasattr(task, "corpus"):
        return
    questions = prompts_of(task)
    for number in (0.0, 0.5, BELOW_ONE):
        answers, mask = task.corpus(questions, torch.full((R, P), number))
        yield from form_of(task, answers, mask)
        if not ((answers >= 0) & (answers < task.vocabulary) | ~mask).all():
            yield f"of numbers of {number} it makes a token outside 0 … {task.vocabulary - 1}"


def environment(task: Task) -> Iterator[str]:
    """Where a task has an environment, it writes tokens but no end, by what stands before them; its oracle has them."""
    if not hasattr(task, "environment"):
        return
    questions, completions, _, _ = answered(task)
    written = task.environment(questions, completions)
    if written.shape != completions.shape or written.dtype != torch.long:
        yield f"writes {written.dtype} {list(written.shape)} instead of int64 {list(completions.shape)}"
        return
    if not ((written >= -1) & (written < task.vocabulary)).all() or (task.end >= 0 and (written == task.end).any()):
        yield f"writes something else than tokens below {task.vocabulary}, of which {task.end} is none, and -1"
    for place in range(task.cap):
        before = completions[..., : place + 1].clone()
        before[..., place] = (before[..., place] + 1) % task.vocabulary
        if not torch.equal(task.environment(questions, before)[..., place], written[..., place]):
            yield f"what it writes at place {place} depends on the token there or on those behind it"
            return
    if not torch.equal(task.environment(questions[1:, 3:5], completions[1:, 3:5, :2]), written[1:, 3:5, :2]):
        yield "what it writes in a completion depends on what else is completed with it"
    if not isinstance(getattr(task, "train_on_environment", None), bool):
        yield "has no train_on_environment, which says whether losses see what it writes"
    answers, mask = (each.unsqueeze(2) for each in task.oracle(questions))
    written = task.environment(questions, answers)
    if (mask & (written >= 0) & (written != answers)).any():
        yield "the oracle has other tokens where the environment writes"


def render(task: Task) -> Iterator[str]:
    """Prompts and completions are one line of text each."""
    questions, completions, _, _ = answered(task)
    for tokens in (questions[0, 0].tolist(), completions[0, 0, 0].tolist()):
        text = task.render(tokens)
        if not isinstance(text, str) or "\n" in text:
            yield f"render({tokens}) is {text!r}, no line of text"


PROPERTIES: dict[str, Callable[[Task], Iterator[str]]] = {
    check.__name__.replace("_", " "): check
    for check in (protocol, prompts, scores, behind_the_end, reward_range, oracle, corpus, environment, render)
}
